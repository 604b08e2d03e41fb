#include "driver/gpu/vulkan/instance.hpp"

#include "core/environment.hpp"
#include "driver/gpu/vulkan/describe.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <iterator>

namespace tessera::driver::gpu::vulkan {

namespace {

constexpr const char* validation_layer = "VK_LAYER_KHRONOS_validation";

std::atomic<std::uint64_t> error_count{0};

VKAPI_ATTR VkBool32 VKAPI_CALL tell(VkDebugUtilsMessageSeverityFlagBitsEXT severity, VkDebugUtilsMessageTypeFlagsEXT,
                                    const VkDebugUtilsMessengerCallbackDataEXT* data, void*) {
  if (severity >= VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT) ++error_count;
  std::fprintf(stderr, "vulkan validation: %s\n", data->pMessage);
  return VK_FALSE;
}

bool has_extension(const GlobalFunctions& global, const char* name) {
  std::uint32_t count = 0;
  global.EnumerateInstanceExtensionProperties(nullptr, &count, nullptr);
  std::vector<VkExtensionProperties> extensions(count);
  global.EnumerateInstanceExtensionProperties(nullptr, &count, extensions.data());
  return std::any_of(extensions.begin(), extensions.end(), [&](const VkExtensionProperties& extension) {
    return std::strcmp(extension.extensionName, name) == 0;
  });
}

bool has_validation(const GlobalFunctions& global) {
  std::uint32_t count = 0;
  global.EnumerateInstanceLayerProperties(&count, nullptr);
  std::vector<VkLayerProperties> layers(count);
  global.EnumerateInstanceLayerProperties(&count, layers.data());
  return std::any_of(layers.begin(), layers.end(), [](const VkLayerProperties& layer) {
    return std::strcmp(layer.layerName, validation_layer) == 0;
  });
}

// Rank of device types, best first.
constexpr int worst_rank = 4;
int rank_of(const PhysicalDevice& device) {
  switch (device.properties.deviceType) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return 0;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return 1;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
      return 2;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
      return 3;
    default:
      return worst_rank;
  }
}

}  // namespace

std::uint64_t validation_errors() noexcept { return error_count; }

bool is_set(const char* variable) noexcept { return core::is_switched_on(variable); }

const Instance& Instance::get() {
  static const Instance& made = *new Instance(find_entry());
  return made;
}

Instance::Instance(PFN_vkGetInstanceProcAddr entry) {
  if (load(global_, entry) && open()) find_devices();
}

bool Instance::open() {
  std::uint32_t version = 0;
  if (global_.EnumerateInstanceVersion(&version) != VK_SUCCESS || version < VK_API_VERSION_1_2) return false;
  bool is_validated = is_set("TESSERA_VULKAN_VALIDATION");
  if (is_validated && !has_validation(global_)) {
    std::fprintf(stderr, "vulkan validation: there is no %s\n", validation_layer);
    is_validated = false;
  }
  auto application = structure<VkApplicationInfo>(VK_STRUCTURE_TYPE_APPLICATION_INFO);
  application.pEngineName = "tessera";
  application.apiVersion = VK_API_VERSION_1_2;
  auto create = structure<VkInstanceCreateInfo>(VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO);
  create.pApplicationInfo = &application;
  std::vector<const char*> extensions;
  if (is_validated) {
    create.enabledLayerCount = 1;
    create.ppEnabledLayerNames = &validation_layer;
    extensions.push_back(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
  }
  // Without it the loader hides devices that lack a part of Vulkan, such as those of MoltenVK.
  if (has_extension(global_, VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME)) {
    extensions.push_back(VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME);
    create.flags |= VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR;
  }
  create.enabledExtensionCount = static_cast<std::uint32_t>(extensions.size());
  create.ppEnabledExtensionNames = extensions.data();
  if (global_.CreateInstance(&create, nullptr, &handle_) != VK_SUCCESS) return false;
  if (!load(functions_, global_, handle_)) return false;
  if (is_validated) listen();
  return true;
}

void Instance::listen() {
  auto create = structure<VkDebugUtilsMessengerCreateInfoEXT>(VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT);
  create.messageSeverity =
      VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  create.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_GENERAL_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
  create.pfnUserCallback = tell;
  VkDebugUtilsMessengerEXT messenger = VK_NULL_HANDLE;  // lives as long as the instance
  if (!functions_.CreateDebugUtilsMessengerEXT ||
      functions_.CreateDebugUtilsMessengerEXT(handle_, &create, nullptr, &messenger) != VK_SUCCESS) {
    std::fprintf(stderr, "vulkan validation: cannot receive messages of the layer\n");
  }
}

void Instance::find_devices() {
  std::uint32_t count = 0;
  if (functions_.EnumeratePhysicalDevices(handle_, &count, nullptr) != VK_SUCCESS) return;
  std::vector<VkPhysicalDevice> handles(count);
  if (functions_.EnumeratePhysicalDevices(handle_, &count, handles.data()) < VK_SUCCESS) return;
  handles.resize(count);
  std::vector<PhysicalDevice> found;
  for (VkPhysicalDevice handle : handles) {
    if (auto device = describe(functions_, handle)) found.push_back(*std::move(device));
  }
  for (int rank = 0; rank <= worst_rank; ++rank) {
    std::copy_if(found.begin(), found.end(), std::back_inserter(devices_),
                 [&](const PhysicalDevice& device) { return rank_of(device) == rank; });
  }
}

}  // namespace tessera::driver::gpu::vulkan
