#include "driver/gpu/vulkan/loader.hpp"

#include "driver/gpu/library.hpp"

#include <dlfcn.h>

namespace tessera::driver::gpu::vulkan {

namespace {

template <class Function, class Find>
bool find(Function& function, Find&& address, const char* name) {
  function = reinterpret_cast<Function>(address(name));
  return function != nullptr;
}

}  // namespace

#define TESSERA_VULKAN_FIND(name) is_complete &= find(functions.name, address, "vk" #name);

PFN_vkGetInstanceProcAddr find_entry() noexcept {
  void* library = open_library({"libvulkan.so.1", "libvulkan.so"});
  if (!library) return nullptr;
  return reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(library, "vkGetInstanceProcAddr"));
}

bool load(GlobalFunctions& functions, PFN_vkGetInstanceProcAddr entry) {
  if (!entry) return false;
  functions.GetInstanceProcAddr = entry;
  bool is_complete = true;
  const auto address = [&](const char* name) { return functions.GetInstanceProcAddr(nullptr, name); };
  TESSERA_VULKAN_GLOBAL_FUNCTIONS(TESSERA_VULKAN_FIND)
  return is_complete;
}

bool load(InstanceFunctions& functions, const GlobalFunctions& global, VkInstance instance) {
  bool is_complete = true;
  const auto address = [&](const char* name) { return global.GetInstanceProcAddr(instance, name); };
  TESSERA_VULKAN_INSTANCE_FUNCTIONS(TESSERA_VULKAN_FIND)
  find(functions.CreateDebugUtilsMessengerEXT, address, "vkCreateDebugUtilsMessengerEXT");
  return is_complete;
}

bool load(DeviceFunctions& functions, const InstanceFunctions& instance, VkDevice device) {
  bool is_complete = true;
  const auto address = [&](const char* name) { return instance.GetDeviceProcAddr(device, name); };
  TESSERA_VULKAN_DEVICE_FUNCTIONS(TESSERA_VULKAN_FIND)
  find(functions.CmdPushDescriptorSetKHR, address, "vkCmdPushDescriptorSetKHR");
  return is_complete;
}

#undef TESSERA_VULKAN_FIND

const char* meaning_of(VkResult result) noexcept {
  switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
      return "out of host memory";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
      return "out of device memory";
    case VK_ERROR_INITIALIZATION_FAILED:
      return "initialization failed";
    case VK_ERROR_DEVICE_LOST:
      return "the device was lost";
    case VK_ERROR_MEMORY_MAP_FAILED:
      return "memory could not be mapped";
    case VK_ERROR_LAYER_NOT_PRESENT:
      return "a layer is missing";
    case VK_ERROR_EXTENSION_NOT_PRESENT:
      return "an extension is missing";
    case VK_ERROR_FEATURE_NOT_PRESENT:
      return "a feature is missing";
    case VK_ERROR_INCOMPATIBLE_DRIVER:
      return "the driver is not compatible";
    case VK_ERROR_TOO_MANY_OBJECTS:
      return "too many objects";
    case VK_ERROR_FRAGMENTED_POOL:
      return "a pool is fragmented";
    case VK_ERROR_OUT_OF_POOL_MEMORY:
      return "a pool is exhausted";
    case VK_ERROR_INVALID_SHADER_NV:
      return "the driver rejected the kernel";
    default:
      return "an unknown error";
  }
}

}  // namespace tessera::driver::gpu::vulkan
