#pragma once

#include <tessera/detail/operation_inner_nodes.hpp>
#include <tessera/detail/operation_nodes.hpp>
#include <tessera/device_operation.hpp>
#include <tessera/error.hpp>

#include <memory>
#include <tuple>
#include <utility>
#include <vector>

// Several operations as one. Included by operation.hpp.
namespace tessera {

// A std::tuple of the values of several operations, which may run at the same time. An argument that is not an
// operation is taken as value(argument); an operation without a value contributes std::monostate. Fails with the
// earliest failure of any of them; work that has not started by then is dropped.
//
//   auto [z, x] = zip(zeros<float>({8}), std::move(tensor)).apply("relu").unzip();
template <class... Op>
auto zip(Op&&... operations) {
  using Tuple = std::tuple<detail::OperationValue<Op>...>;
  return DeviceOperation<Tuple>(
      detail::TypedNodePtr<Tuple>(new detail::ZipNode<detail::OperationValue<Op>...>(std::forward<Op>(operations)...)));
}

// A std::vector of the values of all operations, or void if they have none. Fails as zip does.
//
//   std::vector<std::vector<float>> all = when_all(std::move(operations)).sync();
template <class T>
DeviceOperation<detail::WhenAllResult<T>> when_all(std::vector<DeviceOperation<T>>&& operations) {
  auto node = std::make_unique<detail::WhenAllNode<T>>();
  for (DeviceOperation<T>& operation : operations) node->add(operation.take_node());
  return DeviceOperation<detail::WhenAllResult<T>>(detail::TypedNodePtr<detail::WhenAllResult<T>>(node.release()));
}
template <class T>
DeviceOperation<detail::WhenAllResult<T>> when_all(const std::vector<DeviceOperation<T>>&) {
  static_assert(detail::never<T>, "when_all() consumes the operations: write when_all(std::move(operations))");
}

// The first operation that completes: a std::pair of its index and value, or just the index if it has no value. The
// others are cancelled, and have stopped when this finishes. Failures are ignored unless all operations fail; then the
// failure is that of operation 0. Errc::invalid_argument for an empty list.
//
//   auto [index, value] = when_any(std::move(operations)).sync();
template <class T>
DeviceOperation<detail::WhenAnyResult<T>> when_any(std::vector<DeviceOperation<T>>&& operations) {
  if (operations.empty()) throw Error(Errc::invalid_argument, "[when_any] the list of operations is empty");
  auto node = std::make_unique<detail::WhenAnyNode<T>>();
  for (DeviceOperation<T>& operation : operations) node->add(operation.take_node());
  using First = detail::WhenAnyResult<T>;
  return DeviceOperation<First>(detail::TypedNodePtr<First>(node.release()));
}
template <class T>
DeviceOperation<detail::WhenAnyResult<T>> when_any(const std::vector<DeviceOperation<T>>&) {
  static_assert(detail::never<T>, "when_any() consumes the operations: write when_any(std::move(operations))");
}

}  // namespace tessera
