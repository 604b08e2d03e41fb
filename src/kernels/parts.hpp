#pragma once

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

// Runtime scalars that are not a parameter as it is. Names must outlive the plan.
inline Plan::Scalar whole_scalar(std::string_view name, DType dtype, std::int64_t value) {
  Argument argument;
  argument.number = static_cast<double>(value);
  argument.integer = value;
  argument.is_integer = true;
  return {name, dtype, argument};
}
inline Plan::Scalar real_scalar(std::string_view name, DType dtype, double value) {
  Argument argument;
  argument.number = value;
  return {name, dtype, argument};
}

}  // namespace tessera::kernels
