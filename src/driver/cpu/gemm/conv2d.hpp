#pragma once

#include <tessera/dtype.hpp>

#include "driver/cpu/gemm/gemm.hpp"

#include <cstddef>
#include <cstdint>

namespace tessera::driver::cpu {

// A convolution along one axis.
struct ConvAxis {
  std::int64_t size = 0;    // of the image
  std::int64_t kernel = 1;  // weights
  std::int64_t stride = 1;
  std::int64_t padding = 0;  // zeros on each side
  std::int64_t dilation = 1;

  std::int64_t output() const {
    const std::int64_t room = size + 2 * padding - dilation * (kernel - 1) - 1;
    return room < 0 ? 0 : room / stride + 1;
  }
};

// y[image, out, h, w] = bias[out] + the weighted sum of x. Everything is row-major and contiguous: x is [images,
// channels, h, w], weights are [outputs, channels / groups, kernel h, kernel w]; bias may be null.
struct Conv2d {
  DType dtype = DType::f32;
  std::int64_t images = 1;
  std::int64_t channels = 0;
  std::int64_t outputs = 0;
  std::int64_t groups = 1;  // divides channels and outputs
  ConvAxis h;
  ConvAxis w;
  const std::byte* x = nullptr;
  const std::byte* weights = nullptr;
  const std::byte* bias = nullptr;
  std::byte* y = nullptr;
};

// Like those of Gemm.
Cut cut(const Conv2d& conv, unsigned workers);
void run_piece(const Conv2d& conv, const Cut& cut, std::int64_t piece);
void for_each_part(const Conv2d& conv, const Cut& cut, std::int64_t piece,
                   const std::function<void(const ResultPart&)>& f);

}  // namespace tessera::driver::cpu
