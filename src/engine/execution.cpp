#include "engine/execution.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"
#include "engine/compilation.hpp"
#include "engine/device_state.hpp"
#include "engine/observe/nested_callbacks.hpp"
#include "engine/observe/trace_record.hpp"
#include "engine/run_tracking.hpp"
#include "engine/self_wait.hpp"
#include "engine/stream_state.hpp"

#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace tessera::detail::engine {

namespace {

// A thread that continues from item to item yields to others in the queue after this many.
constexpr int longest_streak = 64;

core::FailurePtr call_host(Work& work) noexcept {
  try {
    if (work.host) work.host();
    return nullptr;
  } catch (const Error& error) {
    return core::describe_failure(error.code(), [&] { return core::text(work.describe(), " failed: ", error.what()); });
  } catch (const std::bad_alloc&) {
    return core::describe_failure(Errc::out_of_memory,
                                  [&] { return core::text(work.describe(), " failed: out of host memory"); });
  } catch (const std::exception& error) {
    return core::describe_failure(Errc::internal,
                                  [&] { return core::text(work.describe(), " failed: ", error.what()); });
  }
}

// Poisons or heals the outputs of a finished item.
void set_poison(Work& work) noexcept {
  if (work.kind == Work::Kind::release) return;
  for (Storage* output : work.outputs) {
    // An item that was refused because of the poison leaves it unchanged.
    const bool is_refused = work.failure && !work.heals && output->poison;
    if ((work.failure || work.heals) && !is_refused) output->poison = work.failure;
  }
}

// Unblocks the dependents; returns one that this thread may continue with.
Work* unblock_dependents(Work& work) noexcept {
  Scheduler& scheduler = *work.device->scheduler;
  Work* next = nullptr;
  for (Edge* edge = work.retire(); edge;) {
    Edge* following = edge->next;
    auto& dependent = static_cast<Work&>(*edge->dependent);
    edge = following;
    if (!dependent.unblock()) continue;
    if (dependent.is_immediate) {
      execute(dependent);  // so memory is free as soon as the last command that uses it has finished
    } else if (dependent.device.get() != work.device.get()) {
      dependent.device->scheduler->push(dependent);
    } else if (!next && (scheduler.may_continue_with(dependent) || starts_at_once(dependent))) {
      next = &dependent;
    } else {
      scheduler.push(dependent);
    }
  }
  return next;
}

// Leaves the order: the outputs are final, and dependents may start.
Work* leave_order(Work& work) noexcept {
  set_poison(work);
  Ref<Work> barrier;
  if (work.listener && work.kind != Work::Kind::barrier && !work.is_settled()) barrier = work.listener->finished(work);
  Work* next = unblock_dependents(work);
  if (barrier) {
    if (next) work.device->scheduler->push(*std::exchange(next, nullptr));
    settle_stopped(*barrier);
  }
  return next;
}

// A cancelled or failed command can still be looked up by its number, and synchronize() throws a failure that nobody
// has looked at.
void remember_failure(Work& work) noexcept {
  if (!work.failure) return;
  if (work.id != 0) work.device->remember(work.id, work.outcome, work.failure);
  if (work.outcome == Status::failed) work.device->unseen_failures.add(work.failure);
}

void trace_work(const Work& work) noexcept {
  if (work.trace) {
    trace_end(*work.trace, {work.device->number, work.id, work.label, work.launch.bytes, work.outcome});
  }
}

// `why` is called for the reason.
template <class Why>
void set_cancelled(Work& work, Errc reason, Why&& why) noexcept {
  work.outcome = Status::cancelled;
  work.failure = core::describe_failure(reason, [&] { return core::text(work.describe(), " ", why()); });
}

// Wakes waiters and calls observers. Observers are user code, which may wait for other commands, so a thread that must
// watch a device queue leaves them to a worker.
void notify(Work& work) noexcept {
  DeviceState& device = *work.device;
  if (!device.queue || device.scheduler->must_help()) return work.notify();
  if (!work.wake()) return;
  try {
    leave_to_worker(device, "callback", [observed = Ref<Work>(&work)] { observed->notify(); });
  } catch (const std::bad_alloc&) {
    work.notify();
  }
}

// Ends an item whose outcome is set. It leaves the order before anyone is notified: observers may wait for its
// dependents.
Work* end(Work& work) noexcept {
  remember_failure(work);
  trace_work(work);
  const Ref<StreamState> stream = std::move(work.stream);
  Work* next = leave_order(work);
  if (stream) stream->left();
  if (work.settle()) {
    if (next) work.device->scheduler->push(*std::exchange(next, nullptr));
    notify(work);
  }
  release(&work);
  return next;
}

// A cancelled item, which is settled, leaves the order.
Work* leave_cancelled(Work& work) noexcept {
  Work* next = leave_order(work);
  work.leave_early();
  release(&work);
  return next;
}

Work* end_barrier(Work& barrier) noexcept {
  bool is_settled = !barrier.try_start() && barrier.is_settled();
  if (!is_settled && !barrier.try_claim()) {  // it was stopped, and another thread is settling it
    while (!barrier.is_settled()) std::this_thread::yield();
    is_settled = true;
  }
  if (!is_settled && barrier.trace) trace_start(*barrier.trace);
  if (!is_settled) barrier.outcome = Status::completed;
  if (barrier.listener) barrier.listener->reached(barrier);
  return is_settled ? leave_cancelled(barrier) : end(barrier);
}

// Executes an item to its end, or as far as this thread can.
Work* step(Work& work) noexcept {
  if (work.kind == Work::Kind::release) {
    release_memory(*work.outputs[0]);
    return finish(work, nullptr);
  }
  if (work.kind == Work::Kind::barrier) return end_barrier(work);
  if (work.deadline != Clock::time_point::max() && Clock::now() > work.deadline && work.try_begin_ending()) {
    set_cancelled(work, Errc::deadline_exceeded, [&] {
      const Clock::duration allowed = work.stream ? work.stream->options.deadline : Clock::duration();
      return too_late(*work.device, work.deadline, allowed);
    });
    return end(work);
  }
  if (work.listener && !work.listener->may_start(work) && work.try_begin_ending()) {
    set_cancelled(work, work.listener->stop_reason(), [] { return "was cancelled with its run"; });
    return end(work);
  }
  if (!work.try_start()) return leave_cancelled(work);
  if (work.trace) trace_start(*work.trace);
  if (core::FailurePtr poison = first_poisoned_input(work.inputs, work.id != 0, [&] { return work.describe(); })) {
    return finish(work, std::move(poison));
  }
  if (work.listener) work.listener->started(work);
  if (work.kind == Work::Kind::host) return finish(work, call_host(work));
  if (core::FailurePtr failure = compile_if_needed(work)) return finish(work, std::move(failure));

  if (DeviceQueue* queue = work.device->queue.get()) {
    core::FailurePtr failure = queue->start(work);
    return failure ? finish(work, std::move(failure)) : nullptr;
  }
  if (core::FailurePtr failure = begin_launch(work)) return finish(work, std::move(failure));
  if (work.pieces.count == 1 && !work.pieces.partial) {
    return finish(work, launch_piece(*work.device->driver, work.launch, 0, work.label, work.context));
  }
  return run_pieces(work);
}

}  // namespace

