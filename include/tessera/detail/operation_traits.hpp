#pragma once

#include <tessera/detail/operation_evaluator.hpp>
#include <tessera/detail/operation_node.hpp>
#include <tessera/error.hpp>
#include <tessera/tensor.hpp>

#include <concepts>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

// What the types of functions and values say. Not for user code.
namespace tessera {

template <class T>
class DeviceOperation;

namespace detail {

// The result of a function of a value, or of no arguments for void.
template <class F, class T>
struct CallResult : std::invoke_result<F&, T> {};
template <class F>
struct CallResult<F, void> : std::invoke_result<F&> {};
template <class F, class T>
using ResultWith = std::remove_cvref_t<typename CallResult<F, T>::type>;

template <class F, class T>
concept CallableWith = requires { typename CallResult<F, T>::type; };
template <class F, class T>
concept CanInspect = CallableWith<F, std::conditional_t<std::is_void_v<T>, void, const Stored<T>&>>;
template <class T>
concept TupleLike = requires { std::tuple_size<T>::value; };

template <class T>
concept is_operation =
    requires { typename T::value_type; } && std::derived_from<T, DeviceOperation<typename T::value_type>>;

template <class T>
struct ResultOf {
  using Type = T;
};
template <is_operation T>
struct ResultOf<T> {
  using Type = typename T::value_type;
};
// Whether the result of a function, an operation or a value, can replace a value of type T.
template <class Returned, class T>
inline constexpr bool can_replace =
    is_operation<Returned> ? std::is_same_v<typename ResultOf<Returned>::Type, T>
                           : std::is_void_v<T> || std::is_constructible_v<Stored<T>, Stored<Returned>>;

// The element type of Tensor<T>, Partitioned<T> and std::shared_ptr<const Tensor<T>>; void for anything else.
template <class T>
struct TensorTraits {
  using Element = void;
  static constexpr bool is_owned = false, is_shared = false;
};
template <Element T>
struct TensorTraits<Tensor<T>> {
  using Element = T;
  static constexpr bool is_owned = true, is_shared = false;
};
template <Element T>
struct TensorTraits<Partitioned<T>> : TensorTraits<Tensor<T>> {};
template <Element T>
struct TensorTraits<std::shared_ptr<const Tensor<T>>> {
  using Element = T;
  static constexpr bool is_owned = false, is_shared = true;
};
template <class T>
using ElementOf = typename TensorTraits<T>::Element;
template <class T>
concept TensorLike = !std::is_void_v<ElementOf<T>>;

template <TensorLike T>
const TensorHandle& handle_of(const T& tensor) {
  if constexpr (TensorTraits<T>::is_shared) {
    if (!tensor) throw Error(Errc::invalid_argument, "a shared tensor is a null pointer");
    return tensor->handle();
  } else {
    return tensor.handle();
  }
}

// Calls f(handle) for each tensor in a value.
template <class T, class F>
void for_each_tensor(const T& value, F&& f) {
  if constexpr (TensorLike<T>) {
    f(handle_of(value));
  } else if constexpr (TupleLike<T>) {
    std::apply([&](const auto&... item) { (for_each_tensor(item, f), ...); }, value);
  }
}

// The device of a value's first tensor; null if it has none.
template <class T>
engine::DeviceState* device_of(const T& value) {
  engine::DeviceState* device = nullptr;
  for_each_tensor(value, [&](const TensorHandle& tensor) {
    if (!device) device = tensor.device_state();
  });
  return device;
}

// A second reference to a value, and to the same memory, for operations that are evaluated again.
template <class T>
T alias_of(const T& value) {
  if constexpr (std::is_copy_constructible_v<T>) {
    return value;
  } else if constexpr (requires {
                         typename T::element_type;
                         value.tile();
                       }) {
    return T(Tensor<typename T::element_type>(value.handle()), value.tile());
  } else if constexpr (TensorLike<T>) {
    return T(value.handle());
  } else if constexpr (TupleLike<T>) {
    return std::apply([](const auto&... item) { return T(alias_of(item)...); }, value);
  } else {
    throw Error(Errc::unsupported, "an operation that holds a non-copyable value cannot be retried");
  }
}

// A copy with memory of its own for owned tensors, which the receiver may write.
template <class T>
T copy_of(const T& value, Evaluator& evaluator) {
  if constexpr (TensorTraits<T>::is_owned) {
    using Element = ElementOf<T>;
    TensorHandle copy = evaluator.make(value.shape(), dtype_of<Element>);
    const TensorHandle* const input = &value.handle();
    Params none;
    evaluator.run({.name = "copy", .output = &copy, .inputs = {&input, 1}, .params = &none});
    if constexpr (requires { value.tile(); }) {
      return T(Tensor<Element>(std::move(copy)), value.tile());
    } else {
      return T(std::move(copy));
    }
  } else if constexpr (TupleLike<T>) {
    return std::apply([&](const auto&... item) { return T(copy_of(item, evaluator)...); }, value);
  } else {
    return alias_of(value);
  }
}

}  // namespace detail
}  // namespace tessera
