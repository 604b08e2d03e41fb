#pragma once

#include <tessera/detail/export.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace tessera {

// The element types of buffers.
enum class DType : std::uint8_t {
  f32,
  f64,
  s32,
  s64,
  u32,
  u8,
  // The same, as other libraries call them.
  float32 = f32,
  float64 = f64,
  int32 = s32,
  int64 = s64,
  uint32 = u32,
  uint8 = u8,
  i32 = s32,
  i64 = s64,
};

inline constexpr DType f32 = DType::f32;
inline constexpr DType f64 = DType::f64;
inline constexpr DType s32 = DType::s32;
inline constexpr DType s64 = DType::s64;
inline constexpr DType u32 = DType::u32;
inline constexpr DType u8 = DType::u8;

// As other libraries call them. The rest of those names is in DType alone: int64 would clash with OpenCV's.
inline constexpr DType float32 = DType::f32;
inline constexpr DType int32 = DType::s32;
inline constexpr DType i32 = DType::s32;

inline constexpr DType all_dtypes[] = {f32, f64, s32, s64, u32, u8};

// "f32" and so on. dtype_from_string is the inverse; it also takes the other names above ("float32", "i32"), and
// throws Errc::invalid_argument for any other text.
TESSERA_API std::string_view to_string(DType dtype) noexcept;
TESSERA_API DType dtype_from_string(std::string_view name);

// Bytes per element.
constexpr std::size_t size_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::f64:
    case DType::s64:
      return 8;
    case DType::u8:
      return 1;
    default:
      return 4;
  }
}

constexpr bool is_float(DType dtype) noexcept { return dtype == DType::f32 || dtype == DType::f64; }

// C++ types that a buffer can hold, and their DType.
template <class T>
concept Element =
    std::same_as<T, float> || std::same_as<T, double> ||
    (std::integral<T> && std::same_as<T, std::remove_cv_t<T>> && !std::same_as<T, bool> && !std::same_as<T, char> &&
     ((std::is_signed_v<T> && (sizeof(T) == 4 || sizeof(T) == 8)) ||
      (std::is_unsigned_v<T> && (sizeof(T) == 4 || sizeof(T) == 1))));

template <Element T>
inline constexpr DType dtype_of = std::same_as<T, float>    ? DType::f32
                                  : std::same_as<T, double> ? DType::f64
                                  : std::is_signed_v<T>     ? (sizeof(T) == 4 ? DType::s32 : DType::s64)
                                                            : (sizeof(T) == 4 ? DType::u32 : DType::u8);

}  // namespace tessera
