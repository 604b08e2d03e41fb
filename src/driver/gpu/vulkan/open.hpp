#pragma once

#include "driver/gpu/api.hpp"
#include "driver/gpu/vulkan/instance.hpp"

#include <memory>

namespace tessera::driver::gpu::vulkan {

// Opens a device, which must outlive it. Throws Errc::device_failure if that fails.
std::unique_ptr<Api> open(const PhysicalDevice& physical);

}  // namespace tessera::driver::gpu::vulkan
