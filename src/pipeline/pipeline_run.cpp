// A run of a plan: a node a group, placed together, and one that waits for all of them.
#include "pipeline/pipeline_run.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"
#include "engine/observe/trace_record.hpp"
#include "engine/stream_state.hpp"
#include "engine/submission.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace tessera::detail::engine {

using core::text;

namespace {

constexpr const char* run_label = "pipeline";
// Of the runs that are done on the spot one in so many is timed: two readings of the clock take as long as a tiny
// stage.
constexpr std::uint64_t timed_one_in = 64;

// What a run finds of its buffers.
struct Found {
  const std::size_t* freed = nullptr;  // the first one that is
  bool is_idle = true;                 // all that comes before is over
  bool is_sound = true;                // none is poisoned
};

// Under the order lock, as neither free() nor another command can come between.
Found look(const PipelinePlan& plan, const PipelineInstance& instance) {
  Found found;
  for (const std::size_t& buffer : plan.used) {
    const Storage& storage = *instance.storages[buffer];
    if (storage.is_freed.load(std::memory_order_relaxed) && !found.freed) [[unlikely]]
      found.freed = &buffer;
    const bool is_idle = plan.is_written[buffer] ? storage.hazards.can_write_now() : storage.hazards.can_read_now();
    if (!is_idle) {
      found.is_idle = false;
    } else if (storage.poison) {
      found.is_sound = false;
    }
  }
  return found;
}

// Whether all that is launched is compiled.
bool is_ready(PipelineInstance& instance) {
  if (!instance.is_ready) {
    instance.is_ready = std::ranges::all_of(instance.launches, [](const driver::Launch& launch) {
      return !launch.executable || launch.elements == 0 || launch.executable->is_ready();
    });
  }
  return instance.is_ready;
}

core::FailurePtr first_poisoned_input(DeviceState& device, const CompiledGroup& group,
                                      const PipelineInstance& instance) {
  for (std::size_t i = 0; i < group.inputs.size(); ++i) {
    const Storage& storage = *instance.storages[group.inputs[i]];
    if (!storage.poison) continue;
    return poisoned(text(describe_stage(group.stage), "[", group.label, "] command ", device.last_id, ": input ", i),
                    storage);
  }
  return nullptr;
}

// Runs all groups on the spot. Under the order lock: nobody can come near the buffers, and nobody sees the groups, so
// they need no place in the order. Returns why the first one failed.
core::FailurePtr run_small(DeviceState& device, const PipelinePlan& plan, PipelineInstance& instance, bool is_sound,
                           PipelineRun* timed) {
  core::FailurePtr first;
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    const CompiledGroup& group = plan.groups[g];
    device.next_id();
    const Clock::time_point start = timed ? Clock::now() : Clock::time_point();
    bool is_refused = false;
    if (group.kind == Work::Kind::kernel) {
      driver::Launch& launch = instance.launches[g];
      launch.command = device.last_id;
      core::FailurePtr failure;
      if (!is_sound) failure = first_poisoned_input(device, group, instance);
      is_refused = failure != nullptr;
      if (!is_refused) failure = launch_piece(*device.driver, launch, 0, group.label, group.stage);
      if (failure || !is_sound) [[unlikely]] {
        for (const std::size_t output : group.outputs) instance.storages[output]->poison = failure;
      }
      if (failure) [[unlikely]] {
        is_sound = false;
        device.remember_locked(device.last_id, Status::failed, failure);
        if (!first) first = std::move(failure);
      }
    }
    if (timed && !is_refused) timed->times[g] = {start, Clock::now()};
  }
  device.next_id();
  return first;
}

void begin(PipelineRun& run, const Request& request, std::uint64_t number) {
  run.plan = request.variant->plan;
  run.number = number;
  run.times.assign(run.plan->groups.size(), {});
  run.is_stopped = false;
  run.failure = nullptr;
  run.outcome = Status::completed;
  run.begin = Clock::now();
}

