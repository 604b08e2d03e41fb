#pragma once

#include "driver/gpu/api.hpp"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>

namespace tessera::driver::gpu {

// Tracks which submissions of a queue have finished, in any order, and wakes waiters.
class Completions {
 public:
  // Returns the number of a new submission. Throws if the device is lost.
  std::uint64_t begin();
  void end(std::uint64_t number) noexcept;
  // A submission will never finish: the device is lost.
  void fail(core::FailurePtr why) noexcept;
  // Wakes all waiters; only the first reason counts.
  void lose(core::FailurePtr why) noexcept;
  Progress wait(std::uint64_t number, Clock::time_point until);
  // Blocks until every submission has ended or failed, even after the device was lost, or until `until`.
  void wait_for_all(Clock::time_point until);

  bool is_lost();
  void throw_if_lost();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t ended_ = 0;    // does not change once the device is lost
  std::uint64_t running_ = 0;  // submissions that have neither ended nor failed
  std::deque<bool> later_;     // for submissions after ended_: whether they have finished
  core::FailurePtr failure_;
};

}  // namespace tessera::driver::gpu
