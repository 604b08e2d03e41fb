#pragma once

#include "core/failure.hpp"
#include "core/spin_lock.hpp"

#include <vector>

namespace tessera::detail::engine {

// The failures of a device that nobody has looked at: the next synchronize() throws the oldest. Any thread.
class UnseenFailures {
 public:
  // A root cause. Outcomes that the caller asked for, such as a cancelled command or a full stream, are not failures.
  void add(const core::FailurePtr& failure) noexcept;
  // Marks the oldest as seen and returns it; null if there is none.
  core::FailurePtr take() noexcept;

 private:
  core::SpinLock lock_;
  std::vector<core::FailurePtr> failures_;  // some may have been seen since
};

}  // namespace tessera::detail::engine