// A copy between this device and another one.
void copy_borrowed(const CompiledGroup& group, const Work& node) {
  const View& other = *Access::get(group.borrowed);
  if (group.inputs.empty()) {
    transfer(*other.storage, *node.outputs[0], other.bytes);
  } else {
    transfer(*node.inputs[0], *other.storage, other.bytes);
  }
}

// A group as a node. Under the order lock.
Work& take_node(DeviceState& device, const PipelinePlan& plan, std::size_t number, const PipelineInstance& instance,
                Work& join) {
  const CompiledGroup& group = plan.groups[number];
  Work& node = device.nodes.take(device);
  device.next_id();
  device.number_command(node);
  node.kind = group.kind;
  node.label = group.label;
  node.join = &join;
  node.group = number;
  node.stage = group.stage;
  for (const std::size_t buffer : group.inputs) node.inputs.push_back(instance.storages[buffer]);
  for (const std::size_t buffer : group.outputs) node.outputs.push_back(instance.storages[buffer]);
  node.launch = instance.launches[number];
  node.launch.command = node.id;
  const bool is_compiled = !node.launch.executable || node.launch.elements == 0 || node.launch.executable->is_ready();
  node.cost = estimated_cost(group.work) + (is_compiled ? 0 : compilation_cost);
  if (group.function) {
    node.cost = unknown_cost;
    node.host = [&group, &node] { call_host_function(group, node); };
  } else if (group.borrowed) {
    node.host = [&group, &node] { copy_borrowed(group, node); };
  }
  node.priority = join.priority;
  node.deadline = join.deadline;
  node.trace = begin_trace_record();
  return node;
}

// Whether a run needs what a buffer has before it.
bool is_read_first(const PipelinePlan& plan, std::size_t buffer) {
  const auto has = [&](const std::vector<std::size_t>& list) { return std::ranges::find(list, buffer) != list.end(); };
  for (const CompiledGroup& group : plan.groups) {
    if (has(group.inputs)) return true;
    if (has(group.outputs)) return false;
  }
  return false;
}

// All groups as one node, for a device that runs them one after the other by itself. Under the order lock.
Work& take_batch_node(DeviceState& device, const PipelinePlan& plan, const PipelineInstance& instance, Work& join) {
  Work& node = device.nodes.take(device);
  device.next_id();
  device.number_command(node);
  node.kind = Work::Kind::kernel;
  node.label = plan.groups.front().label;
  node.join = &join;
  node.group = 0;
  node.stage = plan.groups.front().stage;
  for (const std::size_t buffer : plan.used) {
    if (is_read_first(plan, buffer)) node.inputs.push_back(instance.storages[buffer]);
    if (plan.is_written[buffer]) node.outputs.push_back(instance.storages[buffer]);
  }
  node.batch = std::make_unique<Batch>(Batch{instance.launches, instance.recorded});
  node.cost = estimated_cost(0);
  node.priority = join.priority;
  node.deadline = join.deadline;
  return node;
}

// Places it, after `last` too if there is one, and what waits for it. Under the order lock.
void place_batch(DeviceState& device, const PipelinePlan& plan, const PipelineInstance& instance, Work& join,
                 engine::Ordered* last) {
  std::vector<engine::Ordered*>& earlier = device.earlier;
  std::vector<engine::Position>& parts = join.run->parts;
  parts.clear();
  join.run->parts_left = 1;
  Work& node = take_batch_node(device, plan, instance, join);
  parts.push_back({&node, node.serial()});
  earlier.clear();
  find_earlier(node, earlier);
  if (last) earlier.push_back(last);
  wait_for_all(node, earlier);
  device.next_id();
  device.number_command(join);
  earlier.assign(1, &node);
  wait_for_all(join, earlier);
}

// On the other devices, what the groups borrow of them. Under their order locks.
void place_loans(const PipelinePlan& plan, PipelineRun& run) {
  run.loans.clear();
  for (const std::size_t g : plan.borrowing) {
    const CompiledGroup& group = plan.groups[g];
    Work& out = lend(*Access::get(group.borrowed)->storage, group.outputs.empty());
    run.loans.push_back(take_back(out, static_cast<Work&>(*run.parts[g].node)));
  }
}

