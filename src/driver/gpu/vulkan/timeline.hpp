#pragma once

#include "driver/gpu/api.hpp"
#include "driver/gpu/vulkan/device.hpp"

#include <atomic>
#include <cstdint>

namespace tessera::driver::gpu::vulkan {

// The submissions to one of the device's queues, numbered from 1.
class Timeline {
 public:
  // `stage` is where its commands do their work, which the queue must support: a queue for copies has no compute stage.
  Timeline(Device& device, Device::Queue& queue, VkPipelineStageFlags stage);
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;
  // `other` is the timeline of the other queue: submissions here see the results of what has finished there.
  void see(Timeline& other) noexcept { other_ = &other; }

  // Calls submitted(number) before any other thread can submit.
  template <class Submitted>
  std::uint64_t submit(VkCommandBuffer commands, Submitted&& submitted) {
    device_.throw_if_lost();
    const std::scoped_lock lock(queue_.mutex);
    // Checked again under the lock: nothing may reach the queue once settle() has waited for it.
    device_.throw_if_lost();
    put(commands);
    submitted(++last_);
    return last_;
  }
  std::uint64_t submit(VkCommandBuffer commands) {
    return submit(commands, [](std::uint64_t) {});
  }

  // Like Api::wait.
  Progress wait(std::uint64_t number, Clock::time_point until);
  // Blocks until it has finished; throws if the device is lost. If nothing finishes for as long as time_limit(), it is.
  void wait(std::uint64_t number);
  // All up to this one have finished; perhaps more.
  std::uint64_t known_ended() const noexcept { return ended_.load(std::memory_order_acquire); }
  // All up to this one have finished, queried now.
  std::uint64_t ended();
  // Waits until nothing is in flight, or as long as a lost device may take for that.
  void finish() noexcept;

 private:
  void put(VkCommandBuffer commands);
  void note(std::uint64_t ended) noexcept;

  Device& device_;
  Device::Queue& queue_;
  const VkPipelineStageFlags stage_;
  Timeline* other_ = nullptr;
  VkSemaphore semaphore_ = VK_NULL_HANDLE;
  std::uint64_t last_ = 0;  // guarded by the queue's mutex
  std::atomic<std::uint64_t> ended_{0};
};

}  // namespace tessera::driver::gpu::vulkan
