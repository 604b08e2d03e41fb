#include "engine/submission.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"
#include "engine/call.hpp"
#include "engine/execution.hpp"
#include "engine/observe/trace_record.hpp"
#include "engine/placement.hpp"
#include "engine/schedule/timer.hpp"
#include "engine/self_wait.hpp"
#include "engine/stream_state.hpp"

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace tessera::detail::engine {

using core::text;

namespace {

const std::vector<DeviceState*> no_lenders;
constexpr std::string_view dropped = "was dropped: its stream is full of started commands";

// Runs a group on this thread, as the command with this number. Under the order lock, with nothing ahead of it: nothing
// else can use its buffers meanwhile, so it needs no position in the order. `is_refused` is set if an input is
// poisoned. Inlined: a function call would be a tenth of a tiny command.
[[gnu::always_inline]] inline core::FailurePtr run_here(DeviceState& device, BoundGroup& group, CommandId id,
                                                        bool is_sound, bool* is_refused) {
  core::FailurePtr failure;
  if (!is_sound) [[unlikely]] {
    failure = first_poisoned_input(group.inputs, true,
                                   [&] { return text(group.context, "[", group.label, "] command ", id); });
    *is_refused = failure != nullptr;
  }
  if (!failure && group.kind == Work::Kind::kernel) [[likely]] {
    group.launch.command = id;
    failure = launch_piece(*device.driver, group.launch, 0, group.label, group.context);
  }
  if (failure || !is_sound) [[unlikely]] {
    for (Storage* output : group.outputs) output->poison = failure;
  }
  return failure;
}

// Runs all groups of a run on this thread. Returns the first failure.
core::FailurePtr run_all_here(DeviceState& device, std::span<BoundGroup> groups, bool is_sound, RunTracker* timed) {
  core::FailurePtr first;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const CommandId id = device.commands.next();
    const Clock::time_point start = timed ? Clock::now() : Clock::time_point();
    bool is_refused = false;
    core::FailurePtr failure = run_here(device, groups[g], id, is_sound, &is_refused);
    if (timed && !is_refused) timed->set_time(g, {start, Clock::now()});
    if (failure) [[unlikely]] {
      is_sound = false;
      device.commands.remember(id, Status::failed, failure);
      if (!first) first = std::move(failure);
    }
  }
  return first;
}

void set_stream(Work& work, StreamState* stream) {
  if (!stream) return;
  work.priority = stream->options.priority;
  work.stream = Ref<StreamState>(stream);
  if (stream->options.deadline.count() > 0) work.deadline = from_now(stream->options.deadline);
}

// The state of a submission's buffers.
struct Found {
  const Storage* freed = nullptr;  // the first freed buffer
  std::size_t freed_index = 0;
  bool is_idle = true;   // nothing in flight conflicts with the submission
  bool is_sound = true;  // none is poisoned
};

// Each kind of submission is a class with what is specific to it; the rest is submit_as() below. No virtual functions,
// so that a small command takes some 100 ns in total.

// A command: one group.
struct CommandSource {
  static constexpr bool is_command = true;    // it has a number
  static constexpr bool traces_small = true;  // small work runs on this thread even while tracing

  BoundGroup& group;
  StreamState* stream;

  static const std::vector<DeviceState*>& lenders() { return no_lenders; }
  std::string_view label() const { return group.label; }
  bool is_small() const { return group.launch.cost <= plan::small_bytes && group.is_compiled(); }
  bool is_compiled() const { return true; }  // if it is small
  void bind(OrderLocks&) const {}

  // Calls look(storage, writes, index) for each buffer.
  template <class Look>
  void each_use(Look&& look) const {
    look(*group.outputs[0], true, 0);
    for (std::size_t i = 0; i < group.inputs.size(); ++i) look(*group.inputs[i], false, i + 1);
  }
  std::string name_of(std::size_t use) const {
    return use == 0 ? text("[", group.label, "] output") : text("[", group.label, "] input ", use - 1);
  }
  core::FailurePtr other_problem() const { return nullptr; }
  Ref<Work> refuse(DeviceState& device, core::FailurePtr why, bool poisons) const {
    const std::span<Storage* const> outputs(group.outputs.data(), group.outputs.size());
    return engine::refuse(device, group.label, std::move(why), poisons ? outputs : std::span<Storage* const>());
  }

  core::FailurePtr run_small(DeviceState& device, bool is_sound) const {
    bool is_refused = false;
    return run_here(device, group, device.commands.next(), is_sound, &is_refused);
  }
  void finished_small(Status) const {}
  std::int64_t bytes() const { return group.launch.bytes; }

  Work& place(DeviceState& device, StreamState* in, Ordered* last, const Found&, std::unique_ptr<TraceRecord> trace) {
    device.commands.next();
    Taken taken = take_work(device, group);
    Work& work = *taken;
    device.commands.add(work);
    work.launch.command = work.id;
    work.trace = std::move(trace);
    set_stream(work, in);
    engine::place(work, std::span(&last, last ? 1 : 0));
    return taken.keep();
  }
  void arm(DeviceState& device, Work& work, bool may_run_here) const { engine::arm(device, work, may_run_here); }
};

// A read, a write or another host function that is not a command.
struct HostSource {
  static constexpr bool is_command = false;
  static constexpr bool traces_small = false;
  static constexpr StreamState* stream = nullptr;

  HostWork& work;

  static const std::vector<DeviceState*>& lenders() { return no_lenders; }
  std::string_view label() const { return work.label; }
  bool is_small() const { return work.storage && work.bytes <= plan::small_bytes; }
  bool is_compiled() const { return true; }
  void bind(OrderLocks&) const {}

  template <class Look>
  void each_use(Look&& look) const {
    if (work.storage) look(*work.storage, work.writes, 0);
  }
  std::string name_of(std::size_t) const { return text("[", work.label, "] the buffer"); }
  core::FailurePtr other_problem() const { return nullptr; }
  [[noreturn]] Ref<Work> refuse(DeviceState&, core::FailurePtr why, bool) const { throw Error(std::move(why)); }

  core::FailurePtr run_small(DeviceState&, bool is_sound) const {
    if (!is_sound && !work.heals) {
      core::FailurePtr failure = poisoned(name_of(0), *work.storage);
      core::set_seen(*failure);
      throw Error(std::move(failure));
    }
    work.function();
    if (work.heals) work.storage->poison = nullptr;
    return nullptr;
  }
  void finished_small(Status) const {}
  std::int64_t bytes() const { return work.bytes; }

  Work& place(DeviceState& device, StreamState*, Ordered*, const Found&, std::unique_ptr<TraceRecord> trace) const {
    Taken taken = take_host_work(device, work.label);
    Work& placed = *taken;
    // A partial write leaves some contents as they are, so these must be valid.
    if (work.storage && !work.heals) placed.inputs.push_back(work.storage);
    if (work.storage && work.writes) placed.outputs.push_back(work.storage);
    placed.heals = work.heals;
    placed.host = std::move(work.function);
    placed.launch.bytes = work.bytes;
    placed.cost = estimated_cost(work.bytes);
    placed.trace = std::move(trace);
    engine::place(placed);
    return taken.keep();
  }
  void arm(DeviceState& device, Work& placed, bool may_run_here) const { engine::arm(device, placed, may_run_here); }
};

// A run of a plan: several groups, and a barrier that is the command.
struct RunSource {
  static constexpr bool is_command = true;
  static constexpr bool traces_small = false;
  // Of the runs on the submitting thread only one in this many is timed: reading the clock twice takes as long as a
  // tiny stage.
  static constexpr std::uint64_t timed_one_in = 64;

  DeviceState& device;
  const PlanRun& run;
  StreamState* stream;
  ExecutablePlan& plan;
  PlanInstance* instance = nullptr;
  std::unique_ptr<RunTracker> timed = nullptr;
  RunTracker* tracker = nullptr;
  Unarmed unarmed = {};

  const std::vector<DeviceState*>& lenders() const { return plan.lenders; }
  std::string_view label() const { return run_label; }
  bool is_small() const { return plan.is_small; }
  // Asked each time: code that was not used for long may be unloaded, and must not be loaded under the order lock.
  bool is_compiled() const { return std::ranges::all_of(instance->groups, &BoundGroup::is_compiled); }
  void bind(OrderLocks& order) {
    instance = &take_instance(device, plan, order);
    engine::bind(*run.variant, run.slots, *instance);
  }

  template <class Look>
  void each_use(Look&& look) const {
    const std::vector<BufferUse>& uses = instance->uses;
    for (std::size_t i = 0; i < uses.size(); ++i) look(*uses[i].storage, uses[i].writes, i);
  }
  std::string name_of(std::size_t use) const {
    return text("[", run_label, "] ", core::shortened(plan.graph.buffers[plan.used[use]].name));
  }
  core::FailurePtr other_problem() const {
    for (const std::size_t g : plan.borrowing) {
      const Storage& borrowed = *plan.borrowed[g]->storage;
      if (!borrowed.is_freed.load(std::memory_order_relaxed)) continue;
      return unusable(text("[", run_label, "] the other device's buffer of ", plan.groups[g].context, "[copy]"),
                      borrowed);
    }
    return nullptr;
  }
  Ref<Work> refuse(DeviceState&, core::FailurePtr why, bool poisons) const {
    std::vector<Storage*> outputs;
    if (poisons && instance) {
      for (std::size_t i = 0; i < plan.used.size(); ++i) {
        const bool is_own = plan.graph.buffers[plan.used[i]].kind == plan::GraphBuffer::Kind::temporary;
        if (!is_own && instance->uses[i].writes) outputs.push_back(instance->uses[i].storage);
      }
    }
    return engine::refuse(device, run_label, std::move(why), outputs);
  }

  std::unique_ptr<RunTracker> track(std::uint64_t number) const {
    std::unique_ptr<RunTracker> made = run.log->take();
    made->begin(run.variant->plan, number);
    return made;
  }
  core::FailurePtr run_small(DeviceState&, bool is_sound) {
    const std::uint64_t number = run.log->next_number();
    try {
      if (number % timed_one_in == 1) timed = track(number);
    } catch (const std::bad_alloc&) {  // then another one is timed
    }
    core::FailurePtr failure = run_all_here(device, instance->groups, is_sound, timed.get());
    device.commands.next();
    return failure;
  }
  void finished_small(Status outcome) {
    if (!timed) return;
    timed->finish_here(outcome);
    run.log->keep(std::move(timed));
  }
  std::int64_t bytes() const { return 0; }

  Work& place(DeviceState&, StreamState* in, Ordered* last, const Found& found, std::unique_ptr<TraceRecord> trace) {
    Taken taken(device.works.take(device));
    Work& barrier = *taken;
    barrier.kind = Work::Kind::barrier;
    barrier.label = run_label;
    barrier.launch.bytes = 0;
    barrier.cost = estimated_cost(0);
    set_stream(barrier, in);
    // Separate items if each may have something to report: why it was refused, or when it ran.
    const bool is_sequence = device.queue && plan.is_all_kernels && found.is_idle && found.is_sound && !trace;
    barrier.trace = std::move(trace);
    std::unique_ptr<RunTracker> tracked = track(run.log->next_number());
    tracked->follow(barrier, is_sequence, run.log);
    const Run placed{plan, *instance, *tracked, barrier};
    if (is_sequence) {
      place_sequence(placed, last, unarmed);
    } else {
      engine::place(placed, last, unarmed);
    }
    tracker = tracked.release();  // the barrier owns it from now on
    return taken.keep();
  }
  void arm(DeviceState&, Work& barrier, bool may_run_here) const { arm_run(device, *tracker, barrier, may_run_here); }
};

// Under the order lock, so that neither free() nor another submission can intervene.
template <class Source>
Found look(const Source& source) {
  Found found;
  source.each_use([&](const Storage& storage, bool writes, std::size_t index) {
    if (storage.is_freed.load(std::memory_order_relaxed) && !found.freed) [[unlikely]] {
      found.freed = &storage;
      found.freed_index = index;
    }
    const bool is_idle = writes ? storage.hazards.can_write_now() : storage.hazards.can_read_now();
    if (!is_idle) {
      found.is_idle = false;
    } else if (storage.poison) [[unlikely]] {
      found.is_sound = false;
    }
  });
  return found;
}

// Why the submission must be refused; null if it need not. `waits`: the caller blocks. Under the order lock.
template <class Source>
core::FailurePtr refusal(const Source& source, const Found& found, bool waits) {
  if (core::FailurePtr problem = source.other_problem()) return problem;
  if (found.freed) [[unlikely]]
    return unusable(source.name_of(found.freed_index), *found.freed);
  core::FailurePtr own;
  if (waits && !found.is_idle) {
    source.each_use([&](const Storage& storage, bool writes, std::size_t) {
      if (!own) own = self_wait(storage, writes, source.label());
    });
  }
  return own;
}

// The steps that every submission takes.
template <class Source>
Ref<Work> submit_as(DeviceState& device, Source source, Wants wants) {
  // Enter the stream. A command that a full stream drops is submitted nevertheless, and cancelled, so that its output
  // is poisoned in its turn.
  StreamState* stream = source.stream;
  bool is_dropped = false;
  if (stream) {
    core::FailurePtr full = enter(stream, source.label(), &is_dropped);
    if (full) return source.refuse(device, std::move(full), false);  // as its policy says: the old contents stay valid
  }

  // Check.
  std::unique_ptr<TraceRecord> trace = begin_trace_record();
  const bool may_run_here = device.scheduler->may_use_caller();
  const bool may_be_small =
      source.is_small() && may_run_here && !is_dropped && !device.queue && (Source::traces_small || !trace);
  OrderLocks order(device, source.lenders());
  Found found;
  core::FailurePtr wrong;
  try {
    order.lock();
    source.bind(order);
    found = look(source);
    wrong = refusal(source, found, wants == Wants::end || !Source::is_command);
    device.works.reserve_one();  // for a command that has finished
  } catch (const Error& error) {
    wrong = error.failure();
  } catch (const std::bad_alloc&) {
    wrong = core::out_of_memory();
  }
  const auto refuse_it = [&] {
    if (order.owns_lock()) order.unlock();
    if (stream) stream->left_at_once();
    return source.refuse(device, std::move(wrong), wants == Wants::command);
  };
  if (wrong) [[unlikely]]
    return refuse_it();
  const bool in_order = stream && stream->options.in_order;
  Ordered* last = in_order ? stream->last.pending() : nullptr;

  // Run small work here.
  if (may_be_small && found.is_idle && !last && source.is_compiled()) {
    if (trace) trace_start(*trace);
    core::FailurePtr failure = source.run_small(device, found.is_sound);
    const Status status = failure ? Status::failed : Status::completed;
    const CommandId id = device.commands.last();
    Ref<Work> ended;
    if (Source::is_command && (wants == Wants::command || failure)) {
      ended = take_ended(device, source.label(), status, std::move(failure));
    }
    order.unlock();
    source.finished_small(status);
    if (trace) trace_end(*trace, {device.number, id, source.label(), source.bytes(), status});
    if (stream) stream->left_at_once();
    return ended;
  }

  // Place and arm.
  Work* placed = nullptr;
  try {
    placed = &source.place(device, stream, last, found, std::move(trace));
  } catch (const std::bad_alloc&) {
    wrong = core::out_of_memory();
    return refuse_it();
  }
  Work& work = *placed;
  if (in_order) stream->last = {&work, work.serial()};
  order.unlock();
  Ref<Work> command(&work);
  try {
    if (stream) stream->entered(work);
  } catch (const std::bad_alloc&) {
    fail_early(work, core::out_of_memory());
  }
  if (is_dropped) cancel(work, Errc::cancelled, dropped);
  source.arm(device, work, wants == Wants::end && may_run_here);
  return command;
}

void wait_for_end(const Ref<Work>& command) {
  if (!command) return;
  wait(*command, Clock::time_point::max());
  throw_if_failed(*command);
}

Ref<Work> submit_run(DeviceState& device, const PlanRun& run, Wants wants) {
  device.expect_own_process();
  return submit_as(device, RunSource{device, run, run.stream, *run.variant->plan}, wants);
}

Ref<Work> submit_call(DeviceState& device, const Call& call, Wants wants) {
  BoundGroup group;
  try {
    prepare(device, call, group);
  } catch (const std::bad_alloc&) {
    core::throw_out_of_memory();
  }
  return submit_as(device, CommandSource{group, call.stream}, wants);
}

}  // namespace

