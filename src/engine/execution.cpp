#include <tessera/error.hpp>

#include "core/spin_lock.hpp"
#include "core/text.hpp"
#include "engine/device_state.hpp"
#include "engine/observe/trace_record.hpp"
#include "engine/stream_state.hpp"
#include "pipeline/pipeline_state.hpp"

#include <atomic>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace tessera::detail::engine {

namespace {

// A thread that goes on from node to node lets others in the queue have their turn after so many.
constexpr int longest_run = 64;

// Who works on a node's pieces. Those that both have taken are counted in one number.
enum class Half : std::uint8_t { first, second };
constexpr std::int64_t one_of_second = std::int64_t{1} << 32;

core::FailurePtr first_poisoned_input(const Work& node) {
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i]->poison) continue;
    const std::string which = node.id != 0 ? core::text(": input ", i) : " the buffer";
    return poisoned(node.describe() + which, *node.inputs[i]);
  }
  return nullptr;
}

core::FailurePtr cancelled_while_running(const Work& node) {
  return core::make_failure(Errc::cancelled, node.describe() + " was cancelled while it ran");
}

// By cancel() of the command, or of the run that it is part of.
bool is_asked_to_stop(const Work& node) noexcept {
  return node.is_asked_to_stop() || (node.join && node.join->is_asked_to_stop());
}

// Which piece is next for a thread, when so many have been taken.
//
// The thread that started the node has the first half, its helpers the second; who is done goes on with the last ones
// of the other half. Commands go from the ends to the middle and from the middle to the ends in turns, so that a core
// begins with what it used last: the same arrays again, or what the command before has made. relu(a + b) * s over 1 MiB
// again and again takes 21 µs instead of 23 (bench). A matrix product of 2048 takes 5 % longer that way, f64 10 %; and
// filters, which ask for what the next tile reads, 4 %.
std::int64_t next_piece(const Work& node, Half of, std::int64_t first, std::int64_t second) noexcept {
  const driver::PieceOrder order = node.launch.executable->piece_order();
  if (order == driver::PieceOrder::one_by_one) return first + second;
  const std::int64_t pieces = node.pieces, middle = (pieces + 1) / 2;
  if (order == driver::PieceOrder::forwards) {
    if (of == Half::first) return first < middle ? first : pieces - 1 - (first - middle);
    return second < pieces - middle ? middle + second : pieces - 1 - second;
  }
  const bool is_inwards = node.id % 2 == 0;
  if (of == Half::first) {
    if (is_inwards) return first;
    return first < middle ? middle - 1 - first : pieces - 1 - (first - middle);
  }
  if (is_inwards) return pieces - 1 - second;
  return second < pieces - middle ? middle + second : second - (pieces - middle);
}

// A thread that is done with its half leaves the last piece of the other half to the thread whose it is, as long as
// that one is under way: it has what the piece needs in its cache, and else would not have it the next time, and be
// late again. relu(a + b) * s over 256 KiB again and again took 5.4 µs at a time and 14 at another, for thousands of
// commands.
class LastPiece {
 public:
  // With the first piece that the thread takes: when it is done, the node may be, too.
  void begin(const Work& node, Half of) noexcept {
    if (has_begun_) return;
    has_begun_ = true;
    can_wait_ = node.pieces > 2 && node.launch.bytes <= driver::kept_bytes &&
                node.launch.executable->piece_order() == driver::PieceOrder::back_and_forth;
    if (!can_wait_) return;
    of_ = of;
    pieces_ = node.pieces;
    own_ = of == Half::first ? (pieces_ + 1) / 2 : pieces_ / 2;
    begin_ = Clock::now();
  }

  // Before another one is taken. Not for long: the other thread may have lost its core.
  void wait(const std::atomic<std::int64_t>& taken) const noexcept {
    if (!can_wait_ || !is_others(taken)) return;
    Clock::time_point now = Clock::now();
    const Clock::time_point end = now + 2 * (now - begin_) / own_;
    while (now < end && is_others(taken)) {
      core::pause();
      now = Clock::now();
    }
  }

 private:
  bool is_others(const std::atomic<std::int64_t>& taken) const noexcept {
    const std::int64_t all = taken.load(std::memory_order_relaxed);
    const std::int64_t first = all % one_of_second, second = all / one_of_second;
    const std::int64_t own = of_ == Half::first ? first : second, others = of_ == Half::first ? second : first;
    return first + second + 1 == pieces_ && own >= own_ && others > 0;
  }

  bool has_begun_ = false, can_wait_ = false;
  Half of_ = Half::first;
  std::int64_t pieces_ = 0, own_ = 0;
  Clock::time_point begin_;
};

// All pieces are done: makes the output of their partial results.
void end_partial(Work& node) noexcept {
  if (!node.failure) node.failure = is_asked_to_stop(node) ? cancelled_while_running(node) : finish_launch(node);
  node.launch.partial = nullptr;
  node.partial.reset();
}

