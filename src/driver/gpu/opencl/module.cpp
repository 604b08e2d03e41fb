#include "driver/gpu/opencl/module.hpp"

#include "compile/disk_cache.hpp"
#include "core/environment.hpp"
#include "core/text.hpp"
#include "driver/gpu/opencl/waitable_children.hpp"

#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace tessera::driver::gpu::opencl {

namespace {

constexpr std::string_view format = "tessera opencl 1\n";

std::string options_for(cl_device_id device) {
  std::string options = "-cl-std=CL1.2 -w";
  const auto floats = value<cl_device_fp_config>(device, CL_DEVICE_SINGLE_FP_CONFIG);
  if (floats & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) options += " -cl-fp32-correctly-rounded-divide-sqrt";
  return options;
}

std::string build_log(cl_program program, cl_device_id device) {
  std::size_t size = 0;
  if (functions()->get_build_info(program, device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &size) != CL_SUCCESS) return {};
  std::string log(size, '\0');
  functions()->get_build_info(program, device, CL_PROGRAM_BUILD_LOG, size, log.data(), nullptr);
  log.resize(std::min(log.find('\0'), size));
  return log;
}

// Empty if the driver provides none.
std::vector<std::byte> binary_of(cl_program program) {
  std::size_t size = 0;
  if (functions()->get_program_info(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, nullptr) != CL_SUCCESS) {
    return {};
  }
  std::vector<std::byte> binary(size);
  auto* address = reinterpret_cast<unsigned char*>(binary.data());
  if (functions()->get_program_info(program, CL_PROGRAM_BINARIES, sizeof address, static_cast<void*>(&address),
                                    nullptr) != CL_SUCCESS) {
    return {};
  }
  return binary;
}

// Null if the driver rejects it: it may have changed without a new version number.
ProgramObject from_binary(Connection& connection, std::span<const std::byte> binary, const std::string& options) {
  cl_device_id device = connection.found().device;
  const std::size_t size = binary.size();
  const auto* address = reinterpret_cast<const unsigned char*>(binary.data());
  cl_int status = CL_SUCCESS;
  cl_int error = CL_SUCCESS;
  ProgramObject program(
      functions()->create_program_with_binary(connection.context(), 1, &device, &size, &address, &status, &error));
  if (error != CL_SUCCESS || status != CL_SUCCESS) return {};
  if (functions()->build_program(program.get(), 1, &device, options.c_str(), nullptr, nullptr) != CL_SUCCESS) return {};
  return program;
}

ProgramObject from_source(Connection& connection, const std::string& source, const std::string& options,
                          const std::string& name) {
  cl_device_id device = connection.found().device;
  const char* text = source.c_str();
  const std::size_t size = source.size();
  cl_int error = CL_SUCCESS;
  ProgramObject program(functions()->create_program_with_source(connection.context(), 1, &text, &size, &error));
  connection.check(error, "clCreateProgramWithSource");
  error = functions()->build_program(program.get(), 1, &device, options.c_str(), nullptr, nullptr);
  if (error == CL_BUILD_PROGRAM_FAILURE) {
    throw Error(Errc::invalid_kernel, core::text("[", name, "] does not compile for the OpenCL device ",
                                                 connection.found().info.name, ": ", build_log(program.get(), device)));
  }
  connection.check(error, "clBuildProgram");
  return program;
}

// PoCL 3.1, a one-line kernel: 800 ms from source, 38 from source in its own cache, 2 from a binary.
ProgramObject build(Connection& connection, const std::string& source, const std::string& name) {
  const WaitableChildren children(connection.found());
  const std::string options = options_for(connection.found().device);
  compile::DiskCache cache;
  const char* method = core::environment_variable("POCL_WORK_GROUP_METHOD");  // affects the compiled code
  const std::string key =
      core::text(format, connection.found().driver, '\n', method ? method : "", '\n', options, '\n', source);
  if (const auto binary = cache.find(key)) {
    if (ProgramObject program = from_binary(connection, *binary, options)) return program;
  }
  ProgramObject program = from_source(connection, source, options, name);
  // Querying it costs PoCL another 100 ms.
  if (!compile::DiskCache::default_folder().empty()) {
    if (const auto binary = binary_of(program.get()); !binary.empty()) cache.store(key, binary);
  }
  return program;
}

}  // namespace

OpenclModule::OpenclModule(std::shared_ptr<Connection> connection, const compile::gpu::Kernel& kernel,
                           const std::string& name)
    : connection_(std::move(connection)),
      group_(static_cast<std::size_t>(kernel.group)),
      program_(build(*connection_, kernel.source, name)),
      kernel_(make_kernel()) {
  std::size_t most = 0;
  connection_->check(functions()->get_kernel_group_info(kernel_.get(), connection_->found().device,
                                                        CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most, nullptr),
                     "clGetKernelWorkGroupInfo");
  if (group_ > most) {
    throw GroupTooLarge(core::text("[", name, "] has workgroups of ", group_, " invocations; the OpenCL device ",
                                   connection_->found().info.name, " supports at most ", most),
                        static_cast<int>(most));
  }
}

KernelObject OpenclModule::make_kernel() const {
  cl_int error = CL_SUCCESS;
  KernelObject kernel(functions()->create_kernel(program_.get(), "kernel_main", &error));
  connection_->check(error, "clCreateKernel");
  return kernel;
}

}  // namespace tessera::driver::gpu::opencl
