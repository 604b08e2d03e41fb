#pragma once

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

// Vulkan functions, loaded at run time so that the library runs without Vulkan.
namespace tessera::driver::gpu::vulkan {

// Alphabetical.
#define TESSERA_VULKAN_GLOBAL_FUNCTIONS(X) \
  X(CreateInstance)                        \
  X(EnumerateInstanceExtensionProperties)  \
  X(EnumerateInstanceLayerProperties)      \
  X(EnumerateInstanceVersion)

#define TESSERA_VULKAN_INSTANCE_FUNCTIONS(X) \
  X(CreateDevice)                            \
  X(EnumerateDeviceExtensionProperties)      \
  X(EnumeratePhysicalDevices)                \
  X(GetDeviceProcAddr)                       \
  X(GetPhysicalDeviceFeatures2)              \
  X(GetPhysicalDeviceMemoryProperties)       \
  X(GetPhysicalDeviceProperties)             \
  X(GetPhysicalDeviceProperties2)            \
  X(GetPhysicalDeviceQueueFamilyProperties)

#define TESSERA_VULKAN_DEVICE_FUNCTIONS(X) \
  X(AllocateCommandBuffers)                \
  X(AllocateDescriptorSets)                \
  X(AllocateMemory)                        \
  X(BeginCommandBuffer)                    \
  X(BindBufferMemory)                      \
  X(CmdBindDescriptorSets)                 \
  X(CmdBindPipeline)                       \
  X(CmdCopyBuffer)                         \
  X(CmdDispatch)                           \
  X(CmdFillBuffer)                         \
  X(CmdPipelineBarrier)                    \
  X(CmdPushConstants)                      \
  X(CreateBuffer)                          \
  X(CreateCommandPool)                     \
  X(CreateComputePipelines)                \
  X(CreateDescriptorPool)                  \
  X(CreateDescriptorSetLayout)             \
  X(CreatePipelineCache)                   \
  X(CreatePipelineLayout)                  \
  X(CreateSemaphore)                       \
  X(CreateShaderModule)                    \
  X(DestroyBuffer)                         \
  X(DestroyCommandPool)                    \
  X(DestroyDescriptorPool)                 \
  X(DestroyDescriptorSetLayout)            \
  X(DestroyDevice)                         \
  X(DestroyPipeline)                       \
  X(DestroyPipelineCache)                  \
  X(DestroyPipelineLayout)                 \
  X(DestroySemaphore)                      \
  X(DestroyShaderModule)                   \
  X(EndCommandBuffer)                      \
  X(FlushMappedMemoryRanges)               \
  X(FreeMemory)                            \
  X(GetBufferMemoryRequirements)           \
  X(GetDeviceQueue)                        \
  X(GetPipelineCacheData)                  \
  X(GetSemaphoreCounterValue)              \
  X(InvalidateMappedMemoryRanges)          \
  X(MapMemory)                             \
  X(QueueSubmit)                           \
  X(QueueWaitIdle)                         \
  X(ResetCommandPool)                      \
  X(ResetDescriptorPool)                   \
  X(UpdateDescriptorSets)                  \
  X(WaitSemaphores)

#define TESSERA_VULKAN_MEMBER(name) PFN_vk##name name = nullptr;

struct GlobalFunctions {
  PFN_vkGetInstanceProcAddr GetInstanceProcAddr = nullptr;
  TESSERA_VULKAN_GLOBAL_FUNCTIONS(TESSERA_VULKAN_MEMBER)
};

struct InstanceFunctions {
  TESSERA_VULKAN_INSTANCE_FUNCTIONS(TESSERA_VULKAN_MEMBER)
  PFN_vkCreateDebugUtilsMessengerEXT CreateDebugUtilsMessengerEXT = nullptr;  // null without the extension
};

struct DeviceFunctions {
  TESSERA_VULKAN_DEVICE_FUNCTIONS(TESSERA_VULKAN_MEMBER)
  PFN_vkCmdPushDescriptorSetKHR CmdPushDescriptorSetKHR = nullptr;  // null without the extension
};

#undef TESSERA_VULKAN_MEMBER

// A Vulkan structure, zero except for its type.
template <class T>
T structure(VkStructureType type) noexcept {
  T made{};
  made.sType = type;
  return made;
}

// Vulkan's entry on this machine; null if there is none.
PFN_vkGetInstanceProcAddr find_entry() noexcept;

// Return false if a function is missing.
bool load(GlobalFunctions& functions, PFN_vkGetInstanceProcAddr entry);
bool load(InstanceFunctions& functions, const GlobalFunctions& global, VkInstance instance);
bool load(DeviceFunctions& functions, const InstanceFunctions& instance, VkDevice device);

// A description of the result.
const char* meaning_of(VkResult result) noexcept;

}  // namespace tessera::driver::gpu::vulkan
