#pragma once

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS  // clCreateCommandQueue, available in all versions
#include <CL/cl.h>
#include <string>
#include <utility>

namespace tessera::driver::gpu::opencl {

// The OpenCL functions used. The loader is opened at run time, so that programs start without it.
struct Functions {
  decltype(&::clBuildProgram) build_program = nullptr;
  decltype(&::clCreateBuffer) create_buffer = nullptr;
  decltype(&::clCreateCommandQueue) create_queue = nullptr;
  decltype(&::clCreateContext) create_context = nullptr;
  decltype(&::clCreateKernel) create_kernel = nullptr;
  decltype(&::clCreateProgramWithBinary) create_program_with_binary = nullptr;
  decltype(&::clCreateProgramWithSource) create_program_with_source = nullptr;
  decltype(&::clEnqueueFillBuffer) enqueue_fill = nullptr;
  decltype(&::clEnqueueMarkerWithWaitList) enqueue_marker = nullptr;
  decltype(&::clEnqueueNDRangeKernel) enqueue_kernel = nullptr;
  decltype(&::clEnqueueReadBuffer) enqueue_read = nullptr;
  decltype(&::clEnqueueWriteBuffer) enqueue_write = nullptr;
  decltype(&::clFinish) finish = nullptr;
  decltype(&::clFlush) flush = nullptr;
  decltype(&::clGetDeviceIDs) get_devices = nullptr;
  decltype(&::clGetDeviceInfo) get_device_info = nullptr;
  decltype(&::clGetEventInfo) get_event_info = nullptr;
  decltype(&::clGetKernelWorkGroupInfo) get_kernel_group_info = nullptr;
  decltype(&::clGetPlatformIDs) get_platforms = nullptr;
  decltype(&::clGetProgramBuildInfo) get_build_info = nullptr;
  decltype(&::clGetProgramInfo) get_program_info = nullptr;
  decltype(&::clReleaseCommandQueue) release_queue = nullptr;
  decltype(&::clReleaseContext) release_context = nullptr;
  decltype(&::clReleaseEvent) release_event = nullptr;
  decltype(&::clReleaseKernel) release_kernel = nullptr;
  decltype(&::clReleaseMemObject) release_memory = nullptr;
  decltype(&::clReleaseProgram) release_program = nullptr;
  decltype(&::clRetainEvent) retain_event = nullptr;
  decltype(&::clSetEventCallback) set_event_callback = nullptr;
  decltype(&::clSetKernelArg) set_argument = nullptr;
  decltype(&::clWaitForEvents) wait_for_events = nullptr;
  // OpenCL 2.0; null if the loader is older.
  decltype(&::clSVMAlloc) svm_allocate = nullptr;
  decltype(&::clSVMFree) svm_free = nullptr;
  decltype(&::clSetKernelArgSVMPointer) set_argument_svm = nullptr;
};

// Null if OpenCL is missing.
const Functions* functions();

// "CL_OUT_OF_RESOURCES"; "OpenCL error -9999" for unknown codes.
std::string error_name(cl_int error);

// Whether a call ran out of memory and may succeed later. But a command that finished with the last of these has
// crashed.
inline bool is_out_of_memory(cl_int error) {
  return error == CL_MEM_OBJECT_ALLOCATION_FAILURE || error == CL_OUT_OF_HOST_MEMORY || error == CL_OUT_OF_RESOURCES;
}

// Owns an OpenCL object.
template <class T, auto Release>
class Owned {
 public:
  Owned() = default;
  explicit Owned(T object) noexcept : object_(object) {}
  Owned(Owned&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Owned() {
    if (object_) (functions()->*Release)(object_);
  }
  T get() const noexcept { return object_; }
  T release() noexcept { return std::exchange(object_, nullptr); }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  T object_ = nullptr;
};

using Context = Owned<cl_context, &Functions::release_context>;
using Event = Owned<cl_event, &Functions::release_event>;
using KernelObject = Owned<cl_kernel, &Functions::release_kernel>;
using MemoryObject = Owned<cl_mem, &Functions::release_memory>;
using ProgramObject = Owned<cl_program, &Functions::release_program>;
using QueueObject = Owned<cl_command_queue, &Functions::release_queue>;

}  // namespace tessera::driver::gpu::opencl
