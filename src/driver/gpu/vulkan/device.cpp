#include "driver/gpu/vulkan/device.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"

#include <cstdint>
#include <vector>

namespace tessera::driver::gpu::vulkan {

Device::Device(const PhysicalDevice& physical) : physical_(physical) {
  if (!open()) {
    if (handle_ && functions_.DestroyDevice) functions_.DestroyDevice(handle_, nullptr);
    throw Error(Errc::device_failure, core::text("the device '", physical_.info.name, "' (vulkan) cannot be opened"));
  }
}

bool Device::open() {
  const InstanceFunctions& instance = Instance::get().functions();
  const QueueChoice& compute_choice = physical_.compute;
  const QueueChoice& transfer_choice = physical_.transfer;
  const std::array<float, 2> priorities{1.0F, 1.0F};
  std::vector<VkDeviceQueueCreateInfo> queues(1, {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                                  .pNext = nullptr,
                                                  .flags = 0,
                                                  .queueFamilyIndex = compute_choice.family,
                                                  .queueCount = 1,
                                                  .pQueuePriorities = priorities.data()});
  if (transfer_choice.family == compute_choice.family) {
    queues[0].queueCount = transfer_choice.index + 1;
  } else {
    queues.push_back(queues[0]);
    queues[1].queueFamilyIndex = transfer_choice.family;
  }
  Features features;
  features.chain.features.shaderFloat64 = physical_.target.has_f64 ? VK_TRUE : VK_FALSE;
  features.chain.features.shaderInt64 = physical_.target.has_s64 ? VK_TRUE : VK_FALSE;
  features.vulkan12.storageBuffer8BitAccess = physical_.target.has_u8 ? VK_TRUE : VK_FALSE;
  features.vulkan12.timelineSemaphore = VK_TRUE;
  const char* const push = VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME;
  auto create = structure<VkDeviceCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO);
  create.pNext = &features.chain;
  create.queueCreateInfoCount = static_cast<std::uint32_t>(queues.size());
  create.pQueueCreateInfos = queues.data();
  create.enabledExtensionCount = physical_.most_pushed_buffers > 0 ? 1 : 0;
  create.ppEnabledExtensionNames = &push;
  if (instance.CreateDevice(physical_.handle, &create, nullptr, &handle_) != VK_SUCCESS) return false;
  if (!load(functions_, instance, handle_)) return false;
  functions_.GetDeviceQueue(handle_, compute_choice.family, compute_choice.index, &compute().handle);
  functions_.GetDeviceQueue(handle_, transfer_choice.family, transfer_choice.index, &transfer().handle);
  return true;
}

Device::~Device() { functions_.DestroyDevice(handle_, nullptr); }

void Device::fail(VkResult result, const char* doing) {
  const std::string why = core::text(doing, ": ", meaning_of(result), " (", static_cast<int>(result), ")");
  if (result == VK_ERROR_DEVICE_LOST) {
    lose(why);
    throw Error(failure());
  }
  const bool is_memory = result == VK_ERROR_OUT_OF_DEVICE_MEMORY || result == VK_ERROR_OUT_OF_HOST_MEMORY ||
                         result == VK_ERROR_OUT_OF_POOL_MEMORY || result == VK_ERROR_FRAGMENTED_POOL;
  throw Error(is_memory ? Errc::out_of_memory : Errc::device_failure,
              core::text("the device '", physical_.info.name, "' (vulkan) failed: ", why));
}

core::FailurePtr Device::failure() const {
  if (!is_lost_.load(std::memory_order_acquire)) return nullptr;
  const std::scoped_lock lock(mutex_);
  return failure_;
}

void Device::throw_if_lost() const {
  if (const core::FailurePtr why = failure()) throw Error(why);
}

void Device::lose(const std::string& why) {
  const std::scoped_lock lock(mutex_);
  if (failure_) return;  // the first reason is the most informative
  failure_ = core::make_failure(Errc::device_failure,
                                core::text("the device '", physical_.info.name, "' (vulkan) is lost: ", why));
  is_lost_.store(true, std::memory_order_release);
}

void Device::settle() noexcept {
  if (!is_lost_.load(std::memory_order_acquire) || is_settled_.load(std::memory_order_acquire)) return;
  for (Queue& queue : queues_) {
    const std::scoped_lock lock(queue.mutex);
    if (queue.handle) functions_.QueueWaitIdle(queue.handle);
  }
  is_settled_.store(true, std::memory_order_release);
}

}  // namespace tessera::driver::gpu::vulkan
