// Hand-written Vulkan. Everything except buffer memory stays open until the process exits.
#include "compile/gpu/glsl/plugin.hpp"
#include "driver/gpu/vulkan/loader.hpp"
#include "rivals/gpu.hpp"

#include <cstring>
#include <dlfcn.h>
#include <stdexcept>

namespace bench::vulkan {

namespace {

using tessera::driver::gpu::vulkan::DeviceFunctions;
using tessera::driver::gpu::vulkan::GlobalFunctions;
using tessera::driver::gpu::vulkan::InstanceFunctions;
using tessera::driver::gpu::vulkan::load;
using tessera::driver::gpu::vulkan::structure;
namespace glsl = tessera::compile::gpu::glsl;

void check(VkResult result, const char* call) {
  if (result < VK_SUCCESS) throw std::runtime_error(std::string(call) + " returned " + std::to_string(result));
}

std::vector<std::uint32_t> compile(const std::string& source) {
  void* plugin = dlopen(TESSERA_BENCH_GLSL, RTLD_NOW | RTLD_LOCAL);
  auto* function = plugin ? reinterpret_cast<glsl::Function*>(dlsym(plugin, glsl::plugin_symbol)) : nullptr;
  if (!function) throw std::runtime_error("no GLSL compiler: " TESSERA_BENCH_GLSL);
  glsl::Result result;
  function({source.c_str(), false}, result);
  if (!result.error.empty()) throw std::runtime_error("a rival's kernel does not compile: " + result.error);
  return result.words;
}

struct Connection {
  DeviceFunctions call;
  PFN_vkCreateFence create_fence = nullptr;
  PFN_vkResetFences reset_fences = nullptr;
  PFN_vkWaitForFences wait_for_fences = nullptr;
  VkDevice device = VK_NULL_HANDLE;
  VkQueue queue = VK_NULL_HANDLE;
  VkCommandPool pool = VK_NULL_HANDLE;
  VkFence fence = VK_NULL_HANDLE;
  VkSemaphore timeline = VK_NULL_HANDLE;
  std::uint64_t last = 0;  // of the timeline
  VkPhysicalDeviceMemoryProperties memory{};

  bool open(const std::string& name) {
    GlobalFunctions global;
    if (!load(global)) return false;
    auto application = structure<VkApplicationInfo>(VK_STRUCTURE_TYPE_APPLICATION_INFO);
    application.apiVersion = VK_API_VERSION_1_2;
    auto create = structure<VkInstanceCreateInfo>(VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO);
    create.pApplicationInfo = &application;
    VkInstance instance = VK_NULL_HANDLE;
    InstanceFunctions functions;
    if (global.CreateInstance(&create, nullptr, &instance) != VK_SUCCESS) return false;
    if (!load(functions, global, instance)) return false;
    std::uint32_t count = 0;
    functions.EnumeratePhysicalDevices(instance, &count, nullptr);
    std::vector<VkPhysicalDevice> all(count);
    functions.EnumeratePhysicalDevices(instance, &count, all.data());
    for (VkPhysicalDevice physical : all) {
      VkPhysicalDeviceProperties properties{};
      functions.GetPhysicalDeviceProperties(physical, &properties);
      if (name == properties.deviceName) return open(functions, physical);
    }
    return false;
  }

  bool open(const InstanceFunctions& functions, VkPhysicalDevice physical) {
    functions.GetPhysicalDeviceMemoryProperties(physical, &memory);
    std::uint32_t count = 0;
    functions.GetPhysicalDeviceQueueFamilyProperties(physical, &count, nullptr);
    std::vector<VkQueueFamilyProperties> families(count);
    functions.GetPhysicalDeviceQueueFamilyProperties(physical, &count, families.data());
    std::uint32_t family = 0;
    while (family < count && (families[family].queueFlags & VK_QUEUE_COMPUTE_BIT) == 0) ++family;
    if (family == count) return false;

    const float priority = 1;
    auto queues = structure<VkDeviceQueueCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO);
    queues.queueFamilyIndex = family;
    queues.queueCount = 1;
    queues.pQueuePriorities = &priority;
    auto features = structure<VkPhysicalDeviceVulkan12Features>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
    features.timelineSemaphore = VK_TRUE;
    auto create = structure<VkDeviceCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO);
    create.pNext = &features;
    create.queueCreateInfoCount = 1;
    create.pQueueCreateInfos = &queues;
    if (functions.CreateDevice(physical, &create, nullptr, &device) != VK_SUCCESS) return false;
    if (!load(call, functions, device)) return false;
    const auto find = [&](auto& function, const char* function_name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
          functions.GetDeviceProcAddr(device, function_name));
      return function != nullptr;
    };
    if (!find(create_fence, "vkCreateFence") || !find(reset_fences, "vkResetFences") ||
        !find(wait_for_fences, "vkWaitForFences")) {
      return false;
    }
    call.GetDeviceQueue(device, family, 0, &queue);

