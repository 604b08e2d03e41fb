#pragma once

#include "core/spin_lock.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <vector>

namespace tessera::detail::engine {

// The on_complete callbacks of a device: how many have not returned, and what was thrown by those that have. Any
// thread.
class Callbacks {
 public:
  // Counts a callback that is to be called; the result is for end(). Callbacks are counted in two generations that take
  // turns, so that whoever waits for those there are is not held up by those that come meanwhile.
  unsigned begin() noexcept {
    const unsigned generation = generation_.load() % 2;
    ++counts_[generation];
    return generation;
  }
  void end(unsigned generation) noexcept {
    if (--counts_[generation] == 0) counts_[generation].notify_all();
  }
  // Blocks until those that were counted before have ended.
  void wait();

  // An exception left a callback: the next synchronize() throws it.
  void failed(std::exception_ptr exception) noexcept;
  // The oldest of those; null if there is none.
  std::exception_ptr take_failure() noexcept;

 private:
  std::mutex mutex_;  // of those who wait
  std::atomic<unsigned> generation_{0};
  std::array<std::atomic<std::uint32_t>, 2> counts_{};
  core::SpinLock failures_lock_;
  std::vector<std::exception_ptr> failures_;
};

}  // namespace tessera::detail::engine