// Does pieces as long as there are some; whoever does the last one ends the node.
Work* do_pieces(Work& node, Half of) noexcept {
  const std::int64_t one = of == Half::first ? 1 : one_of_second;
  LastPiece last;
  while (true) {
    last.wait(node.pieces_taken);
    const std::int64_t taken = node.pieces_taken.fetch_add(one, std::memory_order_relaxed);
    const std::int64_t first = taken % one_of_second, second = taken / one_of_second;
    if (first + second >= node.pieces) return nullptr;
    last.begin(node, of);
    const std::int64_t piece = next_piece(node, of, first, second);
    core::FailurePtr failure = is_asked_to_stop(node)
                                   ? cancelled_while_running(node)
                                   : launch_piece(*node.device->driver, node.launch, piece, node.label, node.stage);
    if (failure) {
      const std::scoped_lock lock(node.failure_lock);
      if (!node.failure) node.failure = std::move(failure);
    }
    if (node.pieces_left.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      if (node.pieces > 1) node.device->scheduler->withdraw(node);
      if (node.partial) end_partial(node);
      return finish(node, std::move(node.failure));
    }
  }
}

core::FailurePtr call_host(Work& node) noexcept {
  try {
    if (node.host) node.host();
    return nullptr;
  } catch (const Error& error) {
    return core::make_failure(error.code(), core::text(node.describe(), " failed: ", error.what()));
  } catch (const std::exception& error) {
    return core::make_failure(Errc::internal, core::text(node.describe(), " failed: ", error.what()));
  }
}

// The part of the end that concerns the order: the output is what it will be, and those behind it may go.
Work* leave_order(Work& node) noexcept {
  if (node.kind != Work::Kind::release) {
    for (Storage* output : node.outputs) {
      // What was refused because of the poison leaves it as it is.
      const bool is_refused = node.failure && !node.heals && output->poison;
      if ((node.failure || node.heals) && !is_refused) output->poison = node.failure;
    }
  }
  Ref<Work> run;
  if (node.join && !node.is_settled()) run = note_end(node);
  Scheduler& scheduler = *node.device->scheduler;
  Work* next = nullptr;
  for (Edge* edge = node.retire(); edge;) {
    Edge* following = edge->next;
    auto& dependent = static_cast<Work&>(*edge->dependent);
    edge = following;
    if (!dependent.unblock()) continue;
    if (dependent.kind == Work::Kind::release || dependent.kind == Work::Kind::loan) {
      execute(dependent);  // at once: memory that nobody uses is free when the command that used it is over
    } else if (dependent.device.get() != node.device.get()) {
      dependent.device->scheduler->push(dependent);
    } else if (!next && (scheduler.may_continue_with(dependent) || starts_at_once(dependent))) {
      next = &dependent;
    } else {
      scheduler.push(dependent);
    }
  }
  if (run) {
    if (next) scheduler.push(*std::exchange(next, nullptr));
    end_stopped(*run);
  }
  return next;
}

// A cancelled or failed command stays answerable by its number.
void remember_failure(Work& node) noexcept {
  if (node.failure && node.id != 0) node.device->remember(node.id, node.outcome, node.failure);
}

void trace_node(const Work& node) noexcept {
  if (node.trace) {
    trace_end(*node.trace, {node.device->number, node.id, node.label, node.launch.bytes, node.outcome});
  }
}

void set_cancelled(Work& node, Errc reason, std::string_view why) {
  node.outcome = Status::cancelled;
  node.failure = core::make_failure(reason, core::text(node.describe(), " ", why));
}

// Tells whoever looks on. Observers are code of the user's, which may wait for others: a thread that must see to the
// end of a device's work leaves them to a worker.
void tell(Work& node) noexcept {
  DeviceState& device = *node.device;
  if (!device.queue || device.scheduler->must_help()) return node.tell();
  if (!node.wake()) return;
  leave_to_worker(device, "callback", [told = Ref<Work>(&node)] { told->tell(); });
}

// The end of a node whose outcome is set. It leaves the order before anybody is told: what is told may wait for those
// behind it.
Work* end(Work& node) noexcept {
  remember_failure(node);
  trace_node(node);
  const Ref<StreamState> stream = std::move(node.stream);
  Work* next = leave_order(node);
  if (stream) stream->left();
  if (node.settle()) {
    if (next) node.device->scheduler->push(*std::exchange(next, nullptr));
    tell(node);
  }
  release(&node);
  return next;
}

// It has settled, and leaves the order now.
Work* leave_cancelled(Work& node) noexcept {
  Work* next = leave_order(node);
  node.leave_early();
  release(&node);
  return next;
}

// All groups of a run are over, and so is the run.
Work* end_run(Work& join) noexcept {
  if (!join.try_start() && join.is_settled()) {
    keep_times(join);
    return leave_cancelled(join);
  }
  if (!join.try_claim()) {  // it was stopped, and is told to be over this moment
    while (!join.is_settled()) std::this_thread::yield();
    keep_times(join);
    return leave_cancelled(join);
  }
  if (join.trace) trace_start(*join.trace);
  join.outcome = join.run->failure ? join.run->outcome : Status::completed;
  join.failure = join.run->failure;
  keep_times(join);
  return end(join);
}

