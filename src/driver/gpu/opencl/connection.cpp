#include "driver/gpu/opencl/connection.hpp"

#include "core/text.hpp"
#include "driver/gpu/time_limit.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace tessera::driver::gpu::opencl {

namespace {

using namespace std::chrono_literals;

// How long a lost device may take to become idle.
constexpr std::chrono::nanoseconds longest_settling = 5s;

// Errors that mean the device has crashed or is gone for good.
bool is_loss(cl_int error) {
  switch (error) {
    case CL_DEVICE_NOT_AVAILABLE:
    case CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST:
    case CL_INVALID_COMMAND_QUEUE:
    case CL_INVALID_CONTEXT:
      return true;
    default:
      return false;
  }
}

// Shared memory pays only if host and device have the same memory: otherwise the device would access it over the bus.
bool can_share_memory(const Found& found) {
  return found.is_version_2 && functions()->svm_allocate && functions()->svm_free && functions()->set_argument_svm &&
         value<cl_bool>(found.device, CL_DEVICE_HOST_UNIFIED_MEMORY) &&
         (value<cl_device_svm_capabilities>(found.device, CL_DEVICE_SVM_CAPABILITIES) &
          CL_DEVICE_SVM_FINE_GRAIN_BUFFER);
}

}  // namespace

Connection::Connection(const Found& found, bool shares_memory)
    : found_(found), shares_memory_(shares_memory && can_share_memory(found)) {
  cl_int error = CL_SUCCESS;
  context_ = Context(functions()->create_context(nullptr, 1, &found.device, nullptr, nullptr, &error));
  check(error, "clCreateContext");
  const auto can = value<cl_command_queue_properties>(found.device, CL_DEVICE_QUEUE_PROPERTIES);
  queue_ = make_queue(can & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
  transfers_ = make_queue(0);
}

Connection::~Connection() {
  if (submissions_->is_lost() && !is_settled()) {
    submissions_->close(Clock::now());
    [[maybe_unused]] const void* const leaked[] = {queue_.release(), transfers_.release(), context_.release()};
    return;
  }
  if (queue_) functions()->finish(queue_.get());
  // The driver's threads report events, and must have returned from that. Do not wait forever: they may never report.
  submissions_->close(Clock::now() + 1s);
}

bool Connection::is_settled() {
  std::call_once(settling_, [&] {
    is_settled_ = submissions_->are_settled(Clock::now() + std::min(longest_settling, time_limit()));
  });
  return is_settled_;
}

QueueObject Connection::make_queue(cl_command_queue_properties properties) {
  cl_int error = CL_SUCCESS;
  QueueObject queue(functions()->create_queue(context_.get(), found_.device, properties, &error));
  check(error, "clCreateCommandQueue");
  return queue;
}

void Connection::check(cl_int error, std::string_view call) {
  if (error == CL_SUCCESS) return;
  const std::string what = core::text(call, " returned ", error_name(error));
  if (is_out_of_memory(error)) {
    throw Error(Errc::out_of_memory, core::text("the OpenCL device ", found_.info.name, " is out of memory: ", what));
  }
  if (is_loss(error)) throw Error(lose(what));
  throw Error(Errc::internal, core::text("the OpenCL device ", found_.info.name, " failed: ", what));
}

core::FailurePtr Connection::lose(std::string_view why) { return submissions_->lose(why); }

}  // namespace tessera::driver::gpu::opencl
