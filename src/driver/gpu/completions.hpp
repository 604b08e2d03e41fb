#pragma once

#include "driver/gpu/api.hpp"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>

namespace tessera::driver::gpu {

// Which submissions of a queue are over, for those who wait. They may end in any order.
class Completions {
 public:
  // The number of a new submission. Throws what the device was lost for.
  std::uint64_t begin();
  void end(std::uint64_t number) noexcept;
  // It will never end: the device is lost.
  void fail(core::FailurePtr why) noexcept;
  // Everybody who waits is told; only the first reason counts.
  void lose(core::FailurePtr why) noexcept;
  Progress wait(std::uint64_t number, Clock::time_point until);
  // Until all that began have ended or failed, even after the device was lost, but no longer than that.
  void wait_for_all(Clock::time_point until);

  bool is_lost();
  void throw_if_lost();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t ended_ = 0;    // stays as it is once the device is lost
  std::uint64_t running_ = 0;  // how many neither ended nor failed
  std::deque<bool> later_;     // those after ended_: whether they are over
  core::FailurePtr failure_;
};

}  // namespace tessera::driver::gpu
