#pragma once

#include "driver/gpu/vulkan/instance.hpp"

#include <optional>

namespace tessera::driver::gpu::vulkan {

// Nothing if the device cannot be used: it does not compute, or is older than Vulkan 1.2.
std::optional<PhysicalDevice> describe(const InstanceFunctions& functions, VkPhysicalDevice handle);

}  // namespace tessera::driver::gpu::vulkan
