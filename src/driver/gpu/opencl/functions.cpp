#include "driver/gpu/opencl/functions.hpp"

#include "core/environment.hpp"
#include "driver/gpu/library.hpp"

#include <cstdlib>
#include <dlfcn.h>

namespace tessera::driver::gpu::opencl {

namespace {

template <class T>
bool find(void* library, const char* name, T& function) {
  function = reinterpret_cast<T>(dlsym(library, name));
  return function != nullptr;
}

bool find_all(void* library, Functions& table) {
  find(library, "clSVMAlloc", table.svm_allocate);
  find(library, "clSVMFree", table.svm_free);
  find(library, "clSetKernelArgSVMPointer", table.set_argument_svm);
  return find(library, "clBuildProgram", table.build_program) && find(library, "clCreateBuffer", table.create_buffer) &&
         find(library, "clCreateCommandQueue", table.create_queue) &&
         find(library, "clCreateContext", table.create_context) &&
         find(library, "clCreateKernel", table.create_kernel) &&
         find(library, "clCreateProgramWithBinary", table.create_program_with_binary) &&
         find(library, "clCreateProgramWithSource", table.create_program_with_source) &&
         find(library, "clEnqueueFillBuffer", table.enqueue_fill) &&
         find(library, "clEnqueueMarkerWithWaitList", table.enqueue_marker) &&
         find(library, "clEnqueueNDRangeKernel", table.enqueue_kernel) &&
         find(library, "clEnqueueReadBuffer", table.enqueue_read) &&
         find(library, "clEnqueueWriteBuffer", table.enqueue_write) && find(library, "clFinish", table.finish) &&
         find(library, "clFlush", table.flush) && find(library, "clGetDeviceIDs", table.get_devices) &&
         find(library, "clGetDeviceInfo", table.get_device_info) &&
         find(library, "clGetEventInfo", table.get_event_info) &&
         find(library, "clGetKernelWorkGroupInfo", table.get_kernel_group_info) &&
         find(library, "clGetPlatformIDs", table.get_platforms) &&
         find(library, "clGetProgramBuildInfo", table.get_build_info) &&
         find(library, "clGetProgramInfo", table.get_program_info) &&
         find(library, "clReleaseCommandQueue", table.release_queue) &&
         find(library, "clReleaseContext", table.release_context) &&
         find(library, "clReleaseEvent", table.release_event) &&
         find(library, "clReleaseKernel", table.release_kernel) &&
         find(library, "clReleaseMemObject", table.release_memory) &&
         find(library, "clReleaseProgram", table.release_program) &&
         find(library, "clRetainEvent", table.retain_event) &&
         find(library, "clSetEventCallback", table.set_event_callback) &&
         find(library, "clSetKernelArg", table.set_argument) && find(library, "clWaitForEvents", table.wait_for_events);
}

struct Name {
  cl_int error;
  const char* name;
};
#define TESSERA_NAME(error) {error, #error}
constexpr Name names[] = {
    TESSERA_NAME(CL_DEVICE_NOT_FOUND),
    TESSERA_NAME(CL_DEVICE_NOT_AVAILABLE),
    TESSERA_NAME(CL_COMPILER_NOT_AVAILABLE),
    TESSERA_NAME(CL_MEM_OBJECT_ALLOCATION_FAILURE),
    TESSERA_NAME(CL_OUT_OF_RESOURCES),
    TESSERA_NAME(CL_OUT_OF_HOST_MEMORY),
    TESSERA_NAME(CL_BUILD_PROGRAM_FAILURE),
    TESSERA_NAME(CL_MISALIGNED_SUB_BUFFER_OFFSET),
    TESSERA_NAME(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST),
    TESSERA_NAME(CL_INVALID_VALUE),
    TESSERA_NAME(CL_INVALID_DEVICE),
    TESSERA_NAME(CL_INVALID_CONTEXT),
    TESSERA_NAME(CL_INVALID_QUEUE_PROPERTIES),
    TESSERA_NAME(CL_INVALID_COMMAND_QUEUE),
    TESSERA_NAME(CL_INVALID_MEM_OBJECT),
    TESSERA_NAME(CL_INVALID_BINARY),
    TESSERA_NAME(CL_INVALID_BUILD_OPTIONS),
    TESSERA_NAME(CL_INVALID_PROGRAM),
    TESSERA_NAME(CL_INVALID_PROGRAM_EXECUTABLE),
    TESSERA_NAME(CL_INVALID_KERNEL_NAME),
    TESSERA_NAME(CL_INVALID_KERNEL_DEFINITION),
    TESSERA_NAME(CL_INVALID_KERNEL),
    TESSERA_NAME(CL_INVALID_ARG_INDEX),
    TESSERA_NAME(CL_INVALID_ARG_VALUE),
    TESSERA_NAME(CL_INVALID_ARG_SIZE),
    TESSERA_NAME(CL_INVALID_KERNEL_ARGS),
    TESSERA_NAME(CL_INVALID_WORK_GROUP_SIZE),
    TESSERA_NAME(CL_INVALID_WORK_ITEM_SIZE),
    TESSERA_NAME(CL_INVALID_GLOBAL_OFFSET),
    TESSERA_NAME(CL_INVALID_EVENT_WAIT_LIST),
    TESSERA_NAME(CL_INVALID_EVENT),
    TESSERA_NAME(CL_INVALID_OPERATION),
    TESSERA_NAME(CL_INVALID_BUFFER_SIZE),
    TESSERA_NAME(CL_INVALID_GLOBAL_WORK_SIZE),
};
#undef TESSERA_NAME

}  // namespace

const Functions* functions() {
  static const Functions* const opened = []() -> const Functions* {
    void* library = open_library({"libOpenCL.so.1", "libOpenCL.so"});
    if (!library) return nullptr;
    // By default PoCL 3.1 marks every loop over work items as vectorisable, which is not always true: it miscompiles
    // bicubic resize of u8. Only the environment can change that, and PoCL reads it when it compiles. The user's choice
    // wins.
    core::set_default_environment("POCL_WORK_GROUP_METHOD", "loops");
    static Functions table;
    return find_all(library, table) ? &table : nullptr;
  }();
  return opened;
}

std::string error_name(cl_int error) {
  for (const Name& known : names) {
    if (known.error == error) return known.name;
  }
  return "OpenCL error " + std::to_string(error);
}

}  // namespace tessera::driver::gpu::opencl
