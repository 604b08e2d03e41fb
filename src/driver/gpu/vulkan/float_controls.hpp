#pragma once

#include "driver/gpu/vulkan/instance.hpp"

#include <cstdint>
#include <vector>

namespace tessera::driver::gpu::vulkan {

// Adds to a kernel in SPIR-V, which has one entry point, what it asks of the device's floats. GLSL has no words for it.
void add_float_controls(std::vector<std::uint32_t>& words, const FloatControls& controls);

}  // namespace tessera::driver::gpu::vulkan
