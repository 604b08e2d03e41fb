#pragma once

#include "core/spin_lock.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <vector>

namespace tessera::detail::engine {

// Counts the on_complete callbacks of a device that have not returned, and stores the exceptions of those that threw.
// Any thread.
class Callbacks {
 public:
  // Counts a callback that will be called; pass the result to end(). Callbacks are counted in two alternating
  // generations, so that a thread that waits for the existing ones is not held up by new ones.
  unsigned begin() noexcept {
    const unsigned generation = generation_.load() % 2;
    ++counts_[generation];
    return generation;
  }
  void end(unsigned generation) noexcept {
    if (--counts_[generation] == 0) counts_[generation].notify_all();
  }
  // Blocks until all callbacks that were counted before have returned.
  void wait();

  // An exception left a callback: the next synchronize() throws it.
  void failed(std::exception_ptr exception) noexcept;
  // The oldest of those; null if there is none.
  std::exception_ptr take_failure() noexcept;

 private:
  std::mutex mutex_;  // one waiter at a time
  std::atomic<unsigned> generation_{0};
  std::array<std::atomic<std::uint32_t>, 2> counts_{};
  core::SpinLock failures_lock_;
  std::vector<std::exception_ptr> failures_;
};

}  // namespace tessera::detail::engine
