#pragma once

#include "driver/gpu/vulkan/instance.hpp"

#include <optional>

namespace tessera::driver::gpu::vulkan {

// nullopt if the device cannot be used: no compute queue, or older than Vulkan 1.2.
std::optional<PhysicalDevice> describe(const InstanceFunctions& functions, VkPhysicalDevice handle);

}  // namespace tessera::driver::gpu::vulkan
