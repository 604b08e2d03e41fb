#pragma once

#include <tessera/combinators.hpp>
#include <tessera/detail/operation_kernel_nodes.hpp>
#include <tessera/device_operation.hpp>
#include <tessera/shape.hpp>
#include <tessera/tile.hpp>

#include <memory>
#include <tuple>
#include <utility>

// Kernels as functions of operations: kernel(operations...). Included by operation.hpp.
namespace tessera {

// The result of kernel(operations...): an operation whose value is the tensor that the kernel writes. Arguments are
// operations, tasks and values, one for each parameter, as for DeviceOperation::apply.
//
//   auto z = add(zeros<float>({8}), ones<float>({8}), ones<float>({8})).to_host().sync();
template <class Tuple, class... Param>
class [[nodiscard]] KernelOperation
    : public DeviceOperation<std::tuple_element_t<detail::output_index<Param...>(), Tuple>> {
 public:
  using Output = std::tuple_element_t<detail::output_index<Param...>(), Tuple>;
  using DeviceOperation<Output>::DeviceOperation;

  // All arguments of the kernel, as DeviceOperation::unzip returns them.
  auto unzip() && {
    const detail::TypedNodePtr<Output> node = this->take_node();
    return DeviceOperation<Tuple>(static_cast<detail::KernelNode<Tuple, Param...>&>(*node).take_all()).unzip();
  }
  template <class Operation = KernelOperation>
  auto unzip() & {
    static_assert(detail::never<Operation>, "this consumes the operation: write std::move(operation).unzip(...)");
  }
};

namespace detail {

template <class... Param, class... Op>
auto call_kernel(const tile::KernelOf<Param...>& kernel, std::unique_ptr<const Shape> grid, Op&&... operations) {
  using Tuple = std::tuple<OperationValue<Op>...>;
  constexpr bool fits =
      check_arguments(static_cast<const tile::KernelOf<Param...>*>(nullptr), static_cast<const Tuple*>(nullptr));
  if constexpr (fits) {
    using Called = KernelOperation<Tuple, Param...>;
    return Called(TypedNodePtr<typename Called::Output>(
        new KernelNode<Tuple, Param...>(known_kernel(kernel), std::move(grid), std::forward<Op>(operations)...)));
  } else {
    return zip(std::forward<Op>(operations)...);
  }
}

}  // namespace detail

template <class... Param>
template <class... Op>
auto GridKernel<Param...>::operator()(Op&&... operations) const {
  return detail::call_kernel(kernel, std::make_unique<const Shape>(grid), std::forward<Op>(operations)...);
}

template <class... Param>
GridKernel<Param...> tile::KernelOf<Param...>::grid(const Shape& counts) const {
  return {*this, counts};
}
template <class... Param>
template <class... Op>
auto tile::KernelOf<Param...>::operator()(Op&&... operations) const {
  return tessera::detail::call_kernel(*this, nullptr, std::forward<Op>(operations)...);
}

}  // namespace tessera
