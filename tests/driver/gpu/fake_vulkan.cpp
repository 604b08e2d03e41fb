#include "driver/gpu/fake_vulkan.hpp"

#include "driver/gpu/vulkan/describe.hpp"
#include "driver/gpu/vulkan/open.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

namespace tessera::driver::gpu::test {

namespace {

FakeVulkan* current = nullptr;

constexpr VkPipelineStageFlags any_queue = VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT | VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT |
                                           VK_PIPELINE_STAGE_TRANSFER_BIT | VK_PIPELINE_STAGE_HOST_BIT |
                                           VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;

}  // namespace

// The functions of the table.
struct Calls {
  static FakeVulkan& fake() { return *current; }
  static const vulkan::DeviceFunctions& real() { return current->real_; }
  static const vulkan::InstanceFunctions& real_instance() { return current->real_instance_; }

  // ---- what the device says

  static void get_properties(VkPhysicalDevice device, VkPhysicalDeviceProperties* properties) {
    real_instance().GetPhysicalDeviceProperties(device, properties);
    if (fake().change_properties) fake().change_properties(*properties);
  }
  static void get_properties2(VkPhysicalDevice device, VkPhysicalDeviceProperties2* properties) {
    real_instance().GetPhysicalDeviceProperties2(device, properties);
    if (fake().change_properties) fake().change_properties(properties->properties);
    for (auto* next = static_cast<VkBaseOutStructure*>(properties->pNext); next; next = next->pNext) {
      if (next->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES || !fake().change_floats) continue;
      fake().change_floats(*reinterpret_cast<VkPhysicalDeviceFloatControlsProperties*>(next));
    }
  }
  static void get_families(VkPhysicalDevice device, std::uint32_t* count, VkQueueFamilyProperties* families) {
    if (fake().families.empty()) {
      return real_instance().GetPhysicalDeviceQueueFamilyProperties(device, count, families);
    }
    if (!families) {
      *count = static_cast<std::uint32_t>(fake().families.size());
      return;
    }
    for (std::uint32_t i = 0; i < *count; ++i) families[i] = {fake().families[i], 1, 0, {1, 1, 1}};
  }
  static void get_memory(VkPhysicalDevice device, VkPhysicalDeviceMemoryProperties* memory) {
    real_instance().GetPhysicalDeviceMemoryProperties(device, memory);
    if (fake().memory_types.empty()) return;
    memory->memoryTypeCount = static_cast<std::uint32_t>(fake().memory_types.size());
    for (std::uint32_t i = 0; i < memory->memoryTypeCount; ++i) memory->memoryTypes[i] = {fake().memory_types[i], 0};
  }
  static VkResult get_extensions(VkPhysicalDevice device, const char* layer, std::uint32_t* count,
                                 VkExtensionProperties* extensions) {
    std::uint32_t own = 0;
    real_instance().EnumerateDeviceExtensionProperties(device, layer, &own, nullptr);
    if (extensions) {
      real_instance().EnumerateDeviceExtensionProperties(device, layer, &own, extensions);
      for (const std::string& name : fake().more_extensions) {
        std::strcpy(extensions[own].extensionName, name.c_str());
        extensions[own++].specVersion = 1;
      }
    }
    *count = own + (extensions ? 0 : static_cast<std::uint32_t>(fake().more_extensions.size()));
    return VK_SUCCESS;
  }

  // ---- devices and queues

