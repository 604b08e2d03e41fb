// Hand-written OpenCL.
#include "driver/gpu/opencl/functions.hpp"
#include "rivals/gpu.hpp"

#include <stdexcept>

namespace bench::opencl {

namespace {

using namespace tessera::driver::gpu::opencl;

void check(cl_int error, const char* call) {
  if (error != CL_SUCCESS) throw std::runtime_error(std::string(call) + " returned " + error_name(error));
}

// Null if the device does not exist.
cl_device_id find(const std::string& name) {
  if (!functions()) return nullptr;
  cl_uint count = 0;
  functions()->get_platforms(0, nullptr, &count);
  std::vector<cl_platform_id> platforms(count);
  functions()->get_platforms(count, platforms.data(), nullptr);
  for (cl_platform_id platform : platforms) {
    count = 0;
    functions()->get_devices(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count);
    std::vector<cl_device_id> devices(count);
    functions()->get_devices(platform, CL_DEVICE_TYPE_ALL, count, devices.data(), nullptr);
    for (cl_device_id device : devices) {
      std::array<char, 1024> its{};
      functions()->get_device_info(device, CL_DEVICE_NAME, its.size() - 1, its.data(), nullptr);
      if (name == its.data()) return device;
    }
  }
  return nullptr;
}

struct Connection {
  explicit Connection(cl_device_id opened) : device(opened) {
    cl_int error = CL_SUCCESS;
    context = Context(functions()->create_context(nullptr, 1, &device, nullptr, nullptr, &error));
    check(error, "clCreateContext");
    queue = QueueObject(functions()->create_queue(context.get(), device, 0, &error));
    check(error, "clCreateCommandQueue");
  }
  KernelObject kernel(const std::string& source) const {
    const char* text = source.c_str();
    cl_int error = CL_SUCCESS;
    const ProgramObject program(functions()->create_program_with_source(context.get(), 1, &text, nullptr, &error));
    check(error, "clCreateProgramWithSource");
    check(functions()->build_program(program.get(), 1, &device, "-cl-std=CL1.2", nullptr, nullptr), "clBuildProgram");
    KernelObject made(functions()->create_kernel(program.get(), "kernel_main", &error));
    check(error, "clCreateKernel");
    return made;
  }
  MemoryObject memory(std::span<const float> values) const {
    cl_int error = CL_SUCCESS;
    MemoryObject made(functions()->create_buffer(context.get(), CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                                 values.size_bytes(), const_cast<float*>(values.data()), &error));
    check(error, "clCreateBuffer");
    return made;
  }

  void run_and_finish(cl_kernel started, std::size_t global, std::size_t group) const {
    check(functions()->enqueue_kernel(queue.get(), started, 1, nullptr, &global, &group, 0, nullptr, nullptr),
          "clEnqueueNDRangeKernel");
    check(functions()->finish(queue.get()), "clFinish");
  }
  void run_and_wait_for_event(cl_kernel started, std::size_t global, std::size_t group) const {
    cl_event event = nullptr;
    check(functions()->enqueue_kernel(queue.get(), started, 1, nullptr, &global, &group, 0, nullptr, &event),
          "clEnqueueNDRangeKernel");
    check(functions()->wait_for_events(1, &event), "clWaitForEvents");
    functions()->release_event(event);
  }

  cl_device_id device;
  Context context;
  QueueObject queue;
};

std::string source_of(const GpuVariant& variant, float factor) {
  const std::string type = variant.width == 4 ? "float4" : "float";
  const std::string group = std::to_string(variant.group);
  return "kernel __attribute__((reqd_work_group_size(" + group +
         ", 1, 1)))\n"
         "void kernel_main(global const " +
         type + "* restrict a, global const " + type +
         "* restrict b,\n"
         "                 global " +
         type +
         "* restrict c) {\n"
         "  uint at = get_group_id(0) * " +
         std::to_string(variant.group * variant.each) +
         " + get_local_id(0);\n"
         "  for (uint i = 0; i < " +
         std::to_string(variant.each) + "; ++i, at += " + group +
         ") {\n"
         "    c[at] = fmax(a[at] + b[at], (" +
         type + ")(0)) * " + std::to_string(factor) +
         "f;\n"
         "  }\n"
         "}\n";
}

}  // namespace

Call submit_and_wait(const std::string& device, Wait wait) {
  cl_device_id found = find(device);
  if (!found) return nullptr;
  const auto connection = std::make_shared<Connection>(found);
  const auto kernel = std::make_shared<KernelObject>(
      connection->kernel("kernel void kernel_main(global const float* x, global float* z) {\n"
                         "  uint i = get_global_id(0);\n"
                         "  z[i] = fmax(x[i], 0.0f);\n"
                         "}\n"));
  const std::vector<float> values(tiny_elements);
  const auto memory =
      std::make_shared<std::array<MemoryObject, 2>>(std::array{connection->memory(values), connection->memory(values)});
  for (cl_uint i = 0; i < memory->size(); ++i) {
    cl_mem argument = (*memory)[i].get();
    check(functions()->set_argument(kernel->get(), i, sizeof argument, static_cast<const void*>(&argument)),
          "clSetKernelArg");
  }
  if (wait == Wait::finish) {
    return [=, kept = memory] { connection->run_and_finish(kernel->get(), tiny_elements, tiny_elements); };
  }
  return [=, kept = memory] { connection->run_and_wait_for_event(kernel->get(), tiny_elements, tiny_elements); };
}

GpuKernel add_relu_scale(const std::string& device, std::span<const float> a, std::span<const float> b, float factor) {
  cl_device_id found = find(device);
  if (!found) return {};
  const auto connection = std::make_shared<Connection>(found);
  const auto memory = std::make_shared<std::array<MemoryObject, 3>>(
      std::array{connection->memory(a), connection->memory(b), connection->memory(a)});
  std::vector<Call> calls;
  for (const GpuVariant& variant : gpu_variants) {
    const auto kernel = std::make_shared<KernelObject>(connection->kernel(source_of(variant, factor)));
    for (cl_uint i = 0; i < memory->size(); ++i) {
      cl_mem argument = (*memory)[i].get();
      check(functions()->set_argument(kernel->get(), i, sizeof argument, static_cast<const void*>(&argument)),
            "clSetKernelArg");
    }
    const auto global = a.size() / static_cast<std::size_t>(variant.width * variant.each);
    calls.emplace_back([=, group = static_cast<std::size_t>(variant.group), kept = memory] {
      connection->run_and_finish(kernel->get(), global, group);
    });
  }
  const Call best = calls[fastest(calls)];
  return {best, [=, elements = a.size()] {
            std::vector<float> values(elements);
            check(functions()->enqueue_read(connection->queue.get(), (*memory)[2].get(), CL_TRUE, 0,
                                            elements * sizeof(float), values.data(), 0, nullptr, nullptr),
                  "clEnqueueReadBuffer");
            return values;
          }};
}

}  // namespace bench::opencl
