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

// Hand-written programs on GPU APIs: bare calls, with everything prepared beforehand. Each has its own memory on the
// named device; the returned function is empty if the device is not found.
namespace bench {

// output = max(a + b, 0) * factor
struct GpuKernel {
  Call run;  // submits and waits
  std::function<std::vector<float>()> read;
};

// Variants of that kernel, of which the fastest is used: devices differ in which is best.
struct GpuVariant {
  int group;  // invocations per workgroup
  int width;  // floats per load, 1 or 4
  int each;   // loads per invocation
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

// Submits the tiny kernel, relu, and waits: the same work on both sides.
inline constexpr std::size_t tiny_elements = 16;

namespace vulkan {
// Submits a prerecorded command buffer with dispatches of that kernel, separated by barriers, and waits.
enum class Wait : std::uint8_t { fence, timeline };
Call submit_and_wait(const std::string& device, Wait wait, int dispatches = 1);
// The number of elements must be a multiple of 2^14.
GpuKernel add_relu_scale(const std::string& device, std::span<const float> a, std::span<const float> b, float factor);
}  // namespace vulkan

namespace opencl {
enum class Wait : std::uint8_t { finish, event };
Call submit_and_wait(const std::string& device, Wait wait);
GpuKernel add_relu_scale(const std::string& device, std::span<const float> a, std::span<const float> b, float factor);
}  // namespace opencl

}  // namespace bench
