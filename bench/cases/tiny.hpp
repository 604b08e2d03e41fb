#pragma once

#include <tessera/tessera.hpp>

#include "cases/cases.hpp"

#include <array>
#include <cstddef>

namespace bench {

// One cache line: measures the cost of a command rather than its work.
inline constexpr std::size_t tiny_elements = 16;
using TinyArray = std::array<float, tiny_elements>;

inline const tessera::Device& device() {
  static const tessera::Device cpu = tessera::Device::open("cpu");
  return cpu;
}

inline tessera::Buffer tiny_buffer() { return device().zeros({tiny_elements}); }

inline tessera::Command submit(Kernel kernel, const tessera::Buffer& input, const tessera::Buffer& output,
                               double factor = 2) {
  return kernel == Kernel::scale ? device().submit("scale", {input}, output, {{"factor", factor}})
                                 : device().submit("relu", {input}, output);
}

// The work of a rival's task.
inline void by_hand(Kernel kernel, const float* input, float* output, std::size_t elements, float factor = 2) {
  if (kernel == Kernel::scale) {
    for (std::size_t i = 0; i < elements; ++i) output[i] = input[i] * factor;
  } else {
    for (std::size_t i = 0; i < elements; ++i) output[i] = input[i] > 0 ? input[i] : 0;
  }
}

}  // namespace bench
