#include "driver/cpu/cpu_driver.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

namespace tessera::driver::cpu {

namespace {

template <class T>
const T* input(const Launch& launch, std::size_t index) {
  return reinterpret_cast<const T*>(launch.inputs[index]);
}

template <class T>
T* output(const Launch& launch) {
  return reinterpret_cast<T*>(launch.output);
}

// To an integer: to the nearest, halves away from zero, saturated, NaN becomes 0. To a float: as the hardware does.
template <class T>
T converted(double value) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(value);
  } else {
    if (std::isnan(value)) return 0;
    const double rounded = std::round(value);
    // The largest s64 is no double: the comparison must be with 2^63 itself.
    constexpr double end = static_cast<double>(std::uint64_t{1} << (std::numeric_limits<T>::digits - 1)) * 2;
    if (rounded >= end) return std::numeric_limits<T>::max();
    if (rounded < static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
    return static_cast<T>(rounded);
  }
}

template <class T>
T saturated(std::int64_t value) {
  if (std::cmp_greater(value, std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  if (std::cmp_less(value, std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  return static_cast<T>(value);
}

template <class T>
T saturated_product(T x, std::int64_t factor) {
  std::int64_t product = 0;
  if (!__builtin_mul_overflow(static_cast<std::int64_t>(x), factor, &product)) return saturated<T>(product);
  const bool is_negative = (x < 0) != (factor < 0);
  return is_negative ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max();
}

// x * factor: exact where both are whole numbers, else computed in f64.
template <class T>
T scaled(T x, const kernels::Argument& factor) {
  if constexpr (std::is_floating_point_v<T>) {
    return x * static_cast<T>(factor.number);
  } else {
    if (factor.is_integer) return saturated_product(x, factor.integer);
    return converted<T>(static_cast<double>(x) * factor.number);
  }
}

// Integers wrap around; computed unsigned and at least 32 bits wide, since overflow of int is undefined.
template <class T>
using Arithmetic = std::conditional_t<std::is_floating_point_v<T>, T,
                                      std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>>;

template <class T>
void elementwise_add(const Launch& launch, std::int64_t begin, std::int64_t end) {
  const T *a = input<T>(launch, 0), *b = input<T>(launch, 1);
  T* out = output<T>(launch);
  for (std::int64_t i = begin; i < end; ++i) {
    out[i] = static_cast<T>(static_cast<Arithmetic<T>>(a[i]) + static_cast<Arithmetic<T>>(b[i]));
  }
}

template <class T>
void elementwise_mul(const Launch& launch, std::int64_t begin, std::int64_t end) {
  const T *a = input<T>(launch, 0), *b = input<T>(launch, 1);
  T* out = output<T>(launch);
  for (std::int64_t i = begin; i < end; ++i) {
    out[i] = static_cast<T>(static_cast<Arithmetic<T>>(a[i]) * static_cast<Arithmetic<T>>(b[i]));
  }
}

template <class T>
void relu(const Launch& launch, std::int64_t begin, std::int64_t end) {
  const T* x = input<T>(launch, 0);
  T* out = output<T>(launch);
  const kernels::Argument slope = launch.arguments[0];
  if (std::is_unsigned_v<T> || slope.number == 0) {  // not as a product: that of minus infinity and 0 is NaN
    for (std::int64_t i = begin; i < end; ++i) out[i] = x[i] < 0 ? T{0} : x[i];
  } else {
    for (std::int64_t i = begin; i < end; ++i) out[i] = x[i] < 0 ? scaled(x[i], slope) : x[i];
  }
}

template <class T>
void scale(const Launch& launch, std::int64_t begin, std::int64_t end) {
  const T* x = input<T>(launch, 0);
  T* out = output<T>(launch);
  const kernels::Argument factor = launch.arguments[0];
  for (std::int64_t i = begin; i < end; ++i) out[i] = scaled(x[i], factor);
}

template <class T>
void fill(const Launch& launch, std::int64_t begin, std::int64_t end) {
  T* out = output<T>(launch);
  const kernels::Argument given = launch.arguments[0];
  T value = converted<T>(given.number);
  if constexpr (std::is_integral_v<T>) {
    if (given.is_integer) value = saturated<T>(given.integer);
  }
  for (std::int64_t i = begin; i < end; ++i) out[i] = value;
}

template <class T>
void copy(const Launch& launch, std::int64_t begin, std::int64_t end) {
  if (begin == end) return;
  // memmove: the output may be the input.
  std::memmove(output<T>(launch) + begin, input<T>(launch, 0) + begin,
               static_cast<std::size_t>(end - begin) * sizeof(T));
}

template <class T>
Function typed_function(kernels::Op op) noexcept {
  switch (op) {
    case kernels::Op::elementwise_add:
      return elementwise_add<T>;
    case kernels::Op::elementwise_mul:
      return elementwise_mul<T>;
    case kernels::Op::relu:
      return relu<T>;
    case kernels::Op::scale:
      return scale<T>;
    case kernels::Op::fill:
      return fill<T>;
    case kernels::Op::copy:
      return copy<T>;
  }
  return nullptr;
}

}  // namespace

Function function(kernels::Op op, DType dtype) noexcept {
  switch (dtype) {
    case DType::f32:
      return typed_function<float>(op);
    case DType::f64:
      return typed_function<double>(op);
    case DType::s32:
      return typed_function<std::int32_t>(op);
    case DType::s64:
      return typed_function<std::int64_t>(op);
    case DType::u32:
      return typed_function<std::uint32_t>(op);
    case DType::u8:
      return typed_function<std::uint8_t>(op);
  }
  return nullptr;
}

}  // namespace tessera::driver::cpu
