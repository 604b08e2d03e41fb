#pragma once

#include <tessera/tile.hpp>

#include "kernels/kernel.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

// What the image kernels have in common.
namespace tessera::kernels {

inline constexpr DType image_dtypes[] = {f32, u8};

// [H,W] or [H,W,C], and its views: the same elements in the same order.
struct Image {
  explicit Image(const Shape& shape) : height(shape[0]), width(shape[1]), channels(shape.rank() == 3 ? shape[2] : 1) {}

  std::int64_t height, width, channels;

  bool has_alpha() const { return channels == 4; }
  // Elements from a pixel to the next one in rows().
  int step() const { return channels == 0 ? 1 : static_cast<int>(channels); }
  Shape rows() const { return {height, width * channels}; }    // where channels are treated alike
  Shape pixels() const { return {height * width, channels}; }  // where they are mixed
  // Where they are mixed and places matter.
  Shape grid() const { return channels == 1 ? Shape{height, width} : Shape{height, width, channels}; }
};

// An input that is f32 or u8 and [H,W] or [H,W,C].
Image checked_image(const Call& call, std::size_t input);
// The same, and the output is like it.
Image checked_image_like_output(const Call& call);
// [H,W,C] with 3 channels to `most`.
Image checked_colors(const Call& call, std::size_t input, std::int64_t most = 4);

// The numbers of a list that must have `count` of them.
std::vector<double> checked_numbers(const Call& call, std::string_view param, std::size_t count);

Lowering::Scalar number_scalar(std::string_view name, double number);
Lowering::Scalar integer_scalar(std::string_view name, std::int64_t integer, DType dtype);

// The number that stands for full intensity.
inline float full_scale(DType dtype) { return dtype == u8 ? 255.0f : 1.0f; }

inline tile::Tile as_float(const tile::Tile& x) { return tile::cast<float>(x); }
// What an f32 becomes in the output.
tile::Tile finished(const tile::Output& z, const tile::Tile& value);
// A channel of z's pixels as f32, [pixels, 1]; x is pixels().
tile::Tile channel(const tile::Input& x, const tile::Output& z, int number);
// `value`, but of alpha what x has there; z's last axis has whole pixels.
tile::Tile keep_alpha(const tile::Output& z, const Image& image, const tile::Tile& x, const tile::Tile& value);

inline tile::Tile mixed(const tile::Tile& a, const tile::Tile& b, const tile::Tile& amount) {
  return a + (b - a) * amount;
}
inline tile::Tile clamp_to_unit(const tile::Tile& x) { return tile::min(tile::max(x, 0.0f), 1.0f); }

}  // namespace tessera::kernels
