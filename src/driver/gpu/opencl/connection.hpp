#pragma once

#include <tessera/error.hpp>

#include "driver/gpu/opencl/devices.hpp"
#include "driver/gpu/opencl/functions.hpp"
#include "driver/gpu/opencl/submissions.hpp"

#include <cstddef>
#include <memory>
#include <mutex>
#include <string_view>

namespace tessera::driver::gpu::opencl {

// An open device. All parts of its driver share it, so that it is destroyed last.
class Connection {
 public:
  Connection(const Found& found, bool shares_memory);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const Found& found() const noexcept { return found_; }
  cl_context context() const noexcept { return context_.get(); }
  cl_command_queue queue() const noexcept { return queue_.get(); }
  cl_command_queue transfers() const noexcept { return transfers_.get(); }
  bool shares_memory() const noexcept { return shares_memory_; }

  Submissions& submissions() noexcept { return *submissions_; }

  // Throws if it is an error: Errc::out_of_memory, Errc::internal, or Errc::device_failure, which also marks the device
  // as lost.
  void check(cl_int error, std::string_view call);
  core::FailurePtr lose(std::string_view why);
  // A device declared lost may still run: whether it has stopped, which may take some seconds. If it has not, because a
  // kernel hangs, what it uses must never be freed.
  bool is_settled();

 private:
  QueueObject make_queue(cl_command_queue_properties properties);

  const Found& found_;
  Context context_;
  // Out of order if supported: submissions depend only on what they wait for explicitly.
  QueueObject queue_;
  // A separate queue, so that copies do not wait for kernels.
  QueueObject transfers_;
  bool shares_memory_ = false;
  std::once_flag settling_;
  bool is_settled_ = false;
  std::shared_ptr<Submissions> submissions_ = std::make_shared<Submissions>(found_.info.name);
};

}  // namespace tessera::driver::gpu::opencl
