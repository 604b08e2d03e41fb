#pragma once

#include <atomic>
#include <thread>

namespace tessera::core {

inline void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// For critical sections of some tens of nanoseconds: a contended std::mutex costs a system call, many times that. A
// waiter yields its core when the owner seems to have been preempted.
class SpinLock {
 public:
  void lock() noexcept {
    while (locked_.exchange(true, std::memory_order_acquire)) {
      for (unsigned tries = 0; locked_.load(std::memory_order_relaxed); ++tries) {
        if (tries < 64) {
          pause();
        } else {
          std::this_thread::yield();
        }
      }
    }
  }
  void unlock() noexcept { locked_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> locked_{false};
};

}  // namespace tessera::core
