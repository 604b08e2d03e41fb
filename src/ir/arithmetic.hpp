#pragma once

#include "ir/ir.hpp"

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

// The operations on single elements, as ir.hpp describes them. A boolean is a C++ bool.
namespace tessera::ir {

template <class T>
concept Float = std::floating_point<T>;
template <class T>
concept Integer = std::integral<T> && !std::same_as<T, bool>;

// At most this many floats are added up in their own type: a single sum of millions would lose the last ones. The sums
// of such blocks are added up in f64.
inline constexpr std::int64_t sum_block = 128;

// Calls f with an element of the C++ type: with_type(type, [](auto zero) { using T = decltype(zero); … }).
template <class F>
auto with_type(Type type, F&& f) {
  switch (type) {
    case Type::f32:
      return f(float{});
    case Type::f64:
      return f(double{});
    case Type::s32:
      return f(std::int32_t{});
    case Type::s64:
      return f(std::int64_t{});
    case Type::u32:
      return f(std::uint32_t{});
    case Type::u8:
      return f(std::uint8_t{});
    default:
      return f(bool{});
  }
}

namespace arithmetic {

// Integers are computed modulo 2^64, whose lower bits are right for every narrower type.
inline std::uint64_t wide(auto a) { return static_cast<std::uint64_t>(a); }

template <class T>
T add(T a, T b) {
  if constexpr (Float<T>)
    return a + b;
  else
    return static_cast<T>(wide(a) + wide(b));
}
template <class T>
T sub(T a, T b) {
  if constexpr (Float<T>)
    return a - b;
  else
    return static_cast<T>(wide(a) - wide(b));
}
template <class T>
T mul(T a, T b) {
  if constexpr (Float<T>)
    return a * b;
  else
    return static_cast<T>(wide(a) * wide(b));
}
template <class T>
T div(T a, T b) {
  if constexpr (Float<T>) return a / b;
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return sub<T>(0, a);
  }
  return static_cast<T>(a / b);
}
template <class T>
T rem(T a, T b) {
  if constexpr (Float<T>) {
    return std::fmod(a, b);
  } else {
    if (b == 0) return 0;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;
    }
    return static_cast<T>(a % b);
  }
}
template <class T>
T min(T a, T b) {
  return a < b || a != a ? a : b;  // NOLINT(misc-redundant-expression): NaN
}
template <class T>
T max(T a, T b) {
  return a > b || a != a ? a : b;  // NOLINT(misc-redundant-expression): NaN
}
template <class T>
T pow(T x, T y) {
  if constexpr (Float<T>) {
    return std::pow(x, y);
  } else {
    if constexpr (std::is_signed_v<T>) {
      if (y < 0) return x == 1 ? T{1} : x == -1 ? static_cast<T>(y % 2 == 0 ? 1 : -1) : T{0};
    }
    T result = 1;
    for (; y != 0; y = static_cast<T>(y >> 1), x = mul(x, x)) {
      if (y & 1) result = mul(result, x);
    }
    return result;
  }
}
template <Integer T>
int shift_amount(T b) {
  return static_cast<int>(wide(b) & (sizeof(T) * 8 - 1));
}

