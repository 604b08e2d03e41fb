#pragma once

#include <tessera/dtype.hpp>
#include <tessera/shape.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace tessera::conformance {

// Holds every element of every type as it is.
using Real = long double;
static_assert(std::numeric_limits<Real>::digits >= 64);
__extension__ typedef __int128 Wide;

inline constexpr Real infinity = std::numeric_limits<Real>::infinity();

// Calls f.operator()<T>() with the C++ type of a dtype.
template <class F>
auto with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f.template operator()<float>();
    case DType::f64:
      return f.template operator()<double>();
    case DType::s32:
      return f.template operator()<std::int32_t>();
    case DType::s64:
      return f.template operator()<std::int64_t>();
    case DType::u32:
      return f.template operator()<std::uint32_t>();
    default:
      return f.template operator()<std::uint8_t>();
  }
}

// An array in the host's memory.
struct Tensor {
  DType dtype = f32;
  Shape shape;
  std::vector<std::byte> bytes;

  Tensor() = default;
  Tensor(DType type, const Shape& extents) : dtype(type), shape(extents), bytes(extents.size_bytes(type)) {}

  std::size_t size() const { return static_cast<std::size_t>(shape.elements()); }
  template <class T>
  std::span<T> values() {
    return {reinterpret_cast<T*>(bytes.data()), size()};
  }
  template <class T>
  std::span<const T> values() const {
    return {reinterpret_cast<const T*>(bytes.data()), size()};
  }
  Real at(std::size_t i) const {
    return with_type(dtype, [&]<class T>() { return static_cast<Real>(values<T>()[i]); });
  }
  std::vector<Real> numbers() const {
    std::vector<Real> result(size());
    for (std::size_t i = 0; i < size(); ++i) result[i] = at(i);
    return result;
  }
};

// The integer modulo 2^width.
template <class T>
T wrapped(Wide value) {
  using Unsigned = std::make_unsigned_t<T>;
  return static_cast<T>(static_cast<Unsigned>(value));
}

// To the nearest, halves away from zero; what does not fit becomes the nearest that does; NaN becomes 0.
template <class T>
T nearest(Real value) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(value);
  } else {
    using Limits = std::numeric_limits<T>;
    if (std::isnan(value)) return 0;
    const Real rounded = std::round(value);
    if (rounded <= static_cast<Real>(Limits::min())) return Limits::min();
    if (rounded >= static_cast<Real>(Limits::max())) return Limits::max();
    return static_cast<T>(rounded);
  }
}

// What one step of arithmetic in this type may lose, relative to the result; integers are computed in f64.
inline Real epsilon(DType dtype) {
  return dtype == f32 ? std::numeric_limits<float>::epsilon() : std::numeric_limits<double>::epsilon();
}
inline Real greatest(DType dtype) {
  return dtype == f32 ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
}
// Results below this may be flushed to zero.
inline Real least_normal(DType dtype) {
  if (!is_float(dtype)) return 0;
  return dtype == f32 ? std::numeric_limits<float>::min() : std::numeric_limits<double>::min();
}

// All points of a shape in row-major order.
template <class F>
void for_each_point(const Shape& shape, F&& f) {
  std::vector<std::int64_t> point(static_cast<std::size_t>(shape.rank()), 0);
  for (std::int64_t i = 0; i < shape.elements(); ++i) {
    f(static_cast<std::size_t>(i), static_cast<const std::vector<std::int64_t>&>(point));
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      if (++point[static_cast<std::size_t>(axis)] < shape[axis]) break;
      point[static_cast<std::size_t>(axis)] = 0;
    }
  }
}

// Where a point of the output is in an array that is broadcast to it: aligned at the last axis.
inline std::size_t broadcast_index(const Shape& shape, std::span<const std::int64_t> point) {
  std::int64_t index = 0;
  const auto skipped = point.size() - static_cast<std::size_t>(shape.rank());
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const std::int64_t at = shape[axis] == 1 ? 0 : point[skipped + static_cast<std::size_t>(axis)];
    index = index * shape[axis] + at;
  }
  return static_cast<std::size_t>(index);
}

}  // namespace tessera::conformance