  static VkResult create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                const VkAllocationCallbacks* with, VkDevice* device) {
    VkDeviceCreateInfo changed = *info;
    std::vector<const char*> extensions;
    {
      const std::scoped_lock lock(fake().mutex_);
      fake().enabled_extensions_.clear();
      for (std::uint32_t i = 0; i < info->enabledExtensionCount; ++i) {
        const char* name = info->ppEnabledExtensionNames[i];
        fake().enabled_extensions_.emplace_back(name);
        if (std::ranges::find(fake().more_extensions, name) == fake().more_extensions.end()) extensions.push_back(name);
      }
      fake().opened_families_.clear();
      for (std::uint32_t i = 0; i < info->queueCreateInfoCount; ++i) {
        fake().opened_families_.insert(info->pQueueCreateInfos[i].queueFamilyIndex);
      }
    }
    changed.enabledExtensionCount = static_cast<std::uint32_t>(extensions.size());
    changed.ppEnabledExtensionNames = extensions.data();
    VkDeviceQueueCreateInfo queue = info->pQueueCreateInfos[0];
    if (!fake().families.empty()) {
      queue.queueFamilyIndex = 0;
      queue.queueCount = 1;
      changed.queueCreateInfoCount = 1;
      changed.pQueueCreateInfos = &queue;
    }
    const VkResult result = real_instance().CreateDevice(physical, &changed, with, device);
    if (result == VK_SUCCESS) load(fake().real_, real_instance(), *device);
    return result;
  }
  static void get_queue(VkDevice device, std::uint32_t family, std::uint32_t index, VkQueue* queue) {
    VkQueue found = VK_NULL_HANDLE;
    const bool is_faked = !fake().families.empty();
    real().GetDeviceQueue(device, is_faked ? 0 : family, is_faked ? 0 : index, &found);
    const std::scoped_lock lock(fake().mutex_);
    *queue = reinterpret_cast<VkQueue>(&fake().queues_.emplace_back(FakeVulkan::Queue{found, family}));
  }
  static VkResult submit(VkQueue queue, std::uint32_t count, const VkSubmitInfo* submits, VkFence fence) {
    const auto& to = *reinterpret_cast<const FakeVulkan::Queue*>(queue);
    if (fake().is_lost) return VK_ERROR_DEVICE_LOST;
    for (std::uint32_t i = 0; i < count; ++i) {
      for (std::uint32_t j = 0; j < submits[i].waitSemaphoreCount; ++j) {
        fake().check_stages(to.family, submits[i].pWaitDstStageMask[j], "vkQueueSubmit");
      }
      const std::scoped_lock lock(fake().mutex_);
      fake().used_families_.insert(to.family);
      for (std::uint32_t j = 0; j < submits[i].commandBufferCount; ++j) {
        if (fake().buffers_[submits[i].pCommandBuffers[j]] != to.family) {
          fake().violations_.emplace_back("vkQueueSubmit: commands for another queue family");
        }
      }
    }
    if (fake().hangs) return VK_SUCCESS;
    const std::scoped_lock lock(fake().queue_mutex_);
    return real().QueueSubmit(to.real, count, submits, fence);
  }
  static VkResult wait_idle(VkQueue queue) {
    if (fake().is_lost) return VK_ERROR_DEVICE_LOST;
    if (fake().hangs) {
      fake().violated("vkQueueWaitIdle: would never return");
      return VK_ERROR_DEVICE_LOST;
    }
    const std::scoped_lock lock(fake().queue_mutex_);
    return real().QueueWaitIdle(reinterpret_cast<const FakeVulkan::Queue*>(queue)->real);
  }
  static VkResult wait_semaphores(VkDevice device, const VkSemaphoreWaitInfo* info, std::uint64_t time) {
    return fake().is_lost ? VK_ERROR_DEVICE_LOST : real().WaitSemaphores(device, info, time);
  }
  static VkResult get_counter(VkDevice device, VkSemaphore semaphore, std::uint64_t* value) {
    return fake().is_lost ? VK_ERROR_DEVICE_LOST : real().GetSemaphoreCounterValue(device, semaphore, value);
  }

  // ---- commands

