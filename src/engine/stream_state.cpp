#include "engine/stream_state.hpp"

#include "core/text.hpp"
#include "engine/compilation.hpp"
#include "engine/execution.hpp"
#include "engine/observe/nested_callbacks.hpp"
#include "engine/run_tracking.hpp"
#include "engine/schedule/timer.hpp"
#include "engine/self_wait.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace tessera::detail::engine {

void retain(StreamState* state) noexcept { state->refs.fetch_add(1, std::memory_order_relaxed); }
void release(StreamState* state) noexcept {
  if (state->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) delete state;
}

namespace {

// Throws if all of them wait for the calling thread.
void expect_progress(const std::vector<Ref<Work>>& in_flight) {
  const auto is_stuck = [](const Ref<Work>& work) { return !work->is_settled() && waits_for_self(*work); };
  if (!in_flight.empty() && std::ranges::all_of(in_flight, is_stuck)) expect_no_self_wait(*in_flight.front());
}

}  // namespace

bool StreamState::enter(Errc* refused) {
  if (!has_limit()) return true;
  std::unique_lock lock(mutex_);
  const auto has_capacity = [this] { return in_flight_ < options.max_in_flight; };
  std::optional<BlockingScope> blocking;
  while (!has_capacity()) {
    switch (options.when_full) {
      case WhenFull::reject:
        *refused = Errc::stream_full;
        return false;
      case WhenFull::drop_oldest:
        if (drop_oldest(lock)) break;
        *refused = Errc::cancelled;
        return false;
      case WhenFull::block:
        if (!blocking) {
          const std::vector<Ref<Work>> in_flight(works_.begin(), works_.end());
          lock.unlock();
          expect_progress(in_flight);
          blocking.emplace();
          lock.lock();
          break;
        }
        if (!device->scheduler->must_help()) {
          left_.wait(lock, has_capacity);
          break;
        }
        lock.unlock();
        const bool ran = device->scheduler->run_one();
        lock.lock();
        if (!ran) left_.wait_for(lock, std::chrono::microseconds(50), has_capacity);
        break;
    }
  }
  ++in_flight_;
  return true;
}

void StreamState::entered(Work& work) {
  const std::scoped_lock lock(mutex_);
  if (!has_limit()) ++in_flight_;
  forget_ended();
  works_.emplace_back(&work);
  if (work.deadline < watched_) watch_deadline(work.deadline);
}

void StreamState::left() noexcept {
  {
    const std::scoped_lock lock(mutex_);
    --in_flight_;
    forget_ended();
  }
  left_.notify_one();
}

void StreamState::forget_ended() {
  while (!works_.empty() && works_.front()->is_settled()) works_.pop_front();
  // A long pending command must not keep all later ones in the list. Amortized constant time per command.
  if (works_.size() > 2 * in_flight_ + 16) std::erase_if(works_, [](const auto& work) { return work->is_settled(); });
}

void StreamState::watch_deadline(Clock::time_point time) {
  watched_ = time;
  Timer::instance().at(time, [watch = watch_, time] {
    std::unique_lock lock(watch->mutex);
    StreamState* stream = watch->stream;
    // Its last reference may be gone already, with its destructor waiting for the mutex.
    std::uint32_t count = stream ? stream->refs.load(std::memory_order_relaxed) : 0;
    while (count != 0 && !stream->refs.compare_exchange_weak(count, count + 1, std::memory_order_acquire)) continue;
    lock.unlock();
    if (count != 0) Ref<StreamState>::adopt(stream)->check_deadlines(time);
  });
}

StreamState::~StreamState() {
  const std::scoped_lock lock(watch_->mutex);
  watch_->stream = nullptr;
}

void StreamState::check_deadlines(Clock::time_point time) {
  std::vector<Ref<Work>> late;
  {
    const std::scoped_lock lock(mutex_);
    if (time != watched_) return;  // a timer for an earlier deadline was set since, and checks instead
    const Clock::time_point now = Clock::now();
    Clock::time_point next = Clock::time_point::max();
    for (const Ref<Work>& work : works_) {
      // A run that has started may have items that have not.
      const bool is_run = work->kind == Work::Kind::barrier && work->status() == Status::running;
      if (work->status() != Status::pending && !is_run) continue;
      if (work->deadline > now) {
        next = std::min(next, work->deadline);
      } else {
        late.push_back(work);
      }
    }
    watched_ = Clock::time_point::max();
    if (next != Clock::time_point::max()) watch_deadline(next);
  }
  for (const Ref<Work>& work : late) {
    const std::string why = too_late(*device, work->deadline, options.deadline);
    if (!cancel(*work, Errc::deadline_exceeded, why) && work->kind == Work::Kind::barrier) {
      stop_run(*work, Errc::deadline_exceeded, why);
    }
  }
}

// True if there may be capacity now.
bool StreamState::drop_oldest(std::unique_lock<std::mutex>& lock) {
  for (const Ref<Work>& work : works_) {
    if (work->status() != Status::pending) continue;
    const Ref<Work> oldest = work;
    lock.unlock();
    cancel(*oldest, Errc::cancelled, "was dropped: its stream is full and a newer command was submitted");
    lock.lock();
    return true;
  }
  return in_flight_ < options.max_in_flight;
}

std::size_t StreamState::in_flight() {
  const std::scoped_lock lock(mutex_);
  return in_flight_;
}

void StreamState::synchronize() {
  std::deque<Ref<Work>> pending;
  {
    const std::scoped_lock lock(mutex_);
    pending = works_;
  }
  for (const Ref<Work>& work : pending) wait(*work, Clock::time_point::max());
}

core::FailurePtr enter(StreamState*& stream, std::string_view label, bool* is_dropped) {
  Errc refused{};
  try {
    if (!stream || stream->enter(&refused)) return nullptr;
  } catch (const Error& error) {  // it would wait for itself
    return error.failure();
  }
  if (refused == Errc::stream_full) {
    return core::make_failure(refused, core::text("[", label, "] was rejected: its stream is full, with ",
                                                  stream->options.max_in_flight, " commands in flight"));
  }
  *is_dropped = true;
  stream = nullptr;
  return nullptr;
}

}  // namespace tessera::detail::engine
