#include "driver/gpu/vulkan/module.hpp"

#include "compile/disk_cache.hpp"

#include <cstring>
#include <string>
#include <vector>

namespace tessera::driver::gpu::vulkan {

namespace {

constexpr unsigned saved_after = 32;  // new pipelines; the rest is saved on destruction

// The key includes the driver, since binaries are specific to it.
std::string key_of(const Device& device) {
  const VkPhysicalDeviceProperties& properties = device.physical().properties;
  std::string all = "vulkan pipelines 1\n";
  const auto add = [&](const auto& part) { all.append(reinterpret_cast<const char*>(&part), sizeof part); };
  add(properties.vendorID);
  add(properties.deviceID);
  add(properties.driverVersion);
  add(properties.pipelineCacheUUID);
  return all;
}

}  // namespace

Kernel::Kernel(Device& device, const compile::gpu::Kernel& kernel, std::span<const std::uint32_t> spirv,
               VkPipelineCache cache)
    : device_(device),
      argument_bytes_(static_cast<std::uint32_t>(kernel.argument_words) * 4),
      has_argument_buffer_(!kernel.has_push_constants && kernel.argument_words > 0),
      bindings_(static_cast<std::uint32_t>(kernel.buffers.size()) + (kernel.has_scratch ? 1 : 0) +
                (has_argument_buffer_ ? 1 : 0)),
      is_pushed_(bindings_ <= device.physical().most_pushed_buffers && !is_set("TESSERA_VULKAN_SETS")) {
  try {
    make_layouts();
    make(spirv, cache);
  } catch (...) {
    destroy();
    throw;
  }
}

Kernel::~Kernel() {
  device_.settle();
  destroy();
}

void Kernel::destroy() noexcept {
  device_.functions().DestroyPipeline(device_.handle(), pipeline_, nullptr);
  device_.functions().DestroyPipelineLayout(device_.handle(), layout_, nullptr);
  device_.functions().DestroyDescriptorSetLayout(device_.handle(), set_layout_, nullptr);
}

void Kernel::make_layouts() {
  std::vector<VkDescriptorSetLayoutBinding> bindings(bindings_);
  for (std::uint32_t i = 0; i < bindings_; ++i) {
    bindings[i] = {.binding = i,
                   .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                   .descriptorCount = 1,
                   .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
                   .pImmutableSamplers = nullptr};
  }
  auto set = structure<VkDescriptorSetLayoutCreateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO);
  set.flags = is_pushed_ ? VK_DESCRIPTOR_SET_LAYOUT_CREATE_PUSH_DESCRIPTOR_BIT_KHR : 0;
  set.bindingCount = bindings_;
  set.pBindings = bindings.data();
  device_.check(device_.functions().CreateDescriptorSetLayout(device_.handle(), &set, nullptr, &set_layout_),
                "descriptor set layout");

  const VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0, argument_bytes_};
  auto create = structure<VkPipelineLayoutCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO);
  create.setLayoutCount = 1;
  create.pSetLayouts = &set_layout_;
  create.pushConstantRangeCount = argument_bytes_ > 0 && !has_argument_buffer_ ? 1 : 0;
  create.pPushConstantRanges = &range;
  device_.check(device_.functions().CreatePipelineLayout(device_.handle(), &create, nullptr, &layout_),
                "pipeline layout");
}

void Kernel::make(std::span<const std::uint32_t> spirv, VkPipelineCache cache) {
  auto create = structure<VkShaderModuleCreateInfo>(VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO);
  create.codeSize = spirv.size_bytes();
  create.pCode = spirv.data();
  VkShaderModule shader = VK_NULL_HANDLE;
  device_.check(device_.functions().CreateShaderModule(device_.handle(), &create, nullptr, &shader), "shader module");
  auto pipeline = structure<VkComputePipelineCreateInfo>(VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO);
  pipeline.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  pipeline.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  pipeline.stage.module = shader;
  pipeline.stage.pName = "main";
  pipeline.layout = layout_;
  const VkResult result =
      device_.functions().CreateComputePipelines(device_.handle(), cache, 1, &pipeline, nullptr, &pipeline_);
  device_.functions().DestroyShaderModule(device_.handle(), shader, nullptr);
  device_.check(result, "compute pipeline");
}

PipelineCache::PipelineCache(Device& device) : device_(device) {
  const auto kept = compile::DiskCache().find(key_of(device_));
  auto create = structure<VkPipelineCacheCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO);
  create.initialDataSize = kept ? kept->size() : 0;
  create.pInitialData = kept ? kept->data() : nullptr;
  device_.check(device_.functions().CreatePipelineCache(device_.handle(), &create, nullptr, &handle_),
                "pipeline cache");
}

PipelineCache::~PipelineCache() {
  save();
  device_.functions().DestroyPipelineCache(device_.handle(), handle_, nullptr);
}

void PipelineCache::note_new() noexcept {
  if (++unsaved_ >= saved_after) save();
}

void PipelineCache::save() noexcept try {
  if (unsaved_.exchange(0) == 0 || device_.failure()) return;
  std::size_t size = 0;
  if (device_.functions().GetPipelineCacheData(device_.handle(), handle_, &size, nullptr) != VK_SUCCESS) return;
  std::vector<std::byte> data(size);
  // If another thread has added more meanwhile, it is incomplete; the next save will have it.
  if (device_.functions().GetPipelineCacheData(device_.handle(), handle_, &size, data.data()) != VK_SUCCESS) return;
  compile::DiskCache().store(key_of(device_), {data.data(), size});
} catch (...) {
}

}  // namespace tessera::driver::gpu::vulkan
