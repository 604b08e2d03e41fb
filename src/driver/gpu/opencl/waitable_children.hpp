#pragma once

#include "driver/gpu/opencl/devices.hpp"

namespace tessera::driver::gpu::opencl {

// While one lives, the process can wait for its children, if the device needs that.
//
// PoCL starts a linker when a program's binary is made and when a kernel first runs with sizes that it specialises for,
// the latter on a thread of its own. It aborts the process if it cannot wait for that child: where SIGCHLD is ignored,
// as in the Erlang VM, or has SA_NOCLDWAIT. Only there, and only while PoCL builds or runs something, the signal gets
// its default action; the program's own action is put back as soon as PoCL is idle, unless the program has set another
// one meanwhile. A child of the program that ends in between has to be waited for.
class WaitableChildren {
 public:
  explicit WaitableChildren(const Found& found);
  ~WaitableChildren();
  WaitableChildren(const WaitableChildren&) = delete;
  WaitableChildren& operator=(const WaitableChildren&) = delete;

  // Also until the event, which may outlive this object.
  void hold_until(cl_event event) const;

 private:
  bool is_needed_;
};

}  // namespace tessera::driver::gpu::opencl
