#pragma once

#include <tessera/detail/operation_inner.hpp>
#include <tessera/detail/operation_parts.hpp>
#include <tessera/device_operation.hpp>
#include <tessera/error.hpp>

#include <memory>
#include <tuple>
#include <utility>
#include <vector>

// One operation of several: for operation.hpp.
namespace tessera {

// Several operations as one, with a std::tuple of their values; what is no operation is value(it), and one without a
// value has std::monostate in its place. They may run at the same time.
template <class... Op>
auto zip(Op&&... operations) {
  using Tuple = std::tuple<detail::OperationValue<Op>...>;
  return DeviceOperation<Tuple>(
      detail::TypedNodePtr<Tuple>(new detail::ZipNode<detail::OperationValue<Op>...>(std::forward<Op>(operations)...)));
}

// The values of all, in a std::vector; void if they have none.
template <class T>
DeviceOperation<detail::AllOf<T>> when_all(std::vector<DeviceOperation<T>>&& operations) {
  auto node = std::make_unique<detail::AllNode<T>>();
  for (DeviceOperation<T>& operation : operations) node->add(operation.take_node());
  return DeviceOperation<detail::AllOf<T>>(detail::TypedNodePtr<detail::AllOf<T>>(node.release()));
}
template <class T>
DeviceOperation<detail::AllOf<T>> when_all(const std::vector<DeviceOperation<T>>&) {
  static_assert(detail::never<T>, "operations are used up: write when_all(std::move(operations))");
}

// The first that completes: its index and its value, in a std::pair; the index alone if they have none. The others are
// cancelled, and have stopped when this is over; one that fails is passed over, and if all do, the failure is that of
// the first in the list. Errc::invalid_argument for an empty list.
template <class T>
DeviceOperation<detail::FirstOf<T>> when_any(std::vector<DeviceOperation<T>>&& operations) {
  if (operations.empty()) throw Error(Errc::invalid_argument, "[when_any] got no operations");
  auto node = std::make_unique<detail::AnyNode<T>>();
  for (DeviceOperation<T>& operation : operations) node->add(operation.take_node());
  using First = detail::FirstOf<T>;
  return DeviceOperation<First>(detail::TypedNodePtr<First>(node.release()));
}
template <class T>
DeviceOperation<detail::FirstOf<T>> when_any(const std::vector<DeviceOperation<T>>&) {
  static_assert(detail::never<T>, "operations are used up: write when_any(std::move(operations))");
}

}  // namespace tessera
