#pragma once

#include "driver/gpu/opencl/connection.hpp"

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

namespace tessera::driver::gpu::opencl {

class OpenclModule final : public Module {
 public:
  OpenclModule(std::shared_ptr<Connection> connection, const compile::gpu::Kernel& kernel, const std::string& name);

  std::size_t group() const noexcept { return group_; }
  // Calls `use` with a kernel object whose arguments it may set, one thread at a time.
  template <class F>
  void with_kernel(F&& use) const {
    const std::scoped_lock lock(mutex_);
    use(kernel_.get());
  }
  // A new kernel object for the caller.
  KernelObject make_kernel() const;

 private:
  std::shared_ptr<Connection> connection_;
  std::size_t group_;
  ProgramObject program_;
  mutable std::mutex mutex_;
  KernelObject kernel_;
};

}  // namespace tessera::driver::gpu::opencl
