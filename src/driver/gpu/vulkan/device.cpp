#include "driver/gpu/vulkan/device.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"
#include "driver/gpu/time_limit.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tessera::driver::gpu::vulkan {

namespace {

// How long a lost device may take to become idle.
constexpr std::chrono::nanoseconds longest_settling = std::chrono::seconds(5);

template <class... Arguments>
VKAPI_ATTR void VKAPI_CALL destroy_nothing(Arguments...) {}

template <class... Arguments>
void disable(void(VKAPI_PTR*& function)(Arguments...)) {
  function = destroy_nothing<Arguments...>;
}

}  // namespace

Device::Device(const PhysicalDevice& physical) : physical_(physical) {
  if (!open()) {
    if (handle_ && loaded_.DestroyDevice) loaded_.DestroyDevice(handle_, nullptr);
    throw Error(Errc::device_failure, core::text("the device '", physical_.info.name, "' (vulkan) cannot be opened"));
  }
}

bool Device::open() {
  const InstanceFunctions& instance = *physical_.functions;
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
  auto create = structure<VkDeviceCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO);
  create.pNext = &features.chain;
  create.queueCreateInfoCount = static_cast<std::uint32_t>(queues.size());
  create.pQueueCreateInfos = queues.data();
  create.enabledExtensionCount = static_cast<std::uint32_t>(physical_.extensions.size());
  create.ppEnabledExtensionNames = physical_.extensions.data();
  if (instance.CreateDevice(physical_.handle, &create, nullptr, &handle_) != VK_SUCCESS) return false;
  if (!load(loaded_, instance, handle_)) return false;
  loaded_.GetDeviceQueue(handle_, compute_choice.family, compute_choice.index, &compute().handle);
  loaded_.GetDeviceQueue(handle_, transfer_choice.family, transfer_choice.index, &transfer().handle);
  return true;
}

Device::~Device() { functions().DestroyDevice(handle_, nullptr); }

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
  const std::scoped_lock lock(settling_);
  if (is_settled_.load(std::memory_order_relaxed)) return;
  const std::chrono::nanoseconds time = std::min(longest_settling, time_limit());
  for (Queue& queue : queues_) {
    if (queue.handle && !is_idle_before(queue, time)) abandon();
  }
  is_settled_.store(true, std::memory_order_release);
}

// vkQueueWaitIdle has no time limit, so everything in the queue is waited for first.
bool Device::is_idle_before(Queue& queue, std::chrono::nanoseconds time) noexcept {
  const std::scoped_lock lock(queue.mutex);
  for (const auto& [semaphore, last] : queue.timelines) {
    auto info = structure<VkSemaphoreWaitInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO);
    info.semaphoreCount = 1;
    info.pSemaphores = &semaphore;
    info.pValues = last;
    const VkResult result = functions().WaitSemaphores(handle_, &info, static_cast<std::uint64_t>(time.count()));
    if (result == VK_ERROR_DEVICE_LOST) return true;  // a device that is really lost has stopped
    if (result != VK_SUCCESS) return false;
  }
  functions().QueueWaitIdle(queue.handle);
  return true;
}

void Device::abandon() noexcept {
  if (functions_.load(std::memory_order_relaxed) == &harmless_) return;
  harmless_ = loaded_;
  disable(harmless_.DestroyBuffer);
  disable(harmless_.DestroyCommandPool);
  disable(harmless_.DestroyDescriptorPool);
  disable(harmless_.DestroyDescriptorSetLayout);
  disable(harmless_.DestroyDevice);
  disable(harmless_.DestroyPipeline);
  disable(harmless_.DestroyPipelineCache);
  disable(harmless_.DestroyPipelineLayout);
  disable(harmless_.DestroySemaphore);
  disable(harmless_.DestroyShaderModule);
  disable(harmless_.FreeMemory);
  functions_.store(&harmless_, std::memory_order_release);
}

}  // namespace tessera::driver::gpu::vulkan
