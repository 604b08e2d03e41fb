#pragma once

#include <tessera/tile.hpp>

#include "kernels/kernel.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

// Helpers shared by the image kernels.
namespace tessera::kernels {

inline constexpr DType image_dtypes[] = {f32, u8};

// An image [H,W] or [H,W,C], and views of it with the same elements in the same order.
struct Image {
  explicit Image(const Shape& shape) : height(shape[0]), width(shape[1]), channels(shape.rank() == 3 ? shape[2] : 1) {}

  std::int64_t height, width, channels;

  bool has_alpha() const { return channels == 4; }
  // Elements per pixel in rows().
  int step() const { return channels == 0 ? 1 : static_cast<int>(channels); }
  Shape rows() const { return {height, width * channels}; }    // for kernels that treat channels alike
  Shape pixels() const { return {height * width, channels}; }  // for kernels that mix channels
  // For kernels that mix channels and depend on the position.
  Shape grid() const { return channels == 1 ? Shape{height, width} : Shape{height, width, channels}; }
};

// The input must be f32 or u8, and [H,W] or [H,W,C].
Image checked_image(const Call& call, std::size_t input);
// The same for input 0; the output must have its type and shape.
Image checked_image_like_output(const Call& call);
// The input must be f32 or u8, and [H,W,C] with 3 to `most` channels.
Image checked_colors(const Call& call, std::size_t input, std::int64_t most = 4);

// The items of a list, which must have `count` of them.
std::vector<double> checked_numbers(const Call& call, std::string_view param, std::size_t count);

Lowering::Scalar number_scalar(std::string_view name, double number);
Lowering::Scalar integer_scalar(std::string_view name, std::int64_t integer, DType dtype);

// Full intensity.
inline float full_scale(DType dtype) { return dtype == u8 ? 255.0f : 1.0f; }

inline tile::Tile as_float(const tile::Tile& x) { return tile::cast<float>(x); }
// An f32 converted to the output's type.
tile::Tile finished(const tile::Output& z, const tile::Tile& value);
// A channel of z's pixels as f32, [pixels,1]; x is viewed as pixels().
tile::Tile channel(const tile::Input& x, const tile::Output& z, int number);
// `value`, with alpha taken from x. z's last axis must hold whole pixels.
tile::Tile keep_alpha(const tile::Output& z, const Image& image, const tile::Tile& x, const tile::Tile& value);

inline tile::Tile mixed(const tile::Tile& a, const tile::Tile& b, const tile::Tile& amount) {
  return a + (b - a) * amount;
}
inline tile::Tile clamp_to_unit(const tile::Tile& x) { return tile::min(tile::max(x, 0.0f), 1.0f); }

}  // namespace tessera::kernels
