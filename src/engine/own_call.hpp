#pragma once

#include "engine/device_state.hpp"

#include <string_view>

// Host functions that wait. A function that runs as a work item may wait for other commands, but not for its own
// dependents. While it runs, the lists of its direct and indirect dependents do not change, so before a wait they are
// followed, without a lock, and the wait is refused if it would depend on the function itself.
namespace tessera::detail::engine {

// While it lives, this thread runs the function of `work`. They nest: a worker that waits may run another function.
class InHostCall {
 public:
  explicit InHostCall(const Work& work) noexcept;
  ~InHostCall();
  InHostCall(const InHostCall&) = delete;
  InHostCall& operator=(const InHostCall&) = delete;

 private:
  const Work* outer_;
};

// Errc::invalid_argument if a reader or writer of the storage would wait for the function that this thread runs; null
// if not. Under the order lock.
core::FailurePtr wait_for_own_call(const Storage& storage, bool writes, std::string_view label);
// The same for waiting for a work item, and for everything on a device; these throw.
void expect_ends_without_call(const Work& work);
void expect_not_in_call(const DeviceState& device, std::string_view label);

}  // namespace tessera::detail::engine
