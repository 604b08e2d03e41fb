// The bilateral filter.
#include <tessera/tile.hpp>

#include "core/text.hpp"
#include "kernels/builtin/image.hpp"
#include "kernels/builtin/image_filters.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace tessera::kernels {

using core::text;
using tile::Border;
using tile::Index;
using tile::Input;
using tile::Output;
using tile::Tile;

namespace {

constexpr std::int64_t max_denoise_channels = 16;  // the program has separate values for each

struct Sums {
  std::vector<Tile> channels;  // of weight * value, each [H,W] or [H,W,1]
  Tile weights;
};

// The bilateral sums over the window. Scalars: the factors of squared distances in space and in colour.
Sums bilateral_sums(const Output& z, const Image& image, int radius, Border border) {
  const auto values = [&](const Tile& dy, const Tile& dx) {
    std::vector<Tile> all;
    for (int c = 0; c < image.channels; ++c) {
      std::vector<Index> position = {z.index(0) + dy, z.index(1) + dx};
      if (z.rank() == 3) position.emplace_back(c);
      all.push_back(as_float(Input(0).at(tile::Indices(position), border)));
    }
    return all;
  };
  const std::vector<Tile> middle = values(0, 0);
  const std::size_t colors = image.has_alpha() ? 3 : middle.size();
  const auto add_tap = [&](const Index& k, std::vector<Tile> sums) {
    const int side = 2 * radius + 1;
    const Tile dy = k / side - radius, dx = k % side - radius;
    const std::vector<Tile> value = values(dy, dx);
    Tile squares = (value[0] - middle[0]) * (value[0] - middle[0]);
    for (std::size_t c = 1; c < colors; ++c) squares = squares + (value[c] - middle[c]) * (value[c] - middle[c]);
    const Tile space = as_float(dy * dy + dx * dx) * tile::detail::scalar(0);
    const Tile weight = tile::exp(space + squares * tile::detail::scalar(1));
    for (std::size_t c = 0; c < value.size(); ++c) sums[c] = sums[c] + weight * value[c];
    sums.back() = sums.back() + weight;
    return sums;
  };
  const tile::Indices extents =
      z.rank() == 3 ? tile::Indices(z.tile_dim(0), z.tile_dim(1), 1) : tile::Indices(z.tile_dim(0), z.tile_dim(1));
  const std::vector<Tile> none(middle.size() + 1, tile::broadcast(tile::constant(0.0f), extents));
  std::vector<Tile> sums = tile::detail::loop((2 * radius + 1) * (2 * radius + 1), none, add_tap);
  const Tile weights = sums.back();
  sums.pop_back();
  return {sums, weights};
}

// The factor of a squared distance. Finite, so that distance 0 has weight 1 for any sigma.
double exponent_factor(double sigma) {
  return std::max(-0.5 / (sigma * sigma), -static_cast<double>(std::numeric_limits<float>::max()));
}

// What sigma_color is, or what strength, which counts in parts of the full range, makes it.
double sigma_color_of(const Call& call) {
  const Argument &sigma = call["sigma_color"], &strength = call["strength"];
  if (sigma.is_given && strength.is_given) {
    fail(call, Errc::invalid_parameter, "'sigma_color' and 'strength' mean the same: give one");
  }
  if (strength.is_given) return strength.number * full_scale(call.output.dtype);
  return sigma.is_given ? sigma.number : call.output.dtype == u8 ? 25 : 0.1;
}

}  // namespace

Lowering lower_denoise(const Call& call) {
  const Image image = checked_image_like_output(call);
  if (image.channels > max_denoise_channels) {
    fail(call, Errc::shape_mismatch,
         text("input 0 (x) must have at most ", max_denoise_channels, " channels, got ",
              to_string(call.output.dtype, *call.output.shape)));
  }
  const int radius = static_cast<int>(call["radius"].integer);
  const double sigma_color = sigma_color_of(call);
  Lowering lowering;
  lowering.shapes = {image.grid(), image.grid()};
  if (image.channels != 1) lowering.fixed = {{0, 2}, {1, 2}};
  const Border border = border_of(call);
  lowering.variant = text("radius ", radius, border_variant(border));
  lowering.scalars = {number_scalar("space", exponent_factor(call["sigma_space"].number)),
                      number_scalar("color", exponent_factor(sigma_color))};
  lowering.body = [image, radius, border] {
    const Output z;
    if (image.channels == 0) return z.store(0);
    const Sums sums = bilateral_sums(z, image, radius, border);
    Tile sum = sums.channels.back();
    for (int c = static_cast<int>(image.channels) - 2; c >= 0; --c) {
      sum = tile::select(z.index(2) == c, sums.channels[static_cast<std::size_t>(c)], sum);
    }
    z.store(finished(z, sum / sums.weights));
  };
  return lowering;
}

}  // namespace tessera::kernels
