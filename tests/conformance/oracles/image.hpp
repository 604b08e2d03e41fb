#pragma once

#include "conformance/oracles/oracles.hpp"

#include <algorithm>
#include <array>

namespace tessera::conformance {

// An image [H,W] or [H,W,C] in the values of its type. Outside of it is the nearest pixel.
struct Image {
  std::int64_t height;
  std::int64_t width;
  std::int64_t channels;
  bool is_u8;
  std::vector<double> values;

  explicit Image(const Tensor& tensor)
      : height(tensor.shape[0]),
        width(tensor.shape[1]),
        channels(tensor.shape.rank() == 3 ? tensor.shape[2] : 1),
        is_u8(tensor.dtype == u8) {
    for (const Real value : tensor.numbers()) values.push_back(static_cast<double>(value));
  }
  double at(std::int64_t y, std::int64_t x, std::int64_t channel) const {
    y = std::clamp<std::int64_t>(y, 0, height - 1);
    x = std::clamp<std::int64_t>(x, 0, width - 1);
    return values[static_cast<std::size_t>((y * width + x) * channels + channel)];
  }
  double white() const { return is_u8 ? 255 : 1; }
  bool has_alpha() const { return channels == 4; }
  bool is_alpha(std::int64_t channel) const { return channels == 4 && channel == 3; }
  double gray(std::int64_t y, std::int64_t x) const {
    return 0.299 * at(y, x, 0) + 0.587 * at(y, x, 1) + 0.114 * at(y, x, 2);
  }
};

// What f32 arithmetic on numbers of this magnitude makes of a value: u8 is exact unless it is next to a half.
inline Approx pixel(DType dtype, double value, double magnitude) {
  if (dtype == u8) return {value, 1e-3L};
  return {value, 32 * epsilon(f32) * static_cast<Real>(magnitude + std::fabs(value))};
}

// f(y, x, channel) for every element of the output.
template <class F>
Answer each_pixel(const Call& call, F f) {
  Answer answer(call);
  answer.zeros_have_signs = false;
  const std::int64_t channels = call.shape.rank() == 3 ? call.shape[2] : 1;
  for (std::int64_t i = 0; i < call.shape.elements(); ++i) {
    const std::int64_t place = i / channels;
    answer.points[static_cast<std::size_t>(i)] = f(place / call.shape[1], place % call.shape[1], i % channels);
  }
  return answer;
}

}  // namespace tessera::conformance
