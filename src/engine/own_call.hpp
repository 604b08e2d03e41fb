#pragma once

#include "engine/device_state.hpp"

#include <string_view>

// Host functions that wait. A function that runs as a work may wait for other commands, but not for what waits for the
// work itself. While it runs, everything that waits for it, directly or not, stays where it is; so before it waits, the
// lists of dependents are followed, without a lock, and the wait is refused if it would come back to the function.
namespace tessera::detail::engine {

// While it lives, this thread runs the function of `work`. They nest: a worker that waits may run another one.
class InHostCall {
 public:
  explicit InHostCall(const Work& work) noexcept;
  ~InHostCall();
  InHostCall(const InHostCall&) = delete;
  InHostCall& operator=(const InHostCall&) = delete;

 private:
  const Work* outer_;
};

// Errc::invalid_argument if whoever reads or writes the storage would wait for the function that this thread runs; null
// if not. Under the order lock.
core::FailurePtr wait_for_own_call(const Storage& storage, bool writes, std::string_view label);
// The same for waiting for a work, and for everything that the device does: they throw.
void expect_ends_without_call(const Work& work);
void expect_not_in_call(const DeviceState& device, std::string_view label);

}  // namespace tessera::detail::engine
