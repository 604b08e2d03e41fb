#include "driver/gpu/vulkan/describe.hpp"

#include "core/text.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

namespace tessera::driver::gpu::vulkan {

namespace {

constexpr const char* portability_subset = "VK_KHR_portability_subset";  // declared in a beta header

class Extensions {
 public:
  Extensions(const InstanceFunctions& functions, VkPhysicalDevice handle) {
    std::uint32_t count = 0;
    functions.EnumerateDeviceExtensionProperties(handle, nullptr, &count, nullptr);
    names_.resize(count);
    functions.EnumerateDeviceExtensionProperties(handle, nullptr, &count, names_.data());
  }
  bool has(std::string_view name) const {
    return std::any_of(names_.begin(), names_.end(),
                       [&](const VkExtensionProperties& extension) { return name == extension.extensionName; });
  }

 private:
  std::vector<VkExtensionProperties> names_;
};

// Properties queried together; those of an extension only if it is supported.
struct Properties {
  Properties(const InstanceFunctions& functions, VkPhysicalDevice handle, const Extensions& extensions) {
    chain.pNext = &maintenance;
    maintenance.pNext = &driver;
    driver.pNext = &floats;
    void** last = &floats.pNext;
    const auto add = [&](const char* extension, auto& properties) {
      if (!extensions.has(extension)) return;
      *last = &properties;
      last = &properties.pNext;
    };
    add(VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME, push);
    add(VK_AMD_SHADER_CORE_PROPERTIES_EXTENSION_NAME, amd);
    add(VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME, nvidia);
    functions.GetPhysicalDeviceProperties2(handle, &chain);
  }
  Properties(const Properties&) = delete;
  Properties& operator=(const Properties&) = delete;

  unsigned compute_units() const {
    const std::uint32_t known = std::max(
        nvidia.shaderSMCount, amd.shaderEngineCount * amd.shaderArraysPerEngineCount * amd.computeUnitsPerShaderArray);
    return std::max(known, 1U);
  }

  VkPhysicalDeviceProperties2 chain =
      structure<VkPhysicalDeviceProperties2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2);
  VkPhysicalDeviceMaintenance3Properties maintenance =
      structure<VkPhysicalDeviceMaintenance3Properties>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES);
  VkPhysicalDeviceDriverProperties driver =
      structure<VkPhysicalDeviceDriverProperties>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES);
  VkPhysicalDeviceFloatControlsProperties floats =
      structure<VkPhysicalDeviceFloatControlsProperties>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES);
  VkPhysicalDevicePushDescriptorPropertiesKHR push = structure<VkPhysicalDevicePushDescriptorPropertiesKHR>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PUSH_DESCRIPTOR_PROPERTIES_KHR);
  VkPhysicalDeviceShaderCorePropertiesAMD amd =
      structure<VkPhysicalDeviceShaderCorePropertiesAMD>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD);
  VkPhysicalDeviceShaderSMBuiltinsPropertiesNV nvidia = structure<VkPhysicalDeviceShaderSMBuiltinsPropertiesNV>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV);
};

