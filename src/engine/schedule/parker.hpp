#pragma once

#include <atomic>
#include <cstdint>

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tessera::detail::engine {

// Lets one thread sleep until another wakes it. A wake-up that comes before sleep() is not lost.
//
// Uses a futex where there is one: a condition variable costs one more system call per wake-up (its mutex is contended
// afterwards), and std::atomic::wait yields before it sleeps.
class Parker {
 public:
  void sleep() noexcept {
    while (state_.exchange(awake, std::memory_order_acquire) != woken) wait();
  }
  void wake_up() noexcept {
    if (state_.exchange(woken, std::memory_order_release) == asleep) wake();
  }

 private:
  enum : std::uint32_t { awake, asleep, woken };

  void wait() noexcept {
    std::uint32_t expected = awake;
    if (!state_.compare_exchange_strong(expected, asleep, std::memory_order_acquire)) return;
#if defined(__linux__)
    syscall(SYS_futex, &state_, FUTEX_WAIT_PRIVATE, asleep, nullptr, nullptr, 0);
#else
    state_.wait(asleep, std::memory_order_acquire);
#endif
  }
  void wake() noexcept {
#if defined(__linux__)
    syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
#else
    state_.notify_one();
#endif
  }

  std::atomic<std::uint32_t> state_{awake};
};

}  // namespace tessera::detail::engine
