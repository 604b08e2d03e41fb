#pragma once

#include <tessera/device_info.hpp>

#include "compile/gpu/source.hpp"
#include "driver/gpu/vulkan/loader.hpp"

#include <cstdint>
#include <vector>

namespace tessera::driver::gpu::vulkan {

// A queue family and the index of a queue in it.
struct QueueChoice {
  std::uint32_t family = 0;
  std::uint32_t index = 0;

  friend bool operator==(const QueueChoice&, const QueueChoice&) = default;
};

// What kernels can ask the device to do with floats, by their bits.
struct FloatControls {
  struct Widths {
    bool f32 = false;
    bool f64 = false;
  };
  Widths denormals;  // keep them: otherwise the device may replace them by zeros
  Widths specials;   // keep NaN, infinity and the sign of zero: otherwise the compiler may assume that there are none
};

// What is known about a device before it is opened.
struct PhysicalDevice {
  const InstanceFunctions* functions = nullptr;
  VkPhysicalDevice handle = VK_NULL_HANDLE;
  DeviceInfo info;
  compile::gpu::Target target;
  VkPhysicalDeviceProperties properties{};
  VkPhysicalDeviceMemoryProperties memory{};
  VkDeviceSize most_allocation = 0;       // bytes per allocation
  std::uint32_t most_pushed_buffers = 0;  // by push descriptors; 0 if unsupported
  std::vector<const char*> extensions;    // to enable
  FloatControls floats;
  QueueChoice compute;
  QueueChoice transfer;  // the compute queue if there is no other

  // Whether host and device share memory.
  bool is_unified() const noexcept {
    return properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU ||
           properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
  }
};

// A Vulkan instance. Never destroyed: reopening drivers is expensive, and they may be in use until the process exits.
class Instance {
 public:
  // The one of the process, created on first use.
  static const Instance& get();
  // Without devices if `entry` is null.
  explicit Instance(PFN_vkGetInstanceProcAddr entry);
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  // The devices that support compute, best first; empty without Vulkan.
  const std::vector<PhysicalDevice>& devices() const noexcept { return devices_; }
  const InstanceFunctions& functions() const noexcept { return functions_; }

 private:
  bool open();
  void listen();
  void find_devices();

  GlobalFunctions global_;
  InstanceFunctions functions_;
  VkInstance handle_ = VK_NULL_HANDLE;
  std::vector<PhysicalDevice> devices_;
};

// The features to enable when opening a device; pass `chain` to Vulkan.
struct Features {
  Features() { chain.pNext = &vulkan12; }
  Features(const Features&) = delete;
  Features& operator=(const Features&) = delete;

  VkPhysicalDeviceFeatures2 chain = structure<VkPhysicalDeviceFeatures2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2);
  VkPhysicalDeviceVulkan12Features vulkan12 =
      structure<VkPhysicalDeviceVulkan12Features>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
};

// Number of errors that the validation layer has found in this process. TESSERA_VULKAN_VALIDATION=1 enables it; it
// prints them to stderr.
std::uint64_t validation_errors() noexcept;

// Whether an environment variable is 1.
bool is_set(const char* variable) noexcept;

}  // namespace tessera::driver::gpu::vulkan
