#pragma once

#include <tessera/detail/export.hpp>
#include <tessera/dtype.hpp>
#include <tessera/error.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>

namespace tessera {

template <class T>
concept Dimension = std::integral<T> && !std::same_as<T, bool>;

// The extents of a buffer: rank 0 (one element) to 8; the last axis is contiguous. Extents may be 0. Throws
// Errc::invalid_argument for a negative extent, and Errc::overflow if the number of elements does not fit in 63 bits.
//
//   Shape{480, 640, 4}   Shape{}   Shape(std::span(dims))
class TESSERA_API Shape {
 public:
  static constexpr int max_rank = 8;

  constexpr Shape() noexcept = default;

  // A pack instead of std::initializer_list, which g++ 12 refuses inside co_await expressions.
  template <Dimension... D>
    requires(sizeof...(D) >= 1 && sizeof...(D) <= max_rank)
  constexpr Shape(D... dims)  // NOLINT(google-explicit-constructor): {3, 4} is a shape
      : rank_(sizeof...(D)) {
    int axis = 0;
    ((dims_[static_cast<std::size_t>(axis++)] = checked(dims)), ...);
    count_elements();
  }

  explicit Shape(std::span<const std::int64_t> dims);

  constexpr int rank() const noexcept { return rank_; }
  // The number of elements: the product of the extents, 1 for rank 0.
  constexpr std::int64_t elements() const noexcept { return elements_; }
  // The bytes of a buffer of this shape; Errc::overflow if the number does not fit.
  constexpr std::size_t size_bytes(DType dtype) const {
    std::int64_t bytes = 0;
    if (__builtin_mul_overflow(elements_, static_cast<std::int64_t>(size_of(dtype)), &bytes)) [[unlikely]]
      throw_bytes(dtype);
    return static_cast<std::size_t>(bytes);
  }

  // The extent of an axis; Errc::invalid_argument if the axis does not exist.
  constexpr std::int64_t operator[](int axis) const {
    if (axis < 0 || axis >= rank_) [[unlikely]]
      throw_no_axis(axis);
    return dims_[static_cast<std::size_t>(axis)];
  }

  constexpr const std::int64_t* begin() const noexcept { return dims_.data(); }
  constexpr const std::int64_t* end() const noexcept { return dims_.data() + rank_; }

  friend constexpr bool operator==(const Shape& a, const Shape& b) noexcept {
    if (a.rank_ != b.rank_) return false;
    for (std::size_t axis = 0; axis < static_cast<std::size_t>(a.rank_); ++axis) {
      if (a.dims_[axis] != b.dims_[axis]) return false;
    }
    return true;
  }

 private:
  template <Dimension D>
  static constexpr std::int64_t checked(D dim) {
    if constexpr (std::is_signed_v<D>) {
      if (dim < 0) throw_negative(dim);
    } else if constexpr (sizeof(D) >= sizeof(std::int64_t)) {
      if (dim > static_cast<D>(std::numeric_limits<std::int64_t>::max())) throw_overflow();
    }
    return static_cast<std::int64_t>(dim);
  }

  constexpr void count_elements() {
    // An extent of 0 counts as 1 here: the strides of the other axes must fit too.
    std::int64_t product = 1;
    bool empty = false;
    for (std::size_t axis = 0; axis < static_cast<std::size_t>(rank_); ++axis) {
      if (dims_[axis] == 0) {
        empty = true;
      } else if (__builtin_mul_overflow(product, dims_[axis], &product)) {
        throw_overflow();
      }
    }
    elements_ = empty ? 0 : product;
  }

  [[noreturn]] static void throw_negative(std::int64_t dim);
  [[noreturn]] static void throw_overflow();
  [[noreturn]] void throw_no_axis(int axis) const;
  [[noreturn]] void throw_bytes(DType dtype) const;

  std::array<std::int64_t, max_rank> dims_{};
  std::int64_t elements_ = 1;
  int rank_ = 0;
};

// "[480,640,4]"; "[]" for rank 0. With a type in front: "u8[480,640,4]".
TESSERA_API std::string to_string(const Shape& shape);
TESSERA_API std::string to_string(DType dtype, const Shape& shape);

}  // namespace tessera