// Clamps to the range of To; NaN becomes 0.
template <class To, class From>
To saturate(From x) {
  if constexpr (std::same_as<To, bool>) {
    return x != From{};
  } else if constexpr (Float<To> || std::same_as<From, bool>) {
    return static_cast<To>(x);
  } else if constexpr (Float<From>) {
    const From end = std::ldexp(From{1}, std::numeric_limits<To>::digits);  // the greatest number + 1, exactly
    if (x != x) return 0;                                                   // NOLINT(misc-redundant-expression): NaN
    if (x >= end) return std::numeric_limits<To>::max();
    if (x <= (std::is_signed_v<To> ? -end : From{-1})) return std::numeric_limits<To>::min();
    return static_cast<To>(x);
  } else {
    if (std::cmp_less(x, std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    if (std::cmp_greater(x, std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    return static_cast<To>(x);
  }
}

}  // namespace arithmetic

// Calls f with the function of a code from neg to bit_not, if it exists for T.
template <class T, class F>
void with_unary(Code code, F&& f) {
  if constexpr (std::same_as<T, bool>) {
    f([](T a) { return !a; });
  } else if constexpr (Float<T>) {
    switch (code) {
      case Code::neg:
        return f([](T a) { return -a; });
      case Code::abs:
        return f([](T a) { return std::abs(a); });
      case Code::exp:
        return f([](T a) { return std::exp(a); });
      case Code::log:
        return f([](T a) { return std::log(a); });
      case Code::sqrt:
        return f([](T a) { return std::sqrt(a); });
      case Code::rsqrt:
        return f([](T a) { return T{1} / std::sqrt(a); });
      case Code::sin:
        return f([](T a) { return std::sin(a); });
      case Code::cos:
        return f([](T a) { return std::cos(a); });
      case Code::tanh:
        return f([](T a) { return std::tanh(a); });
      case Code::erf:
        return f([](T a) { return std::erf(a); });
      case Code::floor:
        return f([](T a) { return std::floor(a); });
      case Code::ceil:
        return f([](T a) { return std::ceil(a); });
      default:
        return f([](T a) { return std::round(a); });
    }
  } else {
    switch (code) {
      case Code::neg:
        return f([](T a) { return arithmetic::sub<T>(0, a); });
      case Code::abs:
        return f([](T a) { return a < T{0} ? arithmetic::sub<T>(0, a) : a; });
      default:
        return f([](T a) { return static_cast<T>(~a); });
    }
  }
}

// The same for codes from bit_and to shr.
template <class T, class F>
void with_bits(Code code, F&& f) {
  switch (code) {
    case Code::bit_and:
      return f([](T a, T b) { return static_cast<T>(a & b); });
    case Code::bit_or:
      return f([](T a, T b) { return static_cast<T>(a | b); });
    case Code::bit_xor:
      return f([](T a, T b) { return static_cast<T>(a ^ b); });
    case Code::shl:
      if constexpr (Integer<T>)
        f([](T a, T b) { return static_cast<T>(arithmetic::wide(a) << arithmetic::shift_amount(b)); });
      return;
    default:
      if constexpr (Integer<T>) f([](T a, T b) { return static_cast<T>(a >> arithmetic::shift_amount(b)); });
      return;
  }
}

// The same for codes from eq to ge, which return a bool.
template <class T, class F>
void with_comparison(Code code, F&& f) {
  switch (code) {
    case Code::eq:
      return f([](T a, T b) { return a == b; });
    case Code::ne:
      return f([](T a, T b) { return a != b; });
    case Code::lt:
      return f([](T a, T b) { return a < b; });
    case Code::le:
      return f([](T a, T b) { return a <= b; });
    case Code::gt:
      return f([](T a, T b) { return a > b; });
    default:
      return f([](T a, T b) { return a >= b; });
  }
}

// The same for codes from add to ge.
template <class T, class F>
void with_binary(Code code, F&& f) {
  if (code >= Code::eq) return with_comparison<T>(code, f);
  if constexpr (!Float<T>) {
    if (code >= Code::bit_and) return with_bits<T>(code, f);
  }
  if constexpr (!std::same_as<T, bool>) {
    switch (code) {
      case Code::add:
        return f([](T a, T b) { return arithmetic::add(a, b); });
      case Code::sub:
        return f([](T a, T b) { return arithmetic::sub(a, b); });
      case Code::mul:
        return f([](T a, T b) { return arithmetic::mul(a, b); });
      case Code::div:
        return f([](T a, T b) { return arithmetic::div(a, b); });
      case Code::rem:
        return f([](T a, T b) { return arithmetic::rem(a, b); });
      case Code::min:
        return f([](T a, T b) { return arithmetic::min(a, b); });
      case Code::max:
        return f([](T a, T b) { return arithmetic::max(a, b); });
      default:
        return f([](T a, T b) { return arithmetic::pow(a, b); });
    }
  }
}

}  // namespace tessera::ir
