#pragma once

#include <tessera/tile.hpp>

#include "kernels/kernel.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

// Recurrences along the samples of a channel, without a sequential loop: state' = A state + B x, y = C state + D x,
// with one or two states, 0 at first. A tile is a whole channel.
//
// The samples are cut into blocks of 16, and 16 blocks make a group. What a block adds to the state is a sum of 16
// products; what a group adds follows from its blocks. From these come the states at the beginnings of the groups, in
// rounds of doubling distance; from those the states at the beginnings of the blocks, and the outputs: sums of up to 16
// products and the block's first state. So a sample costs some 20 multiplications, all blocks are independent, and
// rounding errors do not build up along the sound.
namespace tessera::kernels {

// Lowering::tile of a program that uses a recurrence.
inline std::vector<std::int64_t> whole_channel() { return {1, 0}; }  // 0: the whole axis

class Recurrence {
 public:
  using Matrix = std::array<std::array<double, 2>, 2>;
  using Vector = std::array<double, 2>;
  // y[n] = max(D x[n], C state) and so on, instead of sums; nothing may be negative then.
  enum class Kind : std::uint8_t { sum, max };

  Recurrence(Kind kind, int states, const Matrix& a, const Vector& b, const Vector& c, double d)
      : kind_(kind), states_(states), a_(a), b_(b), c_(c), d_(d) {}

  // The scalars that body() uses, for a sound of this length, and how many.
  std::vector<Lowering::Scalar> scalars(std::int64_t samples) const;
  int scalar_count() const;

  // x at these indices, an s64 tile; 0 before the first sample and after the last.
  using Samples = std::function<tile::Tile(const tile::Tile& indices)>;
  // The y of z's tile, which is a whole channel, [1,samples]: see whole_channel(). Its scalars begin at `first_scalar`.
  tile::Tile body(const tile::Output& z, const Samples& x, int first_scalar) const;

 private:
  Kind kind_;
  int states_;
  Matrix a_;
  Vector b_, c_;
  double d_;
};

}  // namespace tessera::kernels
