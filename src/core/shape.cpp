#include <tessera/shape.hpp>

#include "core/text.hpp"

namespace tessera {

Shape::Shape(std::span<const std::int64_t> dims) {
  if (dims.size() > static_cast<std::size_t>(max_rank)) {
    throw Error(Errc::invalid_argument, core::text("a shape has at most ", max_rank, " dimensions, got ", dims.size()));
  }
  rank_ = static_cast<int>(dims.size());
  for (std::size_t axis = 0; axis < dims.size(); ++axis) dims_[axis] = checked(dims[axis]);
  count_elements();
}

void Shape::throw_bytes(DType dtype) const {
  throw Error(Errc::overflow, core::text("the bytes of ", to_string(dtype, *this), " do not fit 63 bits"));
}

void Shape::throw_negative(std::int64_t dim) {
  throw Error(Errc::invalid_argument, core::text("a dimension cannot be negative, got ", dim));
}

void Shape::throw_overflow() {
  throw Error(Errc::overflow, "the number of elements of the shape does not fit 63 bits");
}

void Shape::throw_no_axis(int axis) const {
  throw Error(Errc::invalid_argument, core::text("there is no axis ", axis, " in a shape of rank ", rank_));
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::int64_t dim : shape) {
    if (text.size() > 1) text += ',';
    text += std::to_string(dim);
  }
  return text + ']';
}

std::string to_string(DType dtype, const Shape& shape) { return std::string(to_string(dtype)) + to_string(shape); }

}  // namespace tessera