    auto command_pool = structure<VkCommandPoolCreateInfo>(VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
    command_pool.queueFamilyIndex = family;
    check(call.CreateCommandPool(device, &command_pool, nullptr, &pool), "vkCreateCommandPool");
    const auto unsignaled = structure<VkFenceCreateInfo>(VK_STRUCTURE_TYPE_FENCE_CREATE_INFO);
    check(create_fence(device, &unsignaled, nullptr, &fence), "vkCreateFence");
    auto type = structure<VkSemaphoreTypeCreateInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO);
    type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
    auto semaphore = structure<VkSemaphoreCreateInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO);
    semaphore.pNext = &type;
    check(call.CreateSemaphore(device, &semaphore, nullptr, &timeline), "vkCreateSemaphore");
    return true;
  }

  void run_with_fence(VkCommandBuffer commands) {
    auto submit = structure<VkSubmitInfo>(VK_STRUCTURE_TYPE_SUBMIT_INFO);
    submit.commandBufferCount = 1;
    submit.pCommandBuffers = &commands;
    check(call.QueueSubmit(queue, 1, &submit, fence), "vkQueueSubmit");
    check(wait_for_fences(device, 1, &fence, VK_TRUE, std::numeric_limits<std::uint64_t>::max()), "vkWaitForFences");
    check(reset_fences(device, 1, &fence), "vkResetFences");
  }

  void run_with_timeline(VkCommandBuffer commands) {
    ++last;
    auto numbers = structure<VkTimelineSemaphoreSubmitInfo>(VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO);
    numbers.signalSemaphoreValueCount = 1;
    numbers.pSignalSemaphoreValues = &last;
    auto submit = structure<VkSubmitInfo>(VK_STRUCTURE_TYPE_SUBMIT_INFO);
    submit.pNext = &numbers;
    submit.commandBufferCount = 1;
    submit.pCommandBuffers = &commands;
    submit.signalSemaphoreCount = 1;
    submit.pSignalSemaphores = &timeline;
    check(call.QueueSubmit(queue, 1, &submit, VK_NULL_HANDLE), "vkQueueSubmit");
    auto wait = structure<VkSemaphoreWaitInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO);
    wait.semaphoreCount = 1;
    wait.pSemaphores = &timeline;
    wait.pValues = &last;
    check(call.WaitSemaphores(device, &wait, std::numeric_limits<std::uint64_t>::max()), "vkWaitSemaphores");
  }
};

// Null if the device does not exist.
std::shared_ptr<Connection> connect(const std::string& name) {
  auto connection = std::make_shared<Connection>();
  return connection->open(name) ? connection : nullptr;
}

// Device-local memory that the host can access: no copies are needed, and kernels run at full speed.
class Buffer {
 public:
  Buffer(std::shared_ptr<Connection> connection, std::size_t elements)
      : connection_(std::move(connection)), elements_(elements) {
    const DeviceFunctions& call = connection_->call;
    auto create = structure<VkBufferCreateInfo>(VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO);
    create.size = elements * sizeof(float);
    create.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT;
    check(call.CreateBuffer(connection_->device, &create, nullptr, &handle_), "vkCreateBuffer");
    VkMemoryRequirements needs{};
    call.GetBufferMemoryRequirements(connection_->device, handle_, &needs);
    auto allocate = structure<VkMemoryAllocateInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO);
    allocate.allocationSize = needs.size;
    allocate.memoryTypeIndex = type(needs.memoryTypeBits);
    check(call.AllocateMemory(connection_->device, &allocate, nullptr, &memory_), "vkAllocateMemory");
    check(call.BindBufferMemory(connection_->device, handle_, memory_, 0), "vkBindBufferMemory");
    void* mapped = nullptr;
    check(call.MapMemory(connection_->device, memory_, 0, VK_WHOLE_SIZE, 0, &mapped), "vkMapMemory");
    data_ = static_cast<float*>(mapped);
  }
  ~Buffer() {
    connection_->call.DestroyBuffer(connection_->device, handle_, nullptr);
    connection_->call.FreeMemory(connection_->device, memory_, nullptr);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  VkBuffer handle() const { return handle_; }
  std::span<float> values() { return {data_, elements_}; }

 private:
  std::uint32_t type(std::uint32_t allowed) const {
    constexpr VkMemoryPropertyFlags wanted = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                             VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    const VkPhysicalDeviceMemoryProperties& memory = connection_->memory;
    for (std::uint32_t i = 0; i < memory.memoryTypeCount; ++i) {
      if ((allowed >> i & 1) != 0 && (memory.memoryTypes[i].propertyFlags & wanted) == wanted) return i;
    }
    throw std::runtime_error("the device has no device-local memory that the host can access");
  }

  std::shared_ptr<Connection> connection_;
  std::size_t elements_;
  VkBuffer handle_ = VK_NULL_HANDLE;
  VkDeviceMemory memory_ = VK_NULL_HANDLE;
  float* data_ = nullptr;
};

