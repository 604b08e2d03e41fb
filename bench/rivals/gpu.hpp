#pragma once

#include "rivals/rivals.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

// Programs written by hand on the interfaces of GPUs: bare calls, with everything made ready beforehand. Each has
// memory of its own on the device of that name; what it returns is empty where that device is not found.
namespace bench {

// output = max(a + b, 0) * factor
struct GpuKernel {
  Call run;  // submits it and waits
  std::function<std::vector<float>()> read;
};

// The ways to write that kernel, of which the fastest is taken: what is best for one device is bad for another.
struct GpuVariant {
  int group;  // invocations of a workgroup
  int width;  // floats that are loaded at once, 1 or 4
  int each;   // such loads of an invocation
};
inline constexpr std::array<GpuVariant, 14> gpu_variants = {{{64, 4, 1},
                                                             {128, 4, 1},
                                                             {256, 4, 1},
                                                             {64, 4, 4},
                                                             {128, 4, 4},
                                                             {256, 4, 4},
                                                             {64, 4, 16},
                                                             {256, 4, 16},
                                                             {64, 1, 1},
                                                             {128, 1, 1},
                                                             {256, 1, 1},
                                                             {64, 1, 16},
                                                             {128, 1, 16},
                                                             {256, 1, 16}}};

// The fastest of these calls.
std::size_t fastest(std::span<const Call> calls);

// Of the tiny kernel, relu, that is submitted and waited for: the same work on both sides.
inline constexpr std::size_t tiny_elements = 16;

namespace vulkan {
// A command buffer with dispatches of that kernel, barriers between them, recorded before, submitted and waited for.
enum class Wait : std::uint8_t { fence, timeline };
Call submit_and_wait(const std::string& device, Wait wait, int dispatches = 1);
// The number of elements is a multiple of 2^14.
GpuKernel add_relu_scale(const std::string& device, std::span<const float> a, std::span<const float> b, float factor);
}  // namespace vulkan

namespace opencl {
enum class Wait : std::uint8_t { finish, event };
Call submit_and_wait(const std::string& device, Wait wait);
GpuKernel add_relu_scale(const std::string& device, std::span<const float> a, std::span<const float> b, float factor);
}  // namespace opencl

}  // namespace bench
