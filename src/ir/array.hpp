#pragma once

#include "ir/ir.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

// The interpreter's tiles: plain arrays in row-major order.
namespace tessera::ir {

using Dims = std::vector<std::int64_t>;

class Array {
 public:
  // The elements are uninitialised. Throws std::bad_alloc.
  Array(Type type, Dims dims);

  Type type() const noexcept { return type_; }
  const Dims& dims() const noexcept { return dims_; }
  std::int64_t size() const noexcept { return size_; }

  // T is the C++ type of with_type: a boolean is a bool.
  template <class T>
  T* data() noexcept {
    return reinterpret_cast<T*>(bytes_.get());
  }
  template <class T>
  const T* data() const noexcept {
    return reinterpret_cast<const T*>(bytes_.get());
  }

 private:
  Type type_;
  Dims dims_;
  std::int64_t size_;
  std::unique_ptr<std::byte[]> bytes_;
};

using Value = std::shared_ptr<const Array>;

// The distance in elements from one index to the next, along each axis.
Dims strides_of(std::span<const std::int64_t> dims);
// The same for an array that is broadcast to `dims`: 0 along repeated axes.
Dims repeated_strides(std::span<const std::int64_t> from, std::span<const std::int64_t> dims);

// Calls f(to, from) for each row (the innermost axis) of an array of `dims`: the offset of its first element in that
// array, and in another array with these strides.
template <class F>
void for_each_row(std::span<const std::int64_t> dims, std::span<const std::int64_t> strides, F&& f) {
  const std::int64_t length = dims.empty() ? 1 : dims.back();
  std::int64_t size = length;
  for (std::size_t axis = 0; axis + 1 < dims.size(); ++axis) size *= dims[axis];
  Dims at(dims.size(), 0);
  std::int64_t from = 0;
  for (std::int64_t to = 0; to < size; to += length) {
    f(to, from);
    for (std::size_t axis = dims.size() - (dims.empty() ? 0 : 1); axis-- > 0;) {
      from += strides[axis];
      if (++at[axis] < dims[axis]) break;
      from -= strides[axis] * dims[axis];
      at[axis] = 0;
    }
  }
}

// An array of `dims` whose element at a point is the element of `from` at the point * strides.
Value picked(const Array& from, Dims dims, std::span<const std::int64_t> strides);
// Broadcast to `dims`.
Value expanded(const Value& from, const Dims& dims);

// The offsets of a gather, added up axis by axis. An element outside reads as zero.
class Offsets {
 public:
  static constexpr std::int64_t outside = -(std::int64_t{1} << 56);  // less than any sum of offsets

  explicit Offsets(Dims dims);
  // `offsets` is an array of shape `from`, which is broadcast.
  void add(std::span<const std::int64_t> offsets, std::span<const std::int64_t> from);
  Value gather(Type type, const std::byte* elements) const;

 private:
  Dims dims_;
  Array sums_;
};

}  // namespace tessera::ir
