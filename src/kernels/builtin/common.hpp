#pragma once

#include <tessera/tile.hpp>

#include "kernels/kernel.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

// Helpers shared by the built-in kernels.
namespace tessera::kernels {

inline constexpr std::array float_dtypes = {f32, f64};

// Constants are arrays, not vectors: kernels may be looked up before this library's statics are constructed.
inline std::vector<DType> to_vector(std::span<const DType> dtypes) { return {dtypes.begin(), dtypes.end()}; }

// Runtime scalars with a computed value. Names must outlive the lowering.
inline Lowering::Scalar whole_scalar(std::string_view name, DType dtype, std::int64_t value) {
  Argument argument;
  argument.number = static_cast<double>(value);
  argument.integer = value;
  argument.is_integer = true;
  return {name, dtype, argument};
}
inline Lowering::Scalar real_scalar(std::string_view name, DType dtype, double value) {
  Argument argument;
  argument.number = value;
  return {name, dtype, argument};
}

// Integer a / b for a >= 0 and quotients below 2^20: estimated in f32 and corrected, since processors have no vector
// integer division.
inline tile::Tile small_quotient(const tile::Tile& a, const tile::Tile& b, DType dtype) {
  const tile::Tile estimate = tile::cast(tile::cast(a, f32) / tile::cast(b, f32), dtype);
  const tile::Tile remainder = a - estimate * b;
  return select(remainder >= b, estimate + 1, select(remainder < 0, estimate - 1, estimate));
}

}  // namespace tessera::kernels