  static VkResult create_pool(VkDevice device, const VkCommandPoolCreateInfo* info, const VkAllocationCallbacks* with,
                              VkCommandPool* pool) {
    VkCommandPoolCreateInfo changed = *info;
    if (!fake().families.empty()) changed.queueFamilyIndex = 0;
    const VkResult result = real().CreateCommandPool(device, &changed, with, pool);
    const std::scoped_lock lock(fake().mutex_);
    fake().pools_[*pool] = info->queueFamilyIndex;
    if (!fake().opened_families_.contains(info->queueFamilyIndex)) {
      fake().violations_.emplace_back("vkCreateCommandPool: of a family without a queue");
    }
    return result;
  }
  static VkResult allocate_buffers(VkDevice device, const VkCommandBufferAllocateInfo* info, VkCommandBuffer* buffers) {
    const VkResult result = real().AllocateCommandBuffers(device, info, buffers);
    const std::scoped_lock lock(fake().mutex_);
    for (std::uint32_t i = 0; i < info->commandBufferCount; ++i) {
      fake().buffers_[buffers[i]] = fake().pools_[info->commandPool];
    }
    return result;
  }
  static std::uint32_t family_of(VkCommandBuffer buffer) {
    const std::scoped_lock lock(fake().mutex_);
    return fake().buffers_[buffer];
  }
  static VkResult begin(VkCommandBuffer buffer, const VkCommandBufferBeginInfo* info) {
    {
      const std::scoped_lock lock(fake().mutex_);
      fake().begun_.insert(buffer);
    }
    return real().BeginCommandBuffer(buffer, info);
  }
  static bool is_first(VkCommandBuffer buffer) {
    const std::scoped_lock lock(fake().mutex_);
    return fake().begun_.erase(buffer) != 0;
  }
  static void dispatch(VkCommandBuffer buffer, std::uint32_t x, std::uint32_t y, std::uint32_t z) {
    fake().check_stages(family_of(buffer), VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, "vkCmdDispatch");
    is_first(buffer);
    real().CmdDispatch(buffer, x, y, z);
  }
  static void barrier(VkCommandBuffer buffer, VkPipelineStageFlags from, VkPipelineStageFlags to, VkDependencyFlags how,
                      std::uint32_t count, const VkMemoryBarrier* barriers, std::uint32_t buffer_count,
                      const VkBufferMemoryBarrier* buffer_barriers, std::uint32_t image_count,
                      const VkImageMemoryBarrier* image_barriers) {
    fake().check_stages(family_of(buffer), from | to, "vkCmdPipelineBarrier");
    if (is_first(buffer)) {
      const std::scoped_lock lock(fake().mutex_);
      ++fake().leading_barriers_;
    }
    real().CmdPipelineBarrier(buffer, from, to, how, count, barriers, buffer_count, buffer_barriers, image_count,
                              image_barriers);
  }

  // ---- memory

  static VkResult create_buffer(VkDevice device, const VkBufferCreateInfo* info, const VkAllocationCallbacks* with,
                                VkBuffer* buffer) {
    VkBufferCreateInfo changed = *info;
    const bool is_shared = info->sharingMode == VK_SHARING_MODE_CONCURRENT;
    {
      const std::scoped_lock lock(fake().mutex_);
      if (!is_shared && fake().opened_families_.size() > 1) {
        fake().violations_.emplace_back("vkCreateBuffer: for one queue family");
      }
    }
    if (is_shared) {
      changed.sharingMode = VK_SHARING_MODE_EXCLUSIVE;
      changed.queueFamilyIndexCount = 0;
      changed.pQueueFamilyIndices = nullptr;
    }
    return real().CreateBuffer(device, &changed, with, buffer);
  }
  static void get_requirements(VkDevice device, VkBuffer buffer, VkMemoryRequirements* requirements) {
    real().GetBufferMemoryRequirements(device, buffer, requirements);
    if (!fake().memory_types.empty()) requirements->memoryTypeBits = (1U << fake().memory_types.size()) - 1;
  }
  static VkMemoryPropertyFlags flags_of(std::uint32_t type) {
    return fake().memory_types.empty() ? ~VkMemoryPropertyFlags{0} : fake().memory_types[type];
  }
  static VkResult allocate(VkDevice device, const VkMemoryAllocateInfo* info, const VkAllocationCallbacks* with,
                           VkDeviceMemory* memory) {
    VkMemoryAllocateInfo changed = *info;
    if (!fake().memory_types.empty()) changed.memoryTypeIndex = 0;
    const VkResult result = real().AllocateMemory(device, &changed, with, memory);
    if (result != VK_SUCCESS) return result;
    const std::scoped_lock lock(fake().mutex_);
    fake().memory_[*memory] = {
        .type = info->memoryTypeIndex, .size = info->allocationSize, .real = nullptr, .shadow = {}};
    return result;
  }
  static void free(VkDevice device, VkDeviceMemory memory, const VkAllocationCallbacks* with) {
    {
      const std::scoped_lock lock(fake().mutex_);
      fake().memory_.erase(memory);
    }
    real().FreeMemory(device, memory, with);
  }
  static VkResult map(VkDevice device, VkDeviceMemory memory, VkDeviceSize offset, VkDeviceSize size,
                      VkMemoryMapFlags how, void** address) {
    const VkResult result = real().MapMemory(device, memory, offset, size, how, address);
    if (result != VK_SUCCESS) return result;
    const std::scoped_lock lock(fake().mutex_);
    FakeVulkan::Mapped& mapped = fake().memory_[memory];
    fake().mapped_types_.insert(mapped.type);
    if ((flags_of(mapped.type) & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) == 0) {
      fake().violations_.emplace_back("vkMapMemory: of memory that the host cannot see");
    }
    if ((flags_of(mapped.type) & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT) != 0) return result;
    mapped.real = static_cast<std::byte*>(*address);
    mapped.shadow.assign(mapped.size, std::byte{0xab});
    *address = mapped.shadow.data();
    return result;
  }
  // Calls copy(mapped, range) for ranges of memory that is not coherent.
  template <class Copy>
  static VkResult each_range(std::uint32_t count, const VkMappedMemoryRange* ranges, const Copy& copy) {
    VkPhysicalDeviceProperties properties{};
    get_properties(vulkan::Instance::get().devices()[0].handle, &properties);
    const VkDeviceSize atom = properties.limits.nonCoherentAtomSize;
    const std::scoped_lock lock(fake().mutex_);
    for (const VkMappedMemoryRange& range : std::span(ranges, count)) {
      FakeVulkan::Mapped& mapped = fake().memory_[range.memory];
      const bool ends = range.offset + range.size == mapped.size;
      if (range.offset % atom != 0 || (range.size % atom != 0 && !ends) || range.offset + range.size > mapped.size) {
        fake().violations_.emplace_back("a mapped range that is not made of atoms");
      } else if (!mapped.shadow.empty()) {
        copy(mapped, range);
      }
    }
    return VK_SUCCESS;
  }
  static VkResult flush(VkDevice, std::uint32_t count, const VkMappedMemoryRange* ranges) {
    return each_range(count, ranges, [](FakeVulkan::Mapped& mapped, const VkMappedMemoryRange& range) {
      std::memcpy(mapped.real + range.offset, mapped.shadow.data() + range.offset, range.size);
    });
  }
  static VkResult invalidate(VkDevice, std::uint32_t count, const VkMappedMemoryRange* ranges) {
    return each_range(count, ranges, [](FakeVulkan::Mapped& mapped, const VkMappedMemoryRange& range) {
      std::memcpy(mapped.shadow.data() + range.offset, mapped.real + range.offset, range.size);
    });
  }

