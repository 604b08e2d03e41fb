#pragma once

#include "driver/gpu/api.hpp"

#include <cstdint>
#include <mutex>

namespace tessera::driver::gpu {

// Declares a device lost if its queue stands still for longer than time_limit(), so that a kernel that never ends fails
// its command instead of blocking whoever waits for it. Any thread.
class Watchdog {
 public:
  explicit Watchdog(Api& api);

  // Call it with the number of each submission. Returns the number.
  std::uint64_t started(std::uint64_t number) noexcept;
  // Like Api::wait.
  Progress wait(std::uint64_t number, Clock::time_point until);

 private:
  // When the device will have stood still for too long, as far as is known.
  Clock::time_point deadline(std::uint64_t number);
  void note(std::uint64_t ended);
  void lose_if_still(std::uint64_t ended);

  Api& api_;
  const std::chrono::nanoseconds limit_;
  std::mutex mutex_;
  std::uint64_t last_ = 0;   // the greatest number started
  std::uint64_t ended_ = 0;  // all up to here have finished
  Clock::time_point since_;  // when the oldest submission in flight became the oldest
};

}  // namespace tessera::driver::gpu