// Executes a node to its end, or as far as this thread can take it.
Work* step(Work& node) noexcept {
  if (node.kind == Work::Kind::release) {
    release_memory(*node.outputs[0]);
    return finish(node, nullptr);
  }
  if (node.kind == Work::Kind::join) return end_run(node);
  if (node.deadline != Clock::time_point::max() && Clock::now() > node.deadline && node.try_begin_ending()) {
    set_cancelled(node, Errc::deadline_exceeded, too_late);
    return end(node);
  }
  if (node.join && !node.join->try_start_part() && node.try_begin_ending()) {
    set_cancelled(node, node.join->failure ? node.join->failure->code : Errc::cancelled, "was cancelled with its run");
    return end(node);
  }
  if (!node.try_start()) return leave_cancelled(node);
  if (node.trace) trace_start(*node.trace);
  if (core::FailurePtr poison = first_poisoned_input(node)) return finish(node, std::move(poison));
  if (node.join) note_start(node);
  if (node.kind == Work::Kind::host || node.kind == Work::Kind::loan) return finish(node, call_host(node));

  if (DeviceQueue* queue = node.device->queue.get()) {
    core::FailurePtr failure = queue->start(node);
    return failure ? finish(node, std::move(failure)) : nullptr;
  }

  if (core::FailurePtr failure = begin_launch(node)) return finish(node, std::move(failure));
  if (node.pieces == 1 && !node.partial) {
    return finish(node, launch_piece(*node.device->driver, node.launch, 0, node.label, node.stage));
  }
  node.pieces_taken.store(0, std::memory_order_relaxed);
  node.pieces_left.store(node.pieces, std::memory_order_relaxed);
  const Ref<Work> held(&node);  // the last piece may be another thread's
  node.device->scheduler->share(node, node.pieces - 1);
  return do_pieces(node, Half::first);
}

}  // namespace

void leave_to_worker(DeviceState& device, std::string_view label, std::function<void()> work, Priority priority) {
  Work* job = nullptr;
  {
    const std::scoped_lock order(device.order);
    job = &device.nodes.take(device);
  }
  job->kind = Work::Kind::host;
  job->id = 0;
  job->label = label;
  job->priority = priority;
  job->cost = 0;
  job->host = std::move(work);
  if (job->arm()) device.scheduler->push(*job);
}

bool starts_at_once(const Work& node) noexcept {
  if (!node.device->queue || !node.device->scheduler->may_use_caller()) return false;
  if (node.kind == Work::Kind::join) return true;
  return node.kind == Work::Kind::kernel && !node.batch && node.launch.executable->is_ready();
}

void execute(Work& node) noexcept {
  Work* next = &node;
  for (int count = 0; next; ++count) {
    if (count == longest_run) {
      next->device->scheduler->push(*next);
      return;
    }
    next = step(*next);
  }
}

void assist(Work& node) noexcept {
  const Ref<Work> held = Ref<Work>::adopt(&node);
  std::optional<TraceRecord> trace;
  if (node.trace) trace_start(trace.emplace());
  Work* next = do_pieces(node, Half::second);
  if (trace) trace_end(*trace, {node.device->number, node.id, node.label, 0, Status::running});
  if (next) execute(*next);
}

Work* finish(Work& node, core::FailurePtr failure) noexcept {
  const bool was_stopped = failure && failure->code == Errc::cancelled && is_asked_to_stop(node);
  node.outcome = !failure ? Status::completed : was_stopped ? Status::cancelled : Status::failed;
  node.failure = std::move(failure);
  return end(node);
}

bool cancel(Work& node, Errc reason, std::string_view why) {
  if (!node.try_begin_ending()) return false;
  set_cancelled(node, reason, why);
  remember_failure(node);
  trace_node(node);
  const Ref<StreamState> stream = std::move(node.stream);
  if (stream) stream->left();
  const Ref<Work> run = node.join ? note_end(node) : Ref<Work>();
  if (node.settle_early()) node.tell();
  if (run) end_stopped(*run);
  return true;
}

void ask_to_stop(Work& node) {
  if (node.is_settled()) return;
  node.ask_to_stop();
  if (node.kind == Work::Kind::join) stop_run(node, Errc::cancelled, "was cancelled with its run");
}

void end_stopped(Work& join) noexcept {
  join.outcome = join.run->outcome;
  join.failure = join.run->failure;
  remember_failure(join);
  trace_node(join);
  const Ref<StreamState> stream = std::move(join.stream);
  if (stream) stream->left();
  if (join.settle_early()) join.tell();
}

bool wait(Work& node, Clock::time_point until) {
  if (!node.is_settled()) node.device->expect_own_process();
  if (until == Clock::time_point::max() && !node.is_settled()) expect_ends_without_call(node);
  while (!node.is_settled()) {
    if (node.device->queue && node.device->queue->attend(node, until)) return true;
    const Clock::time_point wake = node.device->scheduler->help(node, until);
    if (node.park(wake)) return true;
    if (Clock::now() >= until) return false;
  }
  return true;
}

void throw_if_failed(const Work& node) {
  if (node.failure) [[unlikely]]
    throw Error(node.failure);
}

}  // namespace tessera::detail::engine