core::FailurePtr poisoned(const std::string& what, const Storage& storage) noexcept {
  try {
    return core::make_failure(what + " is poisoned", storage.poison);
  } catch (const std::bad_alloc&) {
    return storage.poison;
  }
}

void leave_to_worker(DeviceState& device, std::string_view label, std::function<void()> function, Priority priority) {
  Work* job = nullptr;
  {
    const std::scoped_lock order(device.order);
    job = &device.works.take(device);
  }
  job->kind = Work::Kind::host;
  job->id = 0;
  job->label = label;
  job->priority = priority;
  job->cost = 0;
  job->host = std::move(function);
  if (job->arm()) device.scheduler->push(*job);
}

bool starts_at_once(const Work& work) noexcept {
  if (!work.device->queue || !work.device->scheduler->may_use_caller()) return false;
  if (work.kind == Work::Kind::barrier) return true;
  return work.kind == Work::Kind::kernel && !work.sequence && work.launch.executable->is_ready();
}

void execute(Work& work) noexcept {
  Work* next = &work;
  for (int count = 0; next; ++count) {
    if (count == longest_streak) {
      next->device->scheduler->push(*next);
      return;
    }
    next = step(*next);
  }
}

void assist(Work& work) noexcept {
  const Ref<Work> held = Ref<Work>::adopt(&work);
  std::optional<TraceRecord> trace;
  if (work.trace) trace_start(trace.emplace());
  Work* next = help_with_pieces(work);
  if (trace) trace_end(*trace, {work.device->number, work.id, work.label, 0, Status::running});
  if (next) execute(*next);
}

Work* finish(Work& work, core::FailurePtr failure) noexcept {
  const bool was_stopped = failure && failure->code == Errc::cancelled && is_stopping(work);
  work.outcome = !failure ? Status::completed : was_stopped ? Status::cancelled : Status::failed;
  work.failure = std::move(failure);
  return end(work);
}

namespace {

// Settles an item whose end has begun, before its turn.
void end_early(Work& work) noexcept {
  remember_failure(work);
  trace_work(work);
  const Ref<StreamState> stream = std::move(work.stream);
  if (stream) stream->left();
  Ref<Work> barrier;
  if (work.listener && work.kind != Work::Kind::barrier) barrier = work.listener->finished(work);
  if (work.settle_early()) work.notify();
  if (barrier) settle_stopped(*barrier);
}

}  // namespace

bool cancel(Work& work, Errc reason, std::string_view why) {
  if (!work.try_begin_ending()) return false;
  set_cancelled(work, reason, [&] { return why; });
  end_early(work);
  return true;
}

void fail_early(Work& work, core::FailurePtr failure) noexcept {
  work.try_begin_ending();
  work.outcome = Status::failed;
  work.failure = std::move(failure);
  end_early(work);
}

void ask_to_stop(Work& work) {
  if (work.is_settled()) return;
  work.ask_to_stop();
  if (work.kind == Work::Kind::barrier) stop_run(work, Errc::cancelled, "was cancelled with its run");
}

void settle_stopped(Work& barrier) noexcept {
  remember_failure(barrier);
  trace_work(barrier);
  const Ref<StreamState> stream = std::move(barrier.stream);
  if (stream) stream->left();
  if (barrier.settle_early()) barrier.notify();
}

bool wait(Work& work, Clock::time_point until) {
  if (work.is_settled()) return true;
  work.device->expect_own_process();
  if (until == Clock::time_point::max()) expect_no_self_wait(work);
  const BlockingScope blocking;
  while (!work.is_settled()) {
    if (work.device->queue && work.device->queue->attend(work, until)) return true;
    const Clock::time_point wake = work.device->scheduler->help(work, until);
    if (work.park(wake)) return true;
    if (Clock::now() >= until) return false;
  }
  return true;
}

void throw_if_failed(const Work& work) {
  if (!work.failure) [[likely]]
    return;
  core::set_seen(*work.failure);
  throw Error(work.failure);
}

}  // namespace tessera::detail::engine
