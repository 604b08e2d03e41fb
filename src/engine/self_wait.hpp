#pragma once

#include "engine/device_state.hpp"

#include <string_view>

// Threads that would wait for themselves. A thread *holds* a work item that cannot finish without it: the host function
// that it runs, or the end of a view that it has mapped and keeps in a local variable. It may wait for other commands,
// but not for a dependent of what it holds. While it holds an item, the lists of the direct and indirect dependents do
// not change, so before a wait they are followed, without a lock, and such a wait is refused.
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

// This thread has mapped a buffer, and `end` is held back until the view is destroyed. The view's own address is
// end.holder: once that is no local variable of this thread, another thread may destroy it.
void hold_view(Work& end);

// Errc::invalid_argument if a reader or writer of the storage would wait for something that this thread holds; null if
// not. Under the order lock.
core::FailurePtr self_wait(const Storage& storage, bool writes, std::string_view label);
// Whether a work item, which is not settled, waits for something that this thread holds.
bool waits_for_self(const Work& work);
// The same for waiting for a work item; and for everything on a device inside of a host function of that. These throw.
void expect_no_self_wait(const Work& work);
void expect_not_in_call(const DeviceState& device, std::string_view label);

}  // namespace tessera::detail::engine