// Prefer a compute-only family, which does not compete with graphics. Copies overlap with kernels if they have a
// separate queue.
bool choose_queues(const InstanceFunctions& functions, PhysicalDevice& device) {
  std::uint32_t count = 0;
  functions.GetPhysicalDeviceQueueFamilyProperties(device.handle, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  functions.GetPhysicalDeviceQueueFamilyProperties(device.handle, &count, families.data());
  const auto find = [&](VkQueueFlags with, VkQueueFlags allowed) {
    std::uint32_t i = 0;
    while (i < count && (families[i].queueCount == 0 || (families[i].queueFlags & with) != with ||
                         (families[i].queueFlags & ~(with | allowed)) != 0)) {
      ++i;
    }
    return i;
  };
  // A family that can do anything else, such as decode video, serves that first.
  constexpr VkQueueFlags harmless = VK_QUEUE_TRANSFER_BIT | VK_QUEUE_SPARSE_BINDING_BIT | VK_QUEUE_PROTECTED_BIT;
  std::uint32_t compute = find(VK_QUEUE_COMPUTE_BIT, harmless);
  if (compute == count) compute = find(VK_QUEUE_COMPUTE_BIT, harmless | VK_QUEUE_GRAPHICS_BIT);
  if (compute == count) compute = find(VK_QUEUE_COMPUTE_BIT, ~VkQueueFlags{0});
  if (compute == count) return false;
  device.compute = {compute, 0};
  const std::uint32_t copying = find(VK_QUEUE_TRANSFER_BIT, harmless);
  device.transfer = copying != count                   ? QueueChoice{copying, 0}
                    : families[compute].queueCount > 1 ? QueueChoice{compute, 1}
                                                       : device.compute;
  return true;
}

std::string version_of(const Properties& properties) {
  const std::uint32_t api = properties.chain.properties.apiVersion;
  return core::text(properties.driver.driverName, ' ', properties.driver.driverInfo, ", Vulkan ",
                    VK_API_VERSION_MAJOR(api), '.', VK_API_VERSION_MINOR(api), '.', VK_API_VERSION_PATCH(api));
}

void fill_info(PhysicalDevice& device, const Properties& properties, const Features& features) {
  DeviceInfo& info = device.info;
  info.name = device.properties.deviceName;
  info.backend = "vulkan";
  info.is_gpu = device.properties.deviceType != VK_PHYSICAL_DEVICE_TYPE_CPU;
  info.is_discrete = device.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
  info.version = version_of(properties);
  for (std::uint32_t i = 0; i < device.memory.memoryHeapCount; ++i) {
    const VkMemoryHeap& heap = device.memory.memoryHeaps[i];
    if ((heap.flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0) info.memory += heap.size;
  }
  info.compute_units = properties.compute_units();
  for (DType type : all_dtypes) {
    if (type == f64 && features.chain.features.shaderFloat64 == VK_FALSE) continue;
    if (type == s64 && features.chain.features.shaderInt64 == VK_FALSE) continue;
    info.dtypes.push_back(type);
  }
}

void fill_target(PhysicalDevice& device, const Features& features, VkDriverId driver) {
  const VkPhysicalDeviceLimits& limits = device.properties.limits;
  compile::gpu::Target& target = device.target;
  target.dialect = compile::gpu::Dialect::vulkan;
  target.device = device.info.name;
  target.has_f64 = features.chain.features.shaderFloat64 != VK_FALSE;
  target.has_s64 = features.chain.features.shaderInt64 != VK_FALSE;
  target.has_u8 = features.vulkan12.storageBuffer8BitAccess != VK_FALSE;
  // A power of two, and 128 wherever possible: whole subgroups, which have 4 to 128 invocations.
  target.group = static_cast<int>(
      std::bit_floor(std::min({128U, limits.maxComputeWorkGroupSize[0], limits.maxComputeWorkGroupInvocations})));
  target.shared_bytes = limits.maxComputeSharedMemorySize;
  target.push_bytes = limits.maxPushConstantsSize;
  target.most_buffers = static_cast<int>(
      std::min({64U, limits.maxPerStageDescriptorStorageBuffers, limits.maxDescriptorSetStorageBuffers}));
  if (driver == VK_DRIVER_ID_MESA_LLVMPIPE) {
    target.most_steps = compile::gpu::mesa_most_steps;
    target.product_block = compile::gpu::mesa_product_block;
  }
}

FloatControls controls_of(const VkPhysicalDeviceFloatControlsProperties& has, bool has_f64) {
  FloatControls floats;
  floats.specials = {has.shaderSignedZeroInfNanPreserveFloat32 != VK_FALSE,
                     has.shaderSignedZeroInfNanPreserveFloat64 != VK_FALSE};
  floats.denormals = {has.shaderDenormPreserveFloat32 != VK_FALSE, has.shaderDenormPreserveFloat64 != VK_FALSE};
  // All widths must be treated alike.
  if (has.denormBehaviorIndependence == VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE && has_f64) {
    floats.denormals.f32 = floats.denormals.f64 = floats.denormals.f32 && floats.denormals.f64;
  }
  return floats;
}

}  // namespace

std::optional<PhysicalDevice> describe(const InstanceFunctions& functions, VkPhysicalDevice handle) {
  PhysicalDevice device;
  device.functions = &functions;
  device.handle = handle;
  functions.GetPhysicalDeviceProperties(handle, &device.properties);
  if (device.properties.apiVersion < VK_API_VERSION_1_2 || !choose_queues(functions, device)) return std::nullopt;
  Features features;
  functions.GetPhysicalDeviceFeatures2(handle, &features.chain);
  if (features.vulkan12.timelineSemaphore == VK_FALSE) return std::nullopt;

  const Extensions extensions(functions, handle);
  const Properties properties(functions, handle, extensions);
  functions.GetPhysicalDeviceMemoryProperties(handle, &device.memory);
  device.most_allocation = properties.maintenance.maxMemoryAllocationSize;
  device.most_pushed_buffers = properties.push.maxPushDescriptors;
  if (device.most_pushed_buffers > 0) device.extensions.push_back(VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME);
  // A device that has it must be opened with it.
  if (extensions.has(portability_subset)) device.extensions.push_back(portability_subset);
  fill_info(device, properties, features);
  fill_target(device, features, properties.driver.driverID);
  device.floats = controls_of(properties.floats, device.target.has_f64);
  return device;
}

}  // namespace tessera::driver::gpu::vulkan