  // ---- kernels

  // Notes what a kernel asks for; what only the fake has is left out for the device.
  static VkResult create_shader(VkDevice device, const VkShaderModuleCreateInfo* info,
                                const VkAllocationCallbacks* with, VkShaderModule* shader) {
    constexpr std::uint32_t op_execution_mode = 16, op_capability = 17;
    const std::span words(info->pCode, info->codeSize / 4);
    std::vector<std::uint32_t> kept(words.begin(), words.begin() + 5);
    {
      const std::scoped_lock lock(fake().mutex_);
      for (std::size_t at = 5; at < words.size(); at += words[at] >> 16) {
        const auto op = words.subspan(at, words[at] >> 16);
        bool is_faked = false;
        if ((op[0] & 0xffffU) == op_capability) {
          fake().capabilities_.insert(op[1]);
          is_faked = op[1] == 4464 || op[1] == 4466;
        } else if ((op[0] & 0xffffU) == op_execution_mode) {
          fake().modes_.emplace(op.begin() + 2, op.end());
          is_faked = op[2] == 4459 || op[2] == 4461;
        }
        if (!is_faked || !fake().change_floats) kept.insert(kept.end(), op.begin(), op.end());
      }
    }
    VkShaderModuleCreateInfo changed = *info;
    changed.codeSize = kept.size() * 4;
    changed.pCode = kept.data();
    return real().CreateShaderModule(device, &changed, with, shader);
  }

