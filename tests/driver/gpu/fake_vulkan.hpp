#pragma once

#include "driver/gpu/api.hpp"
#include "driver/gpu/forwarding_api.hpp"
#include "driver/gpu/replaced.hpp"
#include "driver/gpu/vulkan/instance.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace tessera::driver::gpu::test {

// A table of functions between the Vulkan driver and the machine's device that limits and alters what the device says,
// and reports what would be wrong on the device that it pretends to be. At most one exists at a time.
class FakeVulkan {
 public:
  FakeVulkan();
  // Waits until what open() returned is destroyed: a device lives until its threads have noticed that it is not used.
  ~FakeVulkan();
  FakeVulkan(const FakeVulkan&) = delete;
  FakeVulkan& operator=(const FakeVulkan&) = delete;

  // What it pretends; empty: as the device is. Copies to and from memory that is not coherent happen only when it is
  // flushed and invalidated.
  std::vector<VkQueueFlags> families;
  std::vector<VkMemoryPropertyFlags> memory_types;
  std::function<void(VkPhysicalDeviceProperties&)> change_properties;
  std::function<void(VkPhysicalDeviceFloatControlsProperties&)> change_floats;
  std::vector<std::string> more_extensions;
  std::atomic<bool> hangs{false};    // no submission ever finishes
  std::atomic<bool> is_lost{false};  // every call says so

  // The machine's first device as it pretends it is, described now.
  const vulkan::PhysicalDevice& device();
  std::unique_ptr<Api> open();
  // While it lives, devices that the library opens by themselves go through the fake too.
  struct Everywhere {
    explicit Everywhere(const FakeVulkan& fake);
    Replaced<PFN_vkCreateDevice> create;
    Replaced<PFN_vkGetDeviceProcAddr> address;
  };

  // What it has seen.
  std::vector<std::string> violations() const;
  std::set<std::uint32_t> mapped_types() const;
  std::set<std::uint32_t> used_families() const;  // something was submitted to
  int leading_barriers() const;                   // recorded as the first of their commands
  std::vector<std::string> enabled_extensions() const;
  std::set<std::uint32_t> capabilities() const;        // of the kernels in SPIR-V
  std::set<std::vector<std::uint32_t>> modes() const;  // execution modes of the kernels, with their operands

 private:
  friend struct Calls;

  struct Queue {
    VkQueue real;
    std::uint32_t family;
  };
  struct Mapped {
    std::uint32_t type = 0;
    VkDeviceSize size = 0;
    std::byte* real = nullptr;
    std::vector<std::byte> shadow;  // what the host sees, if the memory is not coherent
  };

  void violated(const std::string& what);
  VkQueueFlags flags_of(std::uint32_t family) const;
  void check_stages(std::uint32_t family, VkPipelineStageFlags stages, const char* where);

  vulkan::InstanceFunctions real_instance_;
  vulkan::InstanceFunctions table_;
  vulkan::DeviceFunctions real_;
  std::vector<std::unique_ptr<vulkan::PhysicalDevice>> described_;
  OpenApis open_;

  mutable std::mutex mutex_;
  std::mutex queue_mutex_;  // the fake's queues are one real queue
  std::vector<std::string> violations_;
  std::deque<Queue> queues_;
  std::map<VkCommandPool, std::uint32_t> pools_;
  std::map<VkCommandBuffer, std::uint32_t> buffers_;  // the family they were made for
  std::set<VkCommandBuffer> begun_;                   // nothing was recorded yet
  int leading_barriers_ = 0;
  std::map<VkDeviceMemory, Mapped> memory_;
  std::set<std::uint32_t> opened_families_, used_families_, mapped_types_, capabilities_;
  std::set<std::vector<std::uint32_t>> modes_;
  std::vector<std::string> enabled_extensions_;
};

}  // namespace tessera::driver::gpu::test
