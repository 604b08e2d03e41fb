#pragma once

#include "driver/gpu/api.hpp"
#include "driver/gpu/vulkan/memory.hpp"
#include "driver/gpu/vulkan/module.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tessera::driver::gpu::vulkan {

// A command buffer with all that belongs to it; one thread at a time. What it has needed once, it keeps.
class CommandBuffer {
 public:
  CommandBuffer(Device& device, std::uint32_t family, bool is_reused);
  ~CommandBuffer();
  CommandBuffer(const CommandBuffer&) = delete;
  CommandBuffer& operator=(const CommandBuffer&) = delete;

  VkCommandBuffer handle() const noexcept { return handle_; }
  // Forgets what was recorded; that must be over.
  void begin();
  void end();

 private:
  Device& device_;
  bool is_reused_;  // what is recorded is submitted more than once
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer handle_ = VK_NULL_HANDLE;
};

// Calls of kernels, recorded.
class Commands {
 public:
  // Arguments that are no push constants come from `host`.
  Commands(Device& device, Heap& host, bool is_reused);
  ~Commands();
  Commands(const Commands&) = delete;
  Commands& operator=(const Commands&) = delete;

  VkCommandBuffer handle() const noexcept { return buffer_.handle(); }
  // What was recorded before must be over.
  void record(std::span<const Dispatch> calls);

  // For whom it belongs to: the number of its submission, and the one after it in a list.
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
