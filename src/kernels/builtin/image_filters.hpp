#pragma once

#include <tessera/tile.hpp>

#include "core/text.hpp"
#include "kernels/builtin/image.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

// Shared by the image filters, in which each pixel depends on its neighbourhood. Images are viewed as [H,W*C]:
// neighbours are a whole number of pixels apart, so channels need no special care, and rows are long.
namespace tessera::kernels {

Lowering lower_sharpen(const Call& call);
Lowering lower_denoise(const Call& call);

// The parameter `border`, which every filter has, and its value in a call.
ParamSpec border_param();
tile::Border border_of(const Call& call);
// The part of a lowering's variant that says which border it has.
std::string border_variant(tile::Border border);

// Input 0 viewed as [H,W*C], with the filter's border.
struct Rows {
  int step;  // Image::step()
  tile::Border border;

  Rows(const Image& image, const Call& call) : step(image.step()), border(border_of(call)) {}

  // The elements at these coordinates.
  tile::Tile at(const tile::Tile& row, const tile::Tile& column) const {
    return tile::Input(0).at({row, column}, border, step);
  }
};

// A lowering that views the image as [H,W*C].
inline Lowering rows_lowering(const Image& image, const Rows& rows, std::string_view variant,
                              std::function<void()> body) {
  Lowering lowering;
  lowering.shapes = {image.rows(), image.rows()};
  lowering.variant = core::text("step ", rows.step, " ", variant, border_variant(rows.border));
  lowering.body = std::move(body);
  return lowering;
}

inline tile::Index constant_index(int i) { return tile::constant<std::int64_t>(i); }

// part(0) + … + part(count - 1). add(sum, i) is sum + part(i).
//
// Up to 2 * short_count parts are one expression. Longer sums are a loop over chunks: fully unrolled, the program would
// take long to compile, and a loop over single parts takes more iterations than some devices allow. Each chunk is
// summed before it is added, which keeps rounding errors small.
template <class Part, class Add>
tile::Tile sum_of(int count, int short_count, const Part& part, const Add& add) {
  constexpr int most_chunks = 32;
  const auto sum_from = [&](const tile::Index& first, int parts) {
    tile::Tile sum = part(first);
    for (int i = 1; i < parts; ++i) sum = add(sum, first + i);
    return sum;
  };
  if (count <= 2 * short_count) return sum_from(constant_index(0), count);
  const int length = std::max(short_count, (count - 1) / most_chunks);
  const int chunks = (count - 1) / length, rest = count - chunks * length;
  return tile::loop(chunks, sum_from(constant_index(0), rest), [&](const tile::Index& k, const tile::Tile& before) {
    return before + sum_from(k * length + rest, length);
  });
}

// The rows of a taller tile from `first` on, as many as z's tile has.
inline tile::Tile row_of(const tile::Output& z, const tile::Tile& rows, const tile::Index& first) {
  return tile::slice(rows, {first, 0}, {z.tile_dim(0), z.tile_dim(1)});
}

}  // namespace tessera::kernels