// A command buffer with this many dispatches, each after the previous one.
VkCommandBuffer record(Connection& connection, const std::string& source, const std::vector<VkBuffer>& buffers,
                       std::uint32_t groups, int dispatches = 1) {
  const DeviceFunctions& call = connection.call;
  VkDevice device = connection.device;
  const auto count = static_cast<std::uint32_t>(buffers.size());
  std::vector<VkDescriptorSetLayoutBinding> bindings(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    bindings[i] = {i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
  }
  auto set_create = structure<VkDescriptorSetLayoutCreateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO);
  set_create.bindingCount = count;
  set_create.pBindings = bindings.data();
  VkDescriptorSetLayout set_layout = VK_NULL_HANDLE;
  check(call.CreateDescriptorSetLayout(device, &set_create, nullptr, &set_layout), "vkCreateDescriptorSetLayout");
  auto layout_create = structure<VkPipelineLayoutCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO);
  layout_create.setLayoutCount = 1;
  layout_create.pSetLayouts = &set_layout;
  VkPipelineLayout layout = VK_NULL_HANDLE;
  check(call.CreatePipelineLayout(device, &layout_create, nullptr, &layout), "vkCreatePipelineLayout");

  const std::vector<std::uint32_t> words = compile(source);
  auto shader_create = structure<VkShaderModuleCreateInfo>(VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO);
  shader_create.codeSize = words.size() * sizeof(std::uint32_t);
  shader_create.pCode = words.data();
  auto create = structure<VkComputePipelineCreateInfo>(VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO);
  create.stage = structure<VkPipelineShaderStageCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO);
  create.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  check(call.CreateShaderModule(device, &shader_create, nullptr, &create.stage.module), "vkCreateShaderModule");
  create.stage.pName = "main";
  create.layout = layout;
  VkPipeline pipeline = VK_NULL_HANDLE;
  check(call.CreateComputePipelines(device, VK_NULL_HANDLE, 1, &create, nullptr, &pipeline),
        "vkCreateComputePipelines");

  VkDescriptorSet set = VK_NULL_HANDLE;
  if (count > 0) {
    const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, count};
    auto pool_create = structure<VkDescriptorPoolCreateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO);
    pool_create.maxSets = 1;
    pool_create.poolSizeCount = 1;
    pool_create.pPoolSizes = &size;
    auto set_allocate = structure<VkDescriptorSetAllocateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO);
    check(call.CreateDescriptorPool(device, &pool_create, nullptr, &set_allocate.descriptorPool),
          "vkCreateDescriptorPool");
    set_allocate.descriptorSetCount = 1;
    set_allocate.pSetLayouts = &set_layout;
    check(call.AllocateDescriptorSets(device, &set_allocate, &set), "vkAllocateDescriptorSets");
    std::vector<VkDescriptorBufferInfo> infos(count);
    for (std::uint32_t i = 0; i < count; ++i) infos[i] = {buffers[i], 0, VK_WHOLE_SIZE};
    auto write = structure<VkWriteDescriptorSet>(VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET);
    write.dstSet = set;
    write.descriptorCount = count;
    write.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    write.pBufferInfo = infos.data();
    call.UpdateDescriptorSets(device, 1, &write, 0, nullptr);
  }

  auto allocate = structure<VkCommandBufferAllocateInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
  allocate.commandPool = connection.pool;
  allocate.commandBufferCount = 1;
  VkCommandBuffer commands = VK_NULL_HANDLE;
  check(call.AllocateCommandBuffers(device, &allocate, &commands), "vkAllocateCommandBuffers");
  const auto begin = structure<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
  check(call.BeginCommandBuffer(commands, &begin), "vkBeginCommandBuffer");
  call.CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
  if (set) call.CmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &set, 0, nullptr);
  auto barrier = structure<VkMemoryBarrier>(VK_STRUCTURE_TYPE_MEMORY_BARRIER);
  barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
  for (int i = 0; i < dispatches; ++i) {
    if (i > 0) {
      call.CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0,
                              1, &barrier, 0, nullptr, 0, nullptr);
    }
    call.CmdDispatch(commands, groups, 1, 1);
  }
  check(call.EndCommandBuffer(commands), "vkEndCommandBuffer");
  return commands;
}

