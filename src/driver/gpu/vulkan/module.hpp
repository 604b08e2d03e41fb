#pragma once

#include "driver/gpu/api.hpp"
#include "driver/gpu/vulkan/device.hpp"

#include <atomic>
#include <cstdint>
#include <span>
#include <string>

namespace tessera::driver::gpu::vulkan {

class Kernel final : public Module {
 public:
  // Does not use the source of `kernel`; `cache` may have a compiled pipeline.
  Kernel(Device& device, const compile::gpu::Kernel& kernel, std::span<const std::uint32_t> spirv,
         VkPipelineCache cache);
  ~Kernel() override;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  VkPipeline pipeline() const noexcept { return pipeline_; }
  VkPipelineLayout layout() const noexcept { return layout_; }
  VkDescriptorSetLayout set_layout() const noexcept { return set_layout_; }
  std::uint32_t bindings() const noexcept { return bindings_; }
  // Bytes of the arguments, and whether they are push constants; otherwise they are the last binding.
  std::uint32_t argument_bytes() const noexcept { return argument_bytes_; }
  bool has_argument_buffer() const noexcept { return has_argument_buffer_; }
  // Whether its buffers are bound by push descriptors rather than a descriptor set.
  bool is_pushed() const noexcept { return is_pushed_; }

 private:
  void make(std::span<const std::uint32_t> spirv, VkPipelineCache cache);
  void make_layouts();
  void destroy() noexcept;

  Device& device_;
  std::uint32_t argument_bytes_;
  bool has_argument_buffer_;
  std::uint32_t bindings_;
  bool is_pushed_;
  VkDescriptorSetLayout set_layout_ = VK_NULL_HANDLE;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkPipeline pipeline_ = VK_NULL_HANDLE;
};

// The driver's pipeline cache for this device, kept on disk across processes.
class PipelineCache {
 public:
  explicit PipelineCache(Device& device);
  ~PipelineCache();
  PipelineCache(const PipelineCache&) = delete;
  PipelineCache& operator=(const PipelineCache&) = delete;

  VkPipelineCache handle() const noexcept { return handle_; }
  // Call after a pipeline was added; saves to disk from time to time.
  void note_new() noexcept;

 private:
  void save() noexcept;

  Device& device_;
  VkPipelineCache handle_ = VK_NULL_HANDLE;
  std::atomic<unsigned> unsaved_{0};
};

}  // namespace tessera::driver::gpu::vulkan