  static PFN_vkVoidFunction address(VkDevice device, const char* name) {
    const auto as_function = [](auto* function) { return reinterpret_cast<PFN_vkVoidFunction>(function); };
    static const std::map<std::string_view, PFN_vkVoidFunction> own = {
        {"vkAllocateCommandBuffers", as_function(allocate_buffers)},
        {"vkAllocateMemory", as_function(allocate)},
        {"vkBeginCommandBuffer", as_function(begin)},
        {"vkCmdDispatch", as_function(dispatch)},
        {"vkCmdPipelineBarrier", as_function(barrier)},
        {"vkCreateBuffer", as_function(create_buffer)},
        {"vkCreateCommandPool", as_function(create_pool)},
        {"vkCreateShaderModule", as_function(create_shader)},
        {"vkFlushMappedMemoryRanges", as_function(flush)},
        {"vkFreeMemory", as_function(free)},
        {"vkGetBufferMemoryRequirements", as_function(get_requirements)},
        {"vkGetDeviceQueue", as_function(get_queue)},
        {"vkGetSemaphoreCounterValue", as_function(get_counter)},
        {"vkInvalidateMappedMemoryRanges", as_function(invalidate)},
        {"vkMapMemory", as_function(map)},
        {"vkQueueSubmit", as_function(submit)},
        {"vkQueueWaitIdle", as_function(wait_idle)},
        {"vkWaitSemaphores", as_function(wait_semaphores)},
    };
    const auto found = own.find(name);
    return found != own.end() ? found->second : real_instance().GetDeviceProcAddr(device, name);
  }
};

FakeVulkan::FakeVulkan() : real_instance_(vulkan::Instance::get().functions()), table_(real_instance_) {
  current = this;
  table_.CreateDevice = Calls::create_device;
  table_.EnumerateDeviceExtensionProperties = Calls::get_extensions;
  table_.GetDeviceProcAddr = Calls::address;
  table_.GetPhysicalDeviceMemoryProperties = Calls::get_memory;
  table_.GetPhysicalDeviceProperties = Calls::get_properties;
  table_.GetPhysicalDeviceProperties2 = Calls::get_properties2;
  table_.GetPhysicalDeviceQueueFamilyProperties = Calls::get_families;
}

FakeVulkan::~FakeVulkan() {
  open_.wait_until_none();
  current = nullptr;
}

FakeVulkan::Everywhere::Everywhere(const FakeVulkan& fake)
    : create(vulkan::Instance::get().functions().CreateDevice, fake.table_.CreateDevice),
      address(vulkan::Instance::get().functions().GetDeviceProcAddr, fake.table_.GetDeviceProcAddr) {}

const vulkan::PhysicalDevice& FakeVulkan::device() {
  auto described = vulkan::describe(table_, vulkan::Instance::get().devices()[0].handle);
  return *described_.emplace_back(std::make_unique<vulkan::PhysicalDevice>(described.value()));
}

std::unique_ptr<Api> FakeVulkan::open() { return open_.count(vulkan::open(device())); }

void FakeVulkan::violated(const std::string& what) {
  const std::scoped_lock lock(mutex_);
  violations_.push_back(what);
}

VkQueueFlags FakeVulkan::flags_of(std::uint32_t family) const {
  return families.empty() ? VkQueueFlags{VK_QUEUE_COMPUTE_BIT} : families[family];
}

void FakeVulkan::check_stages(std::uint32_t family, VkPipelineStageFlags stages, const char* where) {
  VkPipelineStageFlags allowed = any_queue;
  if ((flags_of(family) & VK_QUEUE_COMPUTE_BIT) != 0) allowed |= VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
  if ((stages & ~allowed) != 0) violated(std::string(where) + ": a stage that the queue does not have");
}

std::vector<std::string> FakeVulkan::violations() const {
  const std::scoped_lock lock(mutex_);
  return violations_;
}
std::set<std::uint32_t> FakeVulkan::mapped_types() const {
  const std::scoped_lock lock(mutex_);
  return mapped_types_;
}
std::set<std::uint32_t> FakeVulkan::used_families() const {
  const std::scoped_lock lock(mutex_);
  return used_families_;
}
int FakeVulkan::leading_barriers() const {
  const std::scoped_lock lock(mutex_);
  return leading_barriers_;
}
std::vector<std::string> FakeVulkan::enabled_extensions() const {
  const std::scoped_lock lock(mutex_);
  return enabled_extensions_;
}
std::set<std::uint32_t> FakeVulkan::capabilities() const {
  const std::scoped_lock lock(mutex_);
  return capabilities_;
}
std::set<std::vector<std::uint32_t>> FakeVulkan::modes() const {
  const std::scoped_lock lock(mutex_);
  return modes_;
}

}  // namespace tessera::driver::gpu::test
