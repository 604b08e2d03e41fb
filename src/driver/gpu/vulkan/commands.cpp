#include "driver/gpu/vulkan/commands.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"

#include <algorithm>
#include <cstring>

namespace tessera::driver::gpu::vulkan {

CommandBuffer::CommandBuffer(Device& device, std::uint32_t family, bool is_reused)
    : device_(device), is_reused_(is_reused) {
  auto create = structure<VkCommandPoolCreateInfo>(VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
  create.flags = is_reused ? 0 : VK_COMMAND_POOL_CREATE_TRANSIENT_BIT;
  create.queueFamilyIndex = family;
  device_.check(device_.functions().CreateCommandPool(device_.handle(), &create, nullptr, &pool_), "command pool");
  auto allocate = structure<VkCommandBufferAllocateInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
  allocate.commandPool = pool_;
  allocate.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  allocate.commandBufferCount = 1;
  if (const VkResult result = device_.functions().AllocateCommandBuffers(device_.handle(), &allocate, &handle_);
      result != VK_SUCCESS) {
    device_.functions().DestroyCommandPool(device_.handle(), pool_, nullptr);
    device_.check(result, "command buffer");
  }
}

CommandBuffer::~CommandBuffer() {
  device_.settle();
  device_.functions().DestroyCommandPool(device_.handle(), pool_, nullptr);
}

void CommandBuffer::begin() {
  // Drivers are fastest when a whole pool is reset at once.
  device_.check(device_.functions().ResetCommandPool(device_.handle(), pool_, 0), "command pool");
  auto begin = structure<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
  begin.flags = is_reused_ ? 0 : VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  device_.check(device_.functions().BeginCommandBuffer(handle_, &begin), "recording");
}

void CommandBuffer::end() { device_.check(device_.functions().EndCommandBuffer(handle_), "recording"); }

Commands::Commands(Device& device, Heap& host, bool is_reused)
    : device_(device), host_(host), buffer_(device, device.physical().compute.family, is_reused) {}

Commands::~Commands() {
  device_.settle();
  device_.functions().DestroyDescriptorPool(device_.handle(), sets_, nullptr);
}

void Commands::record(std::span<const Dispatch> calls) {
  reserve(calls);
  buffer_.begin();
  VkPipeline bound = VK_NULL_HANDLE;
  for (const Dispatch& call : calls) {
    const auto& kernel = static_cast<const Kernel&>(*call.module);
    if (&call == calls.data() ? call.waits_for_submissions : call.waits) {
      barrier(VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
    }
    if (kernel.pipeline() != bound) {
      bound = kernel.pipeline();
      device_.functions().CmdBindPipeline(handle(), VK_PIPELINE_BIND_POINT_COMPUTE, bound);
    }
    bind(call, kernel);
    const Grid grid = Grid::of(call.groups, device_.physical().properties.limits.maxComputeWorkGroupCount[0]);
    device_.functions().CmdDispatch(handle(), grid.x, grid.y, 1);
  }
  // Completion alone does not make writes visible to the host.
  if (!calls.empty()) barrier(VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
  buffer_.end();
}

void Commands::barrier(VkPipelineStageFlags to, VkAccessFlags access) {
  auto memory = structure<VkMemoryBarrier>(VK_STRUCTURE_TYPE_MEMORY_BARRIER);
  memory.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
  memory.dstAccessMask = access;
  device_.functions().CmdPipelineBarrier(handle(), VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, to, 0, 1, &memory, 0, nullptr,
                                         0, nullptr);
}

namespace {

VkDeviceSize round_up(VkDeviceSize size, VkDeviceSize to) { return (size + to - 1) / to * to; }

}  // namespace

void Commands::reserve(std::span<const Dispatch> calls) {
  const VkDeviceSize alignment = device_.physical().properties.limits.minStorageBufferOffsetAlignment;
  std::uint32_t sets = 0;
  std::uint32_t descriptors = 0;
  VkDeviceSize bytes = 0;
  for (const Dispatch& call : calls) {
    const auto& kernel = static_cast<const Kernel&>(*call.module);
    if (call.buffers.size() + (kernel.has_argument_buffer() ? 1 : 0) != kernel.bindings() ||
        call.arguments.size() * 4 != kernel.argument_bytes()) {
      throw Error(Errc::internal,
                  core::text("a kernel with ", kernel.bindings(), " bindings and ", kernel.argument_bytes(),
                             " bytes of arguments was given ", call.buffers.size(), " buffers and ",
                             call.arguments.size() * 4, " bytes"));
    }
    if (!kernel.is_pushed()) {
      ++sets;
      descriptors += kernel.bindings();
    }
    if (kernel.has_argument_buffer()) bytes += round_up(kernel.argument_bytes(), alignment);
  }
  if (sets > 0) reserve_sets(sets, std::max(descriptors, 1U));
  arguments_used_ = 0;
  if (bytes == 0 || (arguments_ && arguments_->size() >= bytes)) return;
  arguments_.reset();
  arguments_ = host_.allocate(bytes);
  if (!arguments_) {
    throw Error(Errc::out_of_memory, core::text("out of memory for ", bytes, " bytes of arguments on the device '",
                                                device_.physical().info.name, "' (vulkan)"));
  }
}

void Commands::reserve_sets(std::uint32_t sets, std::uint32_t descriptors) {
  if (sets <= most_sets_ && descriptors <= most_descriptors_) {
    device_.check(device_.functions().ResetDescriptorPool(device_.handle(), sets_, 0), "descriptor pool");
    return;
  }
  device_.functions().DestroyDescriptorPool(device_.handle(), sets_, nullptr);
  sets_ = VK_NULL_HANDLE;
  most_sets_ = std::max(sets, most_sets_);
  most_descriptors_ = std::max(descriptors, most_descriptors_);
  const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, most_descriptors_};
  auto create = structure<VkDescriptorPoolCreateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO);
  create.maxSets = most_sets_;
  create.poolSizeCount = 1;
  create.pPoolSizes = &size;
  const VkResult result = device_.functions().CreateDescriptorPool(device_.handle(), &create, nullptr, &sets_);
  if (result != VK_SUCCESS) most_sets_ = most_descriptors_ = 0;
  device_.check(result, "descriptor pool");
}

void Commands::bind(const Dispatch& call, const Kernel& kernel) {
  const DeviceFunctions& functions = device_.functions();
  const VkPhysicalDeviceLimits& limits = device_.physical().properties.limits;
  infos_.clear();
  for (Memory* memory : call.buffers) {
    const auto& block = static_cast<const Block&>(*memory);
    infos_.push_back(
        {block.buffer(), block.offset(), std::min<VkDeviceSize>(block.size(), limits.maxStorageBufferRange)});
  }
  if (kernel.has_argument_buffer()) {
    std::memcpy(arguments_->host_address() + arguments_used_, call.arguments.data(), kernel.argument_bytes());
    arguments_->show_to_device(arguments_used_, kernel.argument_bytes());
    infos_.push_back({arguments_->buffer(), arguments_->offset() + arguments_used_, kernel.argument_bytes()});
    arguments_used_ += round_up(kernel.argument_bytes(), limits.minStorageBufferOffsetAlignment);
  } else if (kernel.argument_bytes() > 0) {
    functions.CmdPushConstants(handle(), kernel.layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0, kernel.argument_bytes(),
                               call.arguments.data());
  }
  if (kernel.bindings() == 0) return;
  // One write covers consecutive bindings, since all have the same type.
  auto write = structure<VkWriteDescriptorSet>(VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET);
  write.descriptorCount = kernel.bindings();
  write.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
  write.pBufferInfo = infos_.data();
  if (kernel.is_pushed()) {
    functions.CmdPushDescriptorSetKHR(handle(), VK_PIPELINE_BIND_POINT_COMPUTE, kernel.layout(), 0, 1, &write);
    return;
  }
  VkDescriptorSetLayout layout = kernel.set_layout();
  auto allocate = structure<VkDescriptorSetAllocateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO);
  allocate.descriptorPool = sets_;
  allocate.descriptorSetCount = 1;
  allocate.pSetLayouts = &layout;
  device_.check(functions.AllocateDescriptorSets(device_.handle(), &allocate, &write.dstSet), "descriptor set");
  functions.UpdateDescriptorSets(device_.handle(), 1, &write, 0, nullptr);
  functions.CmdBindDescriptorSets(handle(), VK_PIPELINE_BIND_POINT_COMPUTE, kernel.layout(), 0, 1, &write.dstSet, 0,
                                  nullptr);
}

}  // namespace tessera::driver::gpu::vulkan
