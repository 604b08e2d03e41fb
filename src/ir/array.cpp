#include "ir/array.hpp"

#include "ir/arithmetic.hpp"
#include "ir/extents.hpp"

#include <new>
#include <utility>

namespace tessera::ir {

namespace {

std::int64_t size_of(std::span<const std::int64_t> dims, std::int64_t element) {
  std::int64_t size = 1;
  bool is_too_large = false;
  for (const std::int64_t dim : dims) {
    if (dim == 0) return 0;
    is_too_large = is_too_large || dim > largest_tile_bytes / element / size;
    if (!is_too_large) size *= dim;
  }
  if (is_too_large) throw std::bad_alloc();
  return size;
}

}  // namespace

Array::Array(Type type, Dims dims)
    : type_(type),
      dims_(std::move(dims)),
      size_(size_of(dims_, bits_of(type) / 8)),
      bytes_(new std::byte[static_cast<std::size_t>(size_ * bits_of(type) / 8)]) {}

Dims strides_of(std::span<const std::int64_t> dims) {
  Dims strides(dims.size());
  std::int64_t stride = 1;
  for (std::size_t axis = dims.size(); axis-- > 0; stride *= dims[axis]) strides[axis] = stride;
  return strides;
}

Dims repeated_strides(std::span<const std::int64_t> from, std::span<const std::int64_t> dims) {
  const Dims own = strides_of(from);
  Dims strides(dims.size(), 0);
  const std::size_t missing = dims.size() - from.size();
  for (std::size_t axis = 0; axis < from.size(); ++axis) {
    if (from[axis] != 1) strides[missing + axis] = own[axis];
  }
  return strides;
}

Value picked(const Array& from, Dims dims, std::span<const std::int64_t> strides) {
  auto result = std::make_shared<Array>(from.type(), std::move(dims));
  const std::int64_t length = result->dims().empty() ? 1 : result->dims().back();
  const std::int64_t step = strides.empty() ? 1 : strides.back();
  with_type(from.type(), [&]<class T>(T) {
    const T* in = from.data<T>();
    T* out = result->data<T>();
    for_each_row(result->dims(), strides, [&](std::int64_t to, std::int64_t first) {
      for (std::int64_t i = 0; i < length; ++i) out[to + i] = in[first + i * step];
    });
  });
  return result;
}

Value expanded(const Value& from, const Dims& dims) {
  return from->dims() == dims ? from : picked(*from, dims, repeated_strides(from->dims(), dims));
}

Offsets::Offsets(Dims dims) : dims_(dims), sums_(Type::s64, std::move(dims)) {
  std::fill_n(sums_.data<std::int64_t>(), sums_.size(), 0);
}

void Offsets::add(std::span<const std::int64_t> offsets, std::span<const std::int64_t> from) {
  const Dims strides = repeated_strides(from, dims_);
  const std::int64_t length = dims_.empty() ? 1 : dims_.back();
  const std::int64_t step = strides.empty() ? 0 : strides.back();
  for_each_row(dims_, strides, [&](std::int64_t to, std::int64_t first) {
    std::int64_t* sums = sums_.data<std::int64_t>() + to;
    for (std::int64_t i = 0; i < length; ++i) sums[i] += offsets[static_cast<std::size_t>(first + i * step)];
  });
}

Value Offsets::gather(Type type, const std::byte* elements) const {
  auto result = std::make_shared<Array>(type, dims_);
  with_type(type, [&]<class T>(T) {
    const T* in = reinterpret_cast<const T*>(elements);
    const std::int64_t* at = sums_.data<std::int64_t>();
    T* out = result->data<T>();
    for (std::int64_t i = 0; i < sums_.size(); ++i) out[i] = at[i] < 0 ? T{} : in[at[i]];
  });
  return result;
}

}  // namespace tessera::ir
