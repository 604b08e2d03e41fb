#pragma once

#include <tessera/tile.hpp>

#include "kernels/kernel.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

// What the files of kernels share.
namespace tessera::kernels {

inline constexpr std::array float_dtypes = {f32, f64};

// Constants are arrays: kernels may be asked for before this library's own statics are made.
inline std::vector<DType> to_vector(std::span<const DType> dtypes) { return {dtypes.begin(), dtypes.end()}; }

// Runtime scalars that are not a parameter as it is. Names must outlive the lowering.
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

// a / b of whole numbers of a type, a not negative, for quotients below 2^20: estimated in f32 and put right, since
// processors have no vectors of integer divisions.
inline tile::Tile small_quotient(const tile::Tile& a, const tile::Tile& b, DType dtype) {
  const tile::Tile estimate = tile::cast(tile::cast(a, f32) / tile::cast(b, f32), dtype);
  const tile::Tile rest = a - estimate * b;
  return select(rest >= b, estimate + 1, select(rest < 0, estimate - 1, estimate));
}

}  // namespace tessera::kernels
