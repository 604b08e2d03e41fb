#pragma once

#include <tessera/tile.hpp>

#include "kernels/builtin/image_filters.hpp"

#include <cstdint>
#include <string>
#include <vector>

// The Gaussian of gaussian_blur and sharpen.
namespace tessera::kernels {

// Symmetric weights, from the centre outwards: for u8 integer 256ths that sum to 256, for f32 floats.
struct Weights {
  std::vector<std::uint32_t> fixed;
  std::vector<float> floats;
  double falloff = 0;  // of floats: weight i is exp(-falloff * i * i) times weight 0
};

Weights gaussian_weights(DType dtype, std::int64_t radius, double sigma);

// Weights as a program sees them: their number is compiled in, their values are its first scalars. A single weight
// needs no scalar. Up to most_scalars are one scalar each. More are a tile that the program computes from fewer scalars
// and loops over.
struct Taps {
  static constexpr int most_scalars = 64;
  static constexpr std::uint32_t most_beside_centre = 127;
  // Many integer weights are stored as their 256 units of 1/256: 128 on either side of the centre, each with its
  // distance from 0 to the radius. Two distances share a scalar.
  static constexpr int units = 128, unit_scalars = units / 2, distance_bits = 16;

  bool is_fixed = false;
  bool is_flat = false;  // the centre's weight is at most most_beside_centre too
  int radius = 0;

  explicit Taps(const Weights& weights);

  bool are_many() const { return radius > most_scalars; }
  int scalars() const;  // how many
  std::string variant() const;
  // Weight i as u32 or f32, if there are few. Its bound shows the compiler that a weight beside the centre times the
  // sum of two bytes fits 16 bits.
  tile::Tile operator[](int i) const;
  // All weights, if there are many. The centre's is halved, since it is added from both sides like the others.
  tile::Tile all() const;
};

// The scalars that a program with these weights starts with.
std::vector<Lowering::Scalar> scalars_of(const Weights& weights);

// z's tile of the blurred image, in 16.16 fixed point in u32, or f32.
tile::Tile blurred(const tile::Output& z, const Rows& x, const Taps& taps);
// The same for u8, rounded: (sum + 32768) >> 16.
tile::Tile blurred_to_u8(const tile::Output& z, const Rows& x, const Taps& taps);

// For u8 and few weights: the tile and the pixels beside it, blurred along columns, as signed 16-bit numbers with an
// offset of -32768. Processors multiply those in pairs and add the products. Since the weights sum to 256, a weighted
// sum of them has an offset of -2^23. Signed bytes can be multiplied in pairs too: where the weights fit them, pixels
// are offset by -128. Sums fit in 16 bits, which the compiler cannot know; a mask tells it.
//
// Columns come first because two rows of bytes share most of their pairs, and the 16-bit values of a channel are
// adjacent along a row already. Blur, sharpen and grayscale of 2160p, fused, took 7.6 ms; with rows first 8.1.
struct SignedColumns {
  const tile::Output& z;
  const Taps& taps;
  const int step;
  tile::Tile sums;

  SignedColumns(const tile::Output& output, const Rows& x, const Taps& weights)
      : z(output), taps(weights), step(x.step), sums(sums_of(x)) {}

  static constexpr int signed_offset = 1 << 15;
  static constexpr int offset_of_sum = 256 * signed_offset;

  // The values of the pixels i to the right.
  tile::Tile at(int i) const;
  tile::Tile weight(int i) const { return tile::cast<std::int32_t>(taps[i]); }
  tile::Tile sum() const;

 private:
  tile::Tile sums_of(const Rows& x) const;
};

}  // namespace tessera::kernels
