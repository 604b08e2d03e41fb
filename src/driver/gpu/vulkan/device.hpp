#pragma once

#include "core/failure.hpp"
#include "driver/gpu/vulkan/instance.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace tessera::driver::gpu::vulkan {

// An opened device, and whether it still works.
class Device {
 public:
  explicit Device(const PhysicalDevice& physical);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const PhysicalDevice& physical() const noexcept { return physical_; }
  const DeviceFunctions& functions() const noexcept { return *functions_.load(std::memory_order_acquire); }
  VkDevice handle() const noexcept { return handle_; }

  // A queue of the device, for one thread at a time. Two of these may be the same queue.
  struct Queue {
    VkQueue handle = VK_NULL_HANDLE;
    std::mutex mutex;
    // The timelines of what is submitted to it, and their last numbers. Under the mutex.
    std::map<VkSemaphore, const std::uint64_t*> timelines;
  };
  Queue& compute() noexcept { return queues_[0]; }
  Queue& transfer() noexcept { return queues_[physical_.transfer == physical_.compute ? 0 : 1]; }

  // Throws unless it is VK_SUCCESS. A lost device stays lost.
  void check(VkResult result, const char* doing) {
    if (result < VK_SUCCESS) fail(result, doing);
  }

  // Null while the device works.
  core::FailurePtr failure() const;
  void throw_if_lost() const;
  void lose(const std::string& why);
  // A device declared lost may still run: call this before destroying anything that it may use. Waits until it is idle;
  // if that takes too long, because a kernel hangs, nothing of this device is destroyed any more.
  void settle() noexcept;

 private:
  [[noreturn]] void fail(VkResult result, const char* doing);
  bool open();
  bool is_idle_before(Queue& queue, std::chrono::nanoseconds time) noexcept;
  void abandon() noexcept;

  const PhysicalDevice& physical_;
  VkDevice handle_ = VK_NULL_HANDLE;
  DeviceFunctions loaded_;
  DeviceFunctions harmless_;  // those, without any that destroys something
  std::atomic<const DeviceFunctions*> functions_{&loaded_};
  std::array<Queue, 2> queues_;
  std::atomic<bool> is_lost_{false};
  std::atomic<bool> is_settled_{false};
  std::mutex settling_;
  mutable std::mutex mutex_;
  core::FailurePtr failure_;
};

}  // namespace tessera::driver::gpu::vulkan
