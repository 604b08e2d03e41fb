// A run of a plan: a node a group, placed together, and one that waits for all of them.
#include <tessera/error.hpp>

#include "core/text.hpp"
#include "runtime/pipeline_state.hpp"
#include "runtime/stream_state.hpp"
#include "runtime/submit.hpp"
#include "runtime/trace_record.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace tessera::detail {

using core::text;

std::unique_ptr<PipelineRun> RunLog::take() {
  const std::scoped_lock lock(mutex_);
  if (free_.empty()) return std::make_unique<PipelineRun>();
  std::unique_ptr<PipelineRun> run = std::move(free_.back());
  free_.pop_back();
  return run;
}

void RunLog::keep(std::unique_ptr<PipelineRun> run) {
  run->log = nullptr;                             // it would keep this log
  std::shared_ptr<const PipelinePlan> forgotten;  // goes after the lock
  const std::scoped_lock lock(mutex_);
  last_.swap(run);
  if (!run) return;
  forgotten = std::move(run->plan);
  run->failure = nullptr;
  free_.push_back(std::move(run));
}

namespace {

constexpr const char* run_label = "pipeline";
// Of the runs that are done on the spot one in so many is timed: two readings of the clock take as long as a tiny
// stage.
constexpr std::uint64_t timed_one_in = 64;

// What a run is asked for with.
struct Request {
  const std::shared_ptr<const PipelineVariant>& variant;
  const std::shared_ptr<RunLog>& log;
  core::InlineVector<Storage*, 8> slots;  // in the order of the plan's
  StreamState* stream;
};

// Null for a slot before the run has brought it, and for what was fused away.
std::byte* address_of(const PipelineInstance& instance, std::size_t operand) {
  const Storage* storage = operand == graph::FusedProgram::nowhere ? nullptr : instance.storages[operand];
  return storage ? storage->block.address : nullptr;
}

std::unique_ptr<PipelineInstance> make_instance(DeviceState& device, const PipelinePlan& plan) {
  auto instance = std::make_unique<PipelineInstance>();
  for (const graph::Place& place : plan.plan.places) {
    instance->places.push_back(allocate(device, Shape(place.bytes), u8, false));
  }
  instance->storages.resize(plan.graph.buffers.size());
  for (std::size_t buffer = 0; buffer < plan.graph.buffers.size(); ++buffer) {
    if (const auto& place = plan.plan.place_of[buffer]) {
      instance->storages[buffer] = instance->places[*place].view()->storage;
    } else if (plan.buffers[buffer]) {
      instance->storages[buffer] = plan.buffers[buffer].view()->storage;
    }
  }
  for (const CompiledGroup& group : plan.groups) {
    driver::Launch& launch = instance->launches.emplace_back(group.launch);
    for (std::size_t i = 0; i < group.operands.size(); ++i)
      launch.buffers[i] = address_of(*instance, group.operands[i]);
  }
  if (device.queue) instance->recorded = std::make_shared<RecordedLaunches>();
  return instance;
}

PipelineInstance* idle_instance(const PipelinePlan& plan) {
  const auto found = std::ranges::find_if(plan.instances, [](const auto& instance) { return instance->is_idle(); });
  return found == plan.instances.end() ? nullptr : found->get();
}

// An idle instance, a new one, or one that is in use: then the buffers order this run after those before it.
// Errc::out_of_memory if there is none at all.
PipelineInstance& take_instance(DeviceState& device, PipelinePlan& plan, OrderLocks& order) {
  if (PipelineInstance* idle = idle_instance(plan)) return *idle;
  if (plan.instances.size() < PipelinePlan::most_instances) {
    order.unlock();
    const std::scoped_lock growing(plan.growing);
    order.lock();
    if (PipelineInstance* idle = idle_instance(plan)) return *idle;
    if (plan.instances.size() < PipelinePlan::most_instances) {
      order.unlock();
      std::unique_ptr<PipelineInstance> made;
      try {
        made = make_instance(device, plan);
      } catch (const Error&) {
        if (plan.instances.empty()) throw;
      }
      order.lock();
      if (made) return *plan.instances.emplace_back(std::move(made));
    }
  }
  return *plan.instances[plan.next_instance++ % plan.instances.size()];
}

// The instance's launches for this run. Under the order lock.
void bind(const Request& request, const PipelinePlan& plan, PipelineInstance& instance) {
  for (std::size_t i = 0; i < plan.slots.size(); ++i) instance.storages[plan.slots[i]] = request.slots[i];
  if (!plan.slots.empty()) {
    for (std::size_t g = 0; g < plan.groups.size(); ++g) {
      const std::vector<std::size_t>& operands = plan.groups[g].operands;
      for (std::size_t i = 0; i < operands.size(); ++i) {
        instance.launches[g].buffers[i] = address_of(instance, operands[i]);
      }
    }
  }
  for (const PipelineVariant::Patch& patch : request.variant->patches) {
    instance.launches[patch.group].scalars.assign(patch.scalars.data(), patch.scalars.size());
  }
}

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
    if (group.kind == Node::Kind::kernel) {
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
void copy_borrowed(const CompiledGroup& group, const Node& node) {
  const View& other = *group.borrowed.view();
  if (group.inputs.empty()) {
    transfer(*other.storage, *node.outputs[0], other.bytes);
  } else {
    transfer(*node.inputs[0], *other.storage, other.bytes);
  }
}

// A group as a node. Under the order lock.
Node& take_node(DeviceState& device, const PipelinePlan& plan, std::size_t number, const PipelineInstance& instance,
                Node& join) {
  const CompiledGroup& group = plan.groups[number];
  Node& node = device.nodes.take(device);
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
Node& take_batch_node(DeviceState& device, const PipelinePlan& plan, const PipelineInstance& instance, Node& join) {
  Node& node = device.nodes.take(device);
  device.next_id();
  device.number_command(node);
  node.kind = Node::Kind::kernel;
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
void place_batch(DeviceState& device, const PipelinePlan& plan, const PipelineInstance& instance, Node& join,
                 graph::Node* last) {
  std::vector<graph::Node*>& earlier = device.earlier;
  std::vector<graph::Position>& parts = join.run->parts;
  parts.clear();
  join.run->parts_left = 1;
  Node& node = take_batch_node(device, plan, instance, join);
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
    Node& out = lend(*group.borrowed.view()->storage, group.outputs.empty());
    run.loans.push_back(take_back(out, static_cast<Node&>(*run.parts[g].node)));
  }
}

// Places the groups, after `last` too if there is one, and what waits for all of them. Under the order lock.
void place_run(DeviceState& device, const PipelinePlan& plan, const PipelineInstance& instance, Node& join,
               graph::Node* last) {
  std::vector<graph::Node*>& earlier = device.earlier;
  std::vector<graph::Position>& parts = join.run->parts;
  parts.clear();
  join.run->parts_left = plan.groups.size();
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    Node& node = take_node(device, plan, g, instance, join);
    parts.push_back({&node, node.serial()});
  }
  place_loans(plan, *join.run);
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    auto& node = static_cast<Node&>(*parts[g].node);
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
void arm(DeviceState& device, Node& join, bool may_run_here) {
  Node* mine = nullptr;
  const auto go = [&](Node& node) {
    if (!may_run_here) return device.scheduler->push(node);
    if (Node* other = std::exchange(mine, &node)) device.scheduler->push(*other);
  };
  // With its last group the run may be over, and its record another one's.
  const graph::Position* parts = join.run->parts.data();
  const std::size_t count = join.run->parts.size();
  const std::vector<Loan> loans = std::move(join.run->loans);
  for (const Loan& loan : loans) detail::arm(loan);
  if (join.arm()) go(join);
  for (std::size_t g = 0; g < count; ++g) {
    if (auto& node = static_cast<Node&>(*parts[g].node); node.arm()) go(node);
  }
  if (!mine) return;
  // The caller will wait for the run: with a batch that is the same, a group by itself needs somebody else.
  std::optional<DeviceQueue::Attended> attended;
  if (mine->batch) attended.emplace(*mine);
  execute(*mine);
}

// `blocks`: the caller waits for it. The command, or nothing if it blocks and is done already.
Ref<Node> start(DeviceState& device, const Request& request, bool blocks) {
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
      const Storage& borrowed = *plan.groups[g].borrowed.view()->storage;
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
  graph::Node* last = stream && stream->options.in_order ? stream->last.pending() : nullptr;
  if (is_small && found.is_idle && !last && is_ready(*instance)) {
    std::unique_ptr<PipelineRun> timed;
    if (number % timed_one_in == 1) begin(*(timed = request.log->take()), request, number);
    core::FailurePtr failure = run_small(device, plan, *instance, found.is_sound, timed.get());
    const Status status = failure ? Status::failed : Status::completed;
    Ref<Node> ended;
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

  Node& join = device.nodes.take(device);
  join.kind = Node::Kind::join;
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

  Ref<Node> command(&join);
  if (stream) stream->entered(join);
  // Dropped before it could begin, it takes its place all the same: its outputs are poisoned in their turn.
  if (is_dropped) cancel(join, Errc::cancelled, dropped);
  arm(device, join, blocks && may_run_here);
  return command;
}

Storage& checked_slot(const DeviceState& device, const graph::PipelineBuffer& slot, const Binding& binding) {
  const auto what = [&] { return text("the buffer for the slot '", slot.name, "'"); };
  const View* view = binding.buffer.view();
  if (!view) throw Error(Errc::invalid_argument, what() + " is an empty handle");
  Storage& storage = *view->storage;
  if (storage.device.get() != &device) {
    throw Error(Errc::wrong_device, text(what(), " lives on another device: ", storage.device->driver->info().name,
                                         ", not ", device.driver->info().name));
  }
  if (!storage.placeholder.empty()) throw Error(unusable(what(), storage));
  if (view->dtype != slot.dtype || view->shape != slot.shape) {
    throw Error(view->dtype != slot.dtype ? Errc::dtype_mismatch : Errc::shape_mismatch,
                text(what(), " must be ", to_string(slot.dtype, slot.shape), ", got ", describe(*view)));
  }
  return storage;
}

// The plan was made for buffers that are different ones.
void check_different(const PipelinePlan& plan, const Request& request, std::size_t index) {
  const std::size_t slot = plan.slots[index];
  const auto check = [&](std::size_t other, const Storage* storage) {
    if (storage != request.slots[index] || !(plan.is_written[slot] || plan.is_written[other])) return;
    throw Error(Errc::invalid_argument, text("the buffer for the slot '", plan.graph.buffers[slot].name, "' is ",
                                             plan.graph.buffers[other].name, " too, and the pipeline writes it"));
  };
  for (std::size_t i = 0; i < index; ++i) check(plan.slots[i], request.slots[i]);
  for (const std::size_t buffer : plan.used) {
    if (plan.buffers[buffer]) check(buffer, plan.buffers[buffer].view()->storage);
  }
}

void find_slots(const DeviceState& device, const Bindings& bindings, Request& request,
                std::vector<BindingProblem>& problems) {
  const PipelinePlan& plan = *request.variant->plan;
  for (const std::size_t number : plan.slots) {
    const graph::PipelineBuffer& slot = plan.graph.buffers[number];
    const Binding* bound = nullptr;
    for (std::size_t i = 0; i < bindings.size() && !bound; ++i) {
      if (bindings[i].is_buffer && bindings[i].name == slot.name) bound = &bindings[i];
    }
    request.slots.push_back(nullptr);
    try {
      if (bound) {
        request.slots[request.slots.size() - 1] = &checked_slot(device, slot, *bound);
        check_different(plan, request, request.slots.size() - 1);
      } else if (std::ranges::binary_search(plan.used, number)) {
        throw Error(Errc::invalid_argument, text("the slot '", slot.name, "', ", to_string(slot.dtype, slot.shape),
                                                 ", has no buffer in this run"));
      }
    } catch (const Error& error) {
      problems.push_back({error.code(), error.what()});
    }
  }
}

// All that is wrong with the bindings as one Error.
[[noreturn]] void throw_problems(const std::vector<BindingProblem>& problems) {
  if (problems.size() == 1) throw Error(problems.front().code, text("pipeline: ", problems.front().what));
  std::string message = text("pipeline: ", problems.size(), " problems:");
  for (const BindingProblem& problem : problems) message += text("\n  ", problem.what);
  throw Error(problems.front().code, message);
}

Ref<Node> start(PipelineState& pipeline, const Bindings& bindings, StreamState* stream, bool blocks) {
  std::vector<BindingProblem> problems;
  const std::shared_ptr<const PipelineVariant> variant = pipeline.variant(bindings, problems);
  if (stream && stream->device != pipeline.device) {
    throw Error(Errc::wrong_device,
                text("pipeline: the stream is one of another device, ", stream->device->driver->info().name));
  }
  Request request{variant, pipeline.log, {}, stream};
  if (!variant->plan->slots.empty()) find_slots(*pipeline.device, bindings, request, problems);
  if (!problems.empty()) [[unlikely]]
    throw_problems(problems);
  return start(*pipeline.device, request, blocks);
}

}  // namespace

bool PipelineInstance::is_idle() const noexcept {
  return std::ranges::all_of(places,
                             [](const Buffer& place) { return place.view()->storage->hazards.can_write_now(); });
}

void PipelineState::run(const Bindings& bindings, StreamState* stream) {
  const Ref<Node> command = start(*this, bindings, stream, true);
  if (!command) return;
  wait(*command, Clock::time_point::max());
  throw_if_failed(*command);
}

Ref<Node> PipelineState::submit(const Bindings& bindings, StreamState* stream) {
  try {
    return start(*this, bindings, stream, false);
  } catch (const Error& error) {
    return device->refuse(run_label, Status::failed, error.failure());
  }
}

Ref<Node> start_plan(DeviceState& device, const std::shared_ptr<const PipelineVariant>& variant,
                     const std::shared_ptr<RunLog>& log, std::span<Storage* const> bound, StreamState* stream) {
  Request request{variant, log, {}, stream};
  for (Storage* slot : bound) request.slots.push_back(slot);
  return start(device, request, false);
}

void drop_instances(DeviceState& device, PipelinePlan& plan) {
  std::vector<std::unique_ptr<PipelineInstance>> unneeded;  // they go after the locks
  const std::scoped_lock growing(plan.growing);
  const std::scoped_lock order(device.order);
  unneeded.swap(plan.instances);
}

void note_start(Node& node) noexcept {
  const Clock::time_point now = Clock::now();
  std::vector<PipelineRun::Time>& times = node.join->run->times;
  if (!node.batch) {
    times[node.group].start = now;
  } else {
    for (PipelineRun::Time& time : times) time.start = now;
  }
}

namespace {

// Whether the run is over now, before its groups have left the order, and the caller is the one to say so. Under the
// run's lock.
bool try_end(Node& join) noexcept {
  // One that has not begun is cancelled as a whole, by somebody else.
  const bool is_running = join.status() == Status::running;
  return join.run->is_stopped && join.run->parts_left == 0 && join.run->failure && is_running && join.try_claim();
}

}  // namespace

Ref<Node> note_end(Node& node) noexcept {
  Node& join = *node.join;
  PipelineRun& run = *join.run;
  const std::scoped_lock lock(run.lock);
  PipelineRun::Time& time = run.times[node.group];
  if (time.start != Clock::time_point()) time.end = Clock::now();
  if (node.batch) run.times.assign(run.times.size(), time);
  if (node.failure && (!run.failure || node.group < run.failed_group)) {
    run.failed_group = node.group;
    run.failure = node.failure;
    run.outcome = node.outcome;
  }
  --run.parts_left;
  return try_end(join) ? Ref<Node>(&join) : Ref<Node>();
}

void keep_times(Node& join) noexcept {
  std::unique_ptr<PipelineRun> run;
  {
    const std::scoped_lock lock(join.failure_lock);  // stop_run may look
    run = std::move(join.run);
  }
  run->end = Clock::now();
  run->outcome = join.outcome;
  const std::shared_ptr<RunLog> log = run->log;
  log->keep(std::move(run));
}

void stop_run(Node& join, Errc reason, std::string_view why) {
  std::vector<Ref<Node>> parts;
  {
    // No node begins another life under the order lock, and no record goes under the join's.
    const std::scoped_lock order(join.device->order);
    const std::scoped_lock lock(join.failure_lock);
    if (!join.run) return;
    for (const graph::Position& part : join.run->parts) {
      if (part.node->serial() != part.serial) continue;
      if (Ref<Node> shared = NodePool::try_share(static_cast<Node&>(*part.node))) parts.push_back(std::move(shared));
    }
    const std::scoped_lock run_lock(join.run->lock);
    join.run->is_stopped = true;
  }
  for (const Ref<Node>& part : parts) cancel(*part, reason, why);
  bool is_over = false;
  {
    const std::scoped_lock lock(join.failure_lock);
    if (!join.run) return;
    const std::scoped_lock run_lock(join.run->lock);
    is_over = try_end(join);
  }
  if (is_over) end_stopped(join);
}

}  // namespace tessera::detail
