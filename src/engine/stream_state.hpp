#pragma once

#include <tessera/stream_options.hpp>

#include "engine/device_state.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

namespace tessera::detail::engine {

struct StreamState {
  StreamState(DeviceState& on, const StreamOptions& with) : device(&on), options(with) { watch_->stream = this; }
  ~StreamState();
  StreamState(const StreamState&) = delete;
  StreamState& operator=(const StreamState&) = delete;

  // Reserves capacity for one more command, by the stream's policy: blocks, drops a command, or returns false, with the
  // new command's error in `refused`.
  bool enter(Errc* refused);
  // Called for a command that entered: when it has its position; when it has finished; instead of both, if it finished
  // without needing a position.
  void entered(Work& work);
  void left() noexcept;
  void left_at_once() noexcept {
    if (has_limit()) left();
  }

  std::size_t in_flight();
  void synchronize();

  const Ref<DeviceState> device;
  const StreamOptions options;
  std::atomic<std::uint32_t> refs{1};

  Position last;  // under the device's order lock

 private:
  // A stream without a limit counts only commands with a position: the lock would take a tenth of a tiny command's
  // time.
  bool has_limit() const noexcept { return options.max_in_flight != 0; }

  // Under the mutex.
  bool drop_oldest(std::unique_lock<std::mutex>& lock);
  void forget_ended();
  void watch_deadline(Clock::time_point time);

  // For the timer, which does not keep the stream alive: a deadline may be far away.
  struct Watch {
    std::mutex mutex;
    StreamState* stream;  // null once the stream is destroyed
  };
  void check_deadlines(Clock::time_point time);

  std::mutex mutex_;
  std::condition_variable left_;
  std::size_t in_flight_ = 0;
  std::deque<Ref<Work>> works_;  // in order; finished ones are removed at the front, or when they are half of the list
  const std::shared_ptr<Watch> watch_ = std::make_shared<Watch>();
  Clock::time_point watched_ = Clock::time_point::max();  // when the timer will fire
};

// Enters the stream, if there is one. Returns the failure if it is full and rejects. If the new command must be
// cancelled instead, `is_dropped` is set, and the stream is null from then on.
core::FailurePtr enter(StreamState*& stream, std::string_view label, bool* is_dropped);

}  // namespace tessera::detail::engine