// Places the groups, after `last` too if there is one, and what waits for all of them. Under the order lock.
void place_run(DeviceState& device, const PipelinePlan& plan, const PipelineInstance& instance, Work& join,
               engine::Ordered* last) {
  std::vector<engine::Ordered*>& earlier = device.earlier;
  std::vector<engine::Position>& parts = join.run->parts;
  parts.clear();
  join.run->parts_left = plan.groups.size();
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    Work& node = take_node(device, plan, g, instance, join);
    parts.push_back({&node, node.serial()});
  }
  place_loans(plan, *join.run);
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    auto& node = static_cast<Work&>(*parts[g].node);
    earlier.clear();
    find_earlier(node, earlier);
    for (std::size_t i = 0; i < plan.borrowing.size(); ++i) {
      if (plan.borrowing[i] == g) earlier.push_back(join.run->loans[i].out);
    }
    for (const std::size_t before : plan.plan.groups[g].ordered_after) earlier.push_back(parts[before].node);
    if (last && plan.plan.groups[g].after.empty()) earlier.push_back(last);
    wait_for_all(node, earlier);
  }
  device.next_id();
  device.number_command(join);
  earlier.clear();
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    if (plan.plan.groups[g].is_last) earlier.push_back(parts[g].node);
  }
  if (last && plan.groups.empty()) earlier.push_back(last);
  wait_for_all(join, earlier);
}

// All waits are known: what is ready may go. A caller that waits does one of them itself.
void arm(DeviceState& device, Work& join, bool may_run_here) {
  Work* mine = nullptr;
  const auto go = [&](Work& node) {
    if (!may_run_here) return device.scheduler->push(node);
    if (Work* other = std::exchange(mine, &node)) device.scheduler->push(*other);
  };
  // With its last group the run may be over, and its record another one's.
  const engine::Position* parts = join.run->parts.data();
  const std::size_t count = join.run->parts.size();
  const std::vector<Loan> loans = std::move(join.run->loans);
  for (const Loan& loan : loans) engine::arm(loan);
  if (join.arm()) go(join);
  for (std::size_t g = 0; g < count; ++g) {
    if (auto& node = static_cast<Work&>(*parts[g].node); node.arm()) go(node);
  }
  if (!mine) return;
  // The caller will wait for the run: with a batch that is the same, a group by itself needs somebody else.
  std::optional<DeviceQueue::Attended> attended;
  if (mine->batch) attended.emplace(*mine);
  execute(*mine);
}

