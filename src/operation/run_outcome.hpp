#pragma once

#include <tessera/detail/operation_run.hpp>

#include <atomic>
#include <cstdint>
#include <exception>
#include <utility>

namespace tessera::detail::operation {

// The result of a run, and who waits for it. The pumping thread writes the result; others read it once is_finished.
struct RunOutcome {
  bool has_value = false;
  std::exception_ptr failure;
  std::atomic<bool> is_finished{false};
  std::atomic<bool> is_seen{false};  // somebody has looked at the failure

  bool is_decided() const noexcept { return has_value || failure; }
  // Keeps the failure with the lowest order: later ones may be its consequences. False if this is a later one.
  bool fail(std::exception_ptr why, std::uint64_t order) noexcept {
    if (failure && failure_order_ <= order) return false;
    failure = std::move(why);
    failure_order_ = order;
    return true;
  }
  // Observers form a list, so that adding one cannot fail. Guarded by the run's mutex.
  void add_observer(RunObserver& observer) noexcept {
    RunObserver** end = &observers_;
    while (*end) end = &(*end)->next_;
    observer.next_ = nullptr;
    *end = &observer;
  }
  bool remove_observer(const RunObserver& observer) noexcept {
    for (RunObserver** link = &observers_; *link; link = &(*link)->next_) {
      if (*link != &observer) continue;
      *link = observer.next_;
      return true;
    }
    return false;
  }
  RunObserver* take_observers() noexcept { return std::exchange(observers_, nullptr); }
  static void notify(RunObserver* first) noexcept {
    while (first) std::exchange(first, first->next_)->run_finished();  // which may destroy it
  }

  void reset() noexcept {
    has_value = false;
    failure = nullptr;
    failure_order_ = 0;
    is_finished.store(false, std::memory_order_relaxed);
    is_seen.store(false, std::memory_order_relaxed);
  }

 private:
  RunObserver* observers_ = nullptr;
  std::uint64_t failure_order_ = 0;
};

}  // namespace tessera::detail::operation
