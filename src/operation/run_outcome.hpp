#pragma once

#include <tessera/detail/operation_run.hpp>

#include <atomic>
#include <cstdint>
#include <exception>
#include <utility>
#include <vector>

namespace tessera::detail::operation {

// The result of a run, and who waits for it. The pumping thread writes the result; others read it once is_finished.
struct RunOutcome {
  bool has_value = false;
  std::exception_ptr failure;
  std::atomic<bool> is_finished{false};
  std::atomic<bool> is_seen{false};     // somebody has looked at the failure
  std::vector<RunObserver*> observers;  // guarded by the run's mutex

  bool is_decided() const noexcept { return has_value || failure; }
  // Keeps the failure with the lowest order: later ones may be its consequences. False if this is a later one.
  bool fail(std::exception_ptr why, std::uint64_t order) noexcept {
    if (failure && failure_order_ <= order) return false;
    failure = std::move(why);
    failure_order_ = order;
    return true;
  }
  void reset() noexcept {
    has_value = false;
    failure = nullptr;
    failure_order_ = 0;
    is_finished.store(false, std::memory_order_relaxed);
    is_seen.store(false, std::memory_order_relaxed);
  }

 private:
  std::uint64_t failure_order_ = 0;
};

}  // namespace tessera::detail::operation