std::string source_of(const GpuVariant& variant, float factor) {
  const std::string type = variant.width == 4 ? "vec4" : "float";
  const std::string group = std::to_string(variant.group);
  const std::string each = std::to_string(variant.each);
  return "#version 450\n"
         "layout(local_size_x = " +
         group +
         ") in;\n"
         "layout(std430, binding = 0) restrict readonly buffer A { " +
         type +
         " a[]; };\n"
         "layout(std430, binding = 1) restrict readonly buffer B { " +
         type +
         " b[]; };\n"
         "layout(std430, binding = 2) restrict writeonly buffer C { " +
         type +
         " c[]; };\n"
         "void main() {\n"
         "  uint at = gl_WorkGroupID.x * " +
         std::to_string(variant.group * variant.each) +
         " + gl_LocalInvocationID.x;\n"
         "  for (uint i = 0; i < " +
         each + "; ++i, at += " + group +
         ") {\n"
         "    c[at] = max(a[at] + b[at], 0.0) * " +
         std::to_string(factor) +
         ";\n"
         "  }\n"
         "}\n";
}

}  // namespace

Call submit_and_wait(const std::string& device, Wait wait, int dispatches) {
  const auto connection = connect(device);
  if (!connection) return nullptr;
  const std::array memory = {std::make_shared<Buffer>(connection, tiny_elements),
                             std::make_shared<Buffer>(connection, tiny_elements)};
  const std::string source =
      "#version 450\n"
      "layout(local_size_x = " +
      std::to_string(tiny_elements) +
      ") in;\n"
      "layout(std430, binding = 0) readonly buffer X { float x[]; };\n"
      "layout(std430, binding = 1) buffer Z { float z[]; };\n"
      "void main() { uint i = gl_GlobalInvocationID.x; z[i] = max(x[i], 0.0); }\n";
  VkCommandBuffer commands = record(*connection, source, {memory[0]->handle(), memory[1]->handle()}, 1, dispatches);
  if (wait == Wait::fence) return [=, kept = memory] { connection->run_with_fence(commands); };
  return [=, kept = memory] { connection->run_with_timeline(commands); };
}

GpuKernel add_relu_scale(const std::string& device, std::span<const float> a, std::span<const float> b, float factor) {
  const auto connection = connect(device);
  if (!connection) return {};
  const auto buffer_of = [&](std::span<const float> values) {
    auto made = std::make_shared<Buffer>(connection, values.size());
    std::ranges::copy(values, made->values().begin());
    return made;
  };
  const auto left = buffer_of(a);
  const auto right = buffer_of(b);
  const auto output = std::make_shared<Buffer>(connection, a.size());
  std::vector<Call> calls;
  for (const GpuVariant& variant : gpu_variants) {
    const auto groups =
        static_cast<std::uint32_t>(a.size()) / static_cast<std::uint32_t>(variant.group * variant.width * variant.each);
    VkCommandBuffer commands =
        record(*connection, source_of(variant, factor), {left->handle(), right->handle(), output->handle()}, groups);
    calls.emplace_back([=, kept = std::array{left, right, output}] { connection->run_with_timeline(commands); });
  }
  const Call best = calls[fastest(calls)];
  return {best, [=] {
            const std::span<float> values = output->values();
            return std::vector<float>(values.begin(), values.end());
          }};
}

}  // namespace bench::vulkan
