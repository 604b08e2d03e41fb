#pragma once

#include "conformance/oracles/oracles.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace tessera::conformance {

// The index of the pixel that a border shows at `index`, outside of `count` pixels; -1: black.
inline std::int64_t at_border(const std::string& border, std::int64_t index, std::int64_t count) {
  if (border == "zero") return index >= 0 && index < count ? index : -1;
  if (border == "reflect_101" && count == 1) return 0;
  while (index < 0 || index >= count) {
    const bool is_before = index < 0;
    if (border == "clamp") {
      index = is_before ? 0 : count - 1;
    } else if (border == "wrap") {
      index += is_before ? count : -count;
    } else if (border == "reflect") {
      index = is_before ? -1 - index : 2 * count - 1 - index;
    } else {
      index = is_before ? -index : 2 * count - 2 - index;
    }
  }
  return index;
}

// An image [H,W] or [H,W,C] in the values of its type.
struct Image {
  std::int64_t height;
  std::int64_t width;
  std::int64_t channels;
  bool is_u8;
  std::vector<double> values;
  std::string border;

  explicit Image(const Tensor& tensor, std::string outside = "clamp")
      : height(tensor.shape[0]),
        width(tensor.shape[1]),
        channels(tensor.shape.rank() == 3 ? tensor.shape[2] : 1),
        is_u8(tensor.dtype == u8),
        border(std::move(outside)) {
    for (const Real value : tensor.numbers()) values.push_back(static_cast<double>(value));
  }
  double at(std::int64_t y, std::int64_t x, std::int64_t channel) const {
    if (y < 0 || y >= height) y = at_border(border, y, height);
    if (x < 0 || x >= width) x = at_border(border, x, width);
    if (y < 0 || x < 0) return 0;
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