// `blocks`: the caller waits for it. The command, or nothing if it blocks and is done already.
Ref<Work> start(DeviceState& device, const Request& request, bool blocks) {
  PipelinePlan& plan = *request.variant->plan;
  StreamState* stream = request.stream;
  bool is_dropped = false;
  if (core::FailurePtr full = enter(stream, run_label, &is_dropped)) {
    return device.refuse(run_label, Status::failed, std::move(full));
  }
  const bool may_run_here = device.scheduler->may_use_caller();
  const bool is_small =
      plan.is_small && may_run_here && !device.queue && !is_dropped && !trace_is_on.load(std::memory_order_relaxed);
  OrderLocks order(device, plan.lenders);
  PipelineInstance* instance = nullptr;
  Found found;
  core::FailurePtr wrong;
  try {
    order.lock();
    instance = &take_instance(device, plan, order);
    bind(request, plan, *instance);
    found = look(plan, *instance);
    for (const std::size_t g : plan.borrowing) {
      const Storage& borrowed = *Access::get(plan.groups[g].borrowed)->storage;
      if (!borrowed.is_freed.load(std::memory_order_relaxed)) continue;
      wrong = unusable(text("[", run_label, "] what ", describe_stage(plan.groups[g].stage), "[copy] uses"), borrowed);
    }
    if (found.freed) {
      wrong = unusable(text("[", run_label, "] ", plan.graph.buffers[*found.freed].name),
                       *instance->storages[*found.freed]);
    }
    for (const std::size_t buffer : plan.used) {
      if (!blocks || found.is_idle || wrong) break;
      wrong = wait_for_own_call(*instance->storages[buffer], plan.is_written[buffer], run_label);
    }
  } catch (const Error& error) {
    wrong = error.failure();
  }
  if (wrong) [[unlikely]] {
    if (order.owns_lock()) order.unlock();
    if (stream) stream->left_at_once();
    return device.refuse(run_label, Status::failed, std::move(wrong));
  }

  const std::uint64_t number = request.log->next_number();
  engine::Ordered* last = stream && stream->options.in_order ? stream->last.pending() : nullptr;
  if (is_small && found.is_idle && !last && is_ready(*instance)) {
    std::unique_ptr<PipelineRun> timed;
    if (number % timed_one_in == 1) begin(*(timed = request.log->take()), request, number);
    core::FailurePtr failure = run_small(device, plan, *instance, found.is_sound, timed.get());
    const Status status = failure ? Status::failed : Status::completed;
    Ref<Work> ended;
    if (!blocks || failure) ended = ended_command(device, run_label, status, std::move(failure));
    order.unlock();
    if (timed) {
      timed->end = Clock::now();
      timed->outcome = status;
      request.log->keep(std::move(timed));
    }
    if (stream) stream->left_at_once();
    return ended;
  }

  Work& join = device.nodes.take(device);
  join.kind = Work::Kind::join;
  join.label = run_label;
  join.launch.bytes = 0;
  join.cost = estimated_cost(0);
  join.trace = begin_trace_record();
  join.run = request.log->take();
  begin(*join.run, request, number);
  join.run->log = request.log;
  if (stream) {
    join.priority = stream->options.priority;
    join.stream = Ref<StreamState>(stream);
    if (stream->options.deadline.count() > 0) join.deadline = from_now(stream->options.deadline);
  }
  // Each group by itself where each has something to tell: what it is refused for, or when it ran.
  const bool is_batch = device.queue && plan.is_all_kernels && found.is_idle && found.is_sound && !join.trace;
  if (is_batch) {
    place_batch(device, plan, *instance, join, last);
  } else {
    place_run(device, plan, *instance, join, last);
  }
  if (stream && stream->options.in_order) stream->last = {&join, join.serial()};
  order.unlock();

  Ref<Work> command(&join);
  if (stream) stream->entered(join);
  // Dropped before it could begin, it takes its place all the same: its outputs are poisoned in their turn.
  if (is_dropped) cancel(join, Errc::cancelled, dropped);
  arm(device, join, blocks && may_run_here);
  return command;
}

Ref<Work> start(PipelineState& pipeline, const Bindings& bindings, StreamState* stream, bool blocks) {
  pipeline.device->expect_own_process();
  std::vector<BindingProblem> problems;
  const std::shared_ptr<const PipelineVariant> variant = pipeline.variant(bindings, problems);
  if (stream && stream->device != pipeline.device) {
    throw Error(Errc::wrong_device, text("pipeline: the stream is one of another device, ", stream->device->name()));
  }
  Request request{variant, pipeline.log, {}, stream};
  if (!variant->plan->slots.empty()) find_slots(*pipeline.device, bindings, request, problems);
  if (!problems.empty()) [[unlikely]]
    throw_problems(problems);
  return start(*pipeline.device, request, blocks);
}

}  // namespace

void PipelineState::run(const Bindings& bindings, StreamState* stream) {
  const Ref<Work> command = start(*this, bindings, stream, true);
  if (!command) return;
  wait(*command, Clock::time_point::max());
  throw_if_failed(*command);
}

Ref<Work> PipelineState::submit(const Bindings& bindings, StreamState* stream) {
  try {
    return start(*this, bindings, stream, false);
  } catch (const Error& error) {
    return device->refuse(run_label, Status::failed, error.failure());
  }
}

Ref<Work> start_plan(DeviceState& device, const std::shared_ptr<const PipelineVariant>& variant,
                     const std::shared_ptr<RunLog>& log, std::span<Storage* const> bound, StreamState* stream) {
  device.expect_own_process();
  Request request{variant, log, {}, stream};
  for (Storage* slot : bound) request.slots.push_back(slot);
  return start(device, request, false);
}

}  // namespace tessera::detail::engine
