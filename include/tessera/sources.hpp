#pragma once

#include <tessera/detail/export.hpp>
#include <tessera/device_operation.hpp>
#include <tessera/shape.hpp>
#include <tessera/tensor.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

// Where operations begin: for operation.hpp.
namespace tessera {

// Sources. Each is a tensor that the device makes: of ones, zeros, a value, any contents.
template <Element T>
DeviceOperation<Tensor<T>> full(const Shape& shape, T value) {
  return DeviceOperation<Tensor<T>>(
      detail::TypedNodePtr<Tensor<T>>(new detail::SourceNode<T>("fill", shape, {{"value", value}})));
}
template <Element T>
DeviceOperation<Tensor<T>> zeros(const Shape& shape) {
  return full<T>(shape, T{0});
}
template <Element T>
DeviceOperation<Tensor<T>> ones(const Shape& shape) {
  return full<T>(shape, T{1});
}
template <Element T>
DeviceOperation<Tensor<T>> empty(const Shape& shape) {
  return DeviceOperation<Tensor<T>>(detail::TypedNodePtr<Tensor<T>>(new detail::EmptyNode<T>(shape)));
}
// start, start + step, … : so many.
template <Element T>
DeviceOperation<Tensor<T>> arange(std::int64_t count, T start = T{0}, T step = T{1}) {
  return DeviceOperation<Tensor<T>>(detail::TypedNodePtr<Tensor<T>>(
      new detail::SourceNode<T>("arange", Shape(count), {{"start", start}, {"step", step}})));
}

namespace detail {
TESSERA_API std::int64_t next_seed() noexcept;
}

// Random numbers: the same for the same seed, on every device. Without one each operation has a new seed, counted from
// the start of the program, so that a program that does the same gets the same.
template <Element T>
  requires std::floating_point<T>
DeviceOperation<Tensor<T>> randn(const Shape& shape, T mean = T{0}, T deviation = T{1},
                                 std::int64_t seed = detail::next_seed()) {
  return DeviceOperation<Tensor<T>>(detail::TypedNodePtr<Tensor<T>>(
      new detail::SourceNode<T>("randn", shape, {{"seed", seed}, {"mean", mean}, {"std", deviation}})));
}
template <Element T>
  requires std::floating_point<T>
DeviceOperation<Tensor<T>> uniform(const Shape& shape, T least = T{0}, T end = T{1},
                                   std::int64_t seed = detail::next_seed()) {
  return DeviceOperation<Tensor<T>>(detail::TypedNodePtr<Tensor<T>>(
      new detail::SourceNode<T>("uniform", shape, {{"seed", seed}, {"min", least}, {"max", end}})));
}

namespace detail {
TESSERA_API void check_value_count(std::size_t count, const Shape& shape);
}

// With values of the host's, which are copied when the operation runs. Errc::count_mismatch if the shape has another
// number of elements; without a shape it is a vector.
template <Element T>
DeviceOperation<Tensor<T>> from_host(std::vector<T> values, const Shape& shape) {
  detail::check_value_count(values.size(), shape);
  return DeviceOperation<Tensor<T>>(
      detail::TypedNodePtr<Tensor<T>>(new detail::FromHostNode<T>(std::move(values), shape)));
}
template <Element T>
DeviceOperation<Tensor<T>> from_host(std::vector<T> values) {
  const Shape shape(values.size());
  return from_host(std::move(values), shape);
}

// An operation that has its value: a tensor, a shared one, a number, anything.
template <class T>
DeviceOperation<detail::OperationValue<T>> value(T&& given) {
  static_assert(!detail::is_operation<std::remove_cvref_t<T>>, "it is an operation already");
  using Given = detail::OperationValue<T>;
  return DeviceOperation<Given>(
      detail::TypedNodePtr<Given>(new detail::ValueNode<Given>(std::in_place, std::forward<T>(given))));
}

}  // namespace tessera