Ref<Work> refuse(DeviceState& device, std::string_view label, core::FailurePtr failure,
                 std::span<Storage* const> outputs) {
  std::unique_ptr<TraceRecord> trace = begin_trace_record();
  std::unique_lock order(device.order);
  device.commands.next();
  std::vector<Storage*> busy;
  for (Storage* output : outputs) {
    if (output->device.get() != &device || output->is_freed.load(std::memory_order_relaxed)) continue;
    if (output->hazards.can_write_now()) {
      output->poison = failure;
    } else {
      busy.push_back(output);
    }
  }
  if (busy.empty()) {
    Ref<Work> ended = take_ended(device, label, Status::failed, std::move(failure));
    order.unlock();
    if (trace) trace_end(*trace, {device.number, ended->id, label, 0, Status::failed});
    return ended;
  }
  // An item without work that has failed already, and still takes its turn.
  Taken taken = take_host_work(device, label);
  Work& work = *taken;
  device.commands.add(work);
  work.heals = true;
  for (Storage* output : busy) work.outputs.push_back(output);
  work.trace = std::move(trace);
  place(work);
  taken.keep();
  order.unlock();
  Ref<Work> command(&work);
  fail_early(work, std::move(failure));
  arm(device, work, false);
  return command;
}

Ref<Work> submit(DeviceState& device, const Call& call) {
  BoundGroup group;
  core::FailurePtr wrong;
  try {
    prepare(device, call, group);
  } catch (const Error& error) {
    wrong = error.failure();
  } catch (const std::bad_alloc&) {
    wrong = core::out_of_memory();
  }
  if (wrong) [[unlikely]] {
    Storage* output = call.output ? call.output->storage : nullptr;
    return refuse(device, group.label.empty() ? "unknown" : group.label, std::move(wrong),
                  std::span(&output, output ? 1 : 0));
  }
  return submit_as(device, CommandSource{group, call.stream}, Wants::command);
}
Ref<Work> start(DeviceState& device, const Call& call) { return submit_call(device, call, Wants::unfinished); }
void run(DeviceState& device, const Call& call) { wait_for_end(submit_call(device, call, Wants::end)); }

Ref<Work> submit(DeviceState& device, const PlanRun& run) { return submit_run(device, run, Wants::command); }
void run(DeviceState& device, const PlanRun& run) { wait_for_end(submit_run(device, run, Wants::end)); }

Ref<Work> submit_host(DeviceState& device, HostWork work) {
  device.expect_own_process();
  return submit_as(device, HostSource{work}, Wants::unfinished);
}
void run_host(DeviceState& device, HostWork work) {
  device.expect_own_process();
  wait_for_end(submit_as(device, HostSource{work}, Wants::end));
}

}  // namespace tessera::detail::engine
