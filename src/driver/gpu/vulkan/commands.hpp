#pragma once

#include "driver/gpu/api.hpp"
#include "driver/gpu/vulkan/memory.hpp"
#include "driver/gpu/vulkan/module.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tessera::driver::gpu::vulkan {

// A command buffer and its resources, which it keeps for reuse. For one thread at a time.
class CommandBuffer {
 public:
  CommandBuffer(Device& device, std::uint32_t family, bool is_reused);
  ~CommandBuffer();
  CommandBuffer(const CommandBuffer&) = delete;
  CommandBuffer& operator=(const CommandBuffer&) = delete;

  VkCommandBuffer handle() const noexcept { return handle_; }
  // Resets it. Its last submission must have finished.
  void begin();
  void end();

 private:
  Device& device_;
  bool is_reused_;  // it is submitted more than once
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer handle_ = VK_NULL_HANDLE;
};

// Recorded kernel calls.
class Commands {
 public:
  // Arguments that do not fit push constants are placed in memory from `host`.
  Commands(Device& device, Heap& host, bool is_reused);
  ~Commands();
  Commands(const Commands&) = delete;
  Commands& operator=(const Commands&) = delete;

  VkCommandBuffer handle() const noexcept { return buffer_.handle(); }
  // The previous recording must have finished.
  void record(std::span<const Dispatch> calls);

  // For the owner: the number of its submission, and the next one in a list.
  std::uint64_t number = 0;
  Commands* next = nullptr;

 private:
  void reserve(std::span<const Dispatch> calls);
  void reserve_sets(std::uint32_t sets, std::uint32_t descriptors);
  void bind(const Dispatch& call, const Kernel& kernel);
  void barrier(VkPipelineStageFlags to, VkAccessFlags access);

  Device& device_;
  Heap& host_;
  CommandBuffer buffer_;
  VkDescriptorPool sets_ = VK_NULL_HANDLE;
  std::uint32_t most_sets_ = 0;
  std::uint32_t most_descriptors_ = 0;
  std::unique_ptr<Block> arguments_;
  VkDeviceSize arguments_used_ = 0;
  std::vector<VkDescriptorBufferInfo> infos_;  // of one call
};

}  // namespace tessera::driver::gpu::vulkan
