#pragma once

#include <tessera/detail/export.hpp>
#include <tessera/detail/operation_nodes.hpp>
#include <tessera/device_operation.hpp>
#include <tessera/shape.hpp>
#include <tessera/tensor.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

// Operations that depend on no other operation. Included by operation.hpp.
//
// The memory is allocated when the operation runs: it fails with Errc::out_of_memory if there is none.
namespace tessera {

// A tensor filled with `value`.
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
// A tensor with undefined contents, for a kernel to overwrite.
template <Element T>
DeviceOperation<Tensor<T>> empty(const Shape& shape) {
  return DeviceOperation<Tensor<T>>(detail::TypedNodePtr<Tensor<T>>(new detail::EmptyNode<T>(shape)));
}
// `count` elements: start, start + step, start + 2 * step, ...
template <Element T>
DeviceOperation<Tensor<T>> arange(std::int64_t count, T start = T{0}, T step = T{1}) {
  return DeviceOperation<Tensor<T>>(detail::TypedNodePtr<Tensor<T>>(
      new detail::SourceNode<T>("arange", Shape(count), {{"start", start}, {"step", step}})));
}

namespace detail {
TESSERA_API std::int64_t next_seed() noexcept;
}

// Normally distributed random numbers. A seed determines them, on every device. Without one, each operation gets a new
// seed, counted from the start of the process, so that repeating a program repeats its numbers.
template <Element T>
  requires std::floating_point<T>
DeviceOperation<Tensor<T>> randn(const Shape& shape, T mean = T{0}, T deviation = T{1},
                                 std::int64_t seed = detail::next_seed()) {
  return DeviceOperation<Tensor<T>>(detail::TypedNodePtr<Tensor<T>>(
      new detail::SourceNode<T>("randn", shape, {{"seed", seed}, {"mean", mean}, {"std", deviation}})));
}
// Uniformly distributed random numbers in [min, max), with seeds as for randn.
template <Element T>
  requires std::floating_point<T>
DeviceOperation<Tensor<T>> uniform(const Shape& shape, T min = T{0}, T max = T{1},
                                   std::int64_t seed = detail::next_seed()) {
  return DeviceOperation<Tensor<T>>(detail::TypedNodePtr<Tensor<T>>(
      new detail::SourceNode<T>("uniform", shape, {{"seed", seed}, {"min", min}, {"max", max}})));
}

namespace detail {
TESSERA_API void check_value_count(std::size_t count, const Shape& shape);
}

// A tensor with a copy of host values, made when the operation runs. Without a shape it has one axis. Throws
// Errc::count_mismatch if the shape has another number of elements.
//
//   auto x = from_host<float>({1, 2, 3, 4}, {2, 2});
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

// An operation whose value exists already: a tensor, a shared tensor, a number, any other value.
//
//   std::vector<float> host = value(std::move(tensor)).to_host().sync();
template <class T>
DeviceOperation<detail::OperationValue<T>> value(T&& given) {
  static_assert(!detail::is_operation<std::remove_cvref_t<T>>, "value() takes a value: this is an operation already");
  using Given = detail::OperationValue<T>;
  return DeviceOperation<Given>(
      detail::TypedNodePtr<Given>(new detail::ValueNode<Given>(std::in_place, std::forward<T>(given))));
}

}  // namespace tessera
