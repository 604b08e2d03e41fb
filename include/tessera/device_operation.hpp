#pragma once

#include <tessera/detail/operation_awaiter.hpp>
#include <tessera/detail/operation_inner.hpp>
#include <tessera/detail/operation_kernel.hpp>
#include <tessera/detail/operation_node.hpp>
#include <tessera/detail/operation_parts.hpp>
#include <tessera/device.hpp>
#include <tessera/error.hpp>
#include <tessera/params.hpp>
#include <tessera/shape.hpp>
#include <tessera/stream.hpp>
#include <tessera/tensor.hpp>
#include <tessera/tile.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

// The class of operations. Programs include operation.hpp, which has all that goes with it.
namespace tessera {

template <class T>
class DeviceOperation;
template <class T>
class Spawned;

namespace detail {

// What zip and kernels take: operations, and values that become operations.
template <class T>
struct AsOperation {
  using Value = std::remove_cvref_t<T>;
  static void set(Item<Value>& item, OperationNode& parent, T&& value) {
    constexpr bool can_be_used = std::is_copy_constructible_v<Value> || !std::is_lvalue_reference_v<T>;
    static_assert(can_be_used,
                  "an owned tensor can be used once: std::move(tensor) into the operation, or share it with "
                  "std::move(tensor).shared() to use it often");
    if constexpr (can_be_used) item.set(parent, Value(std::forward<T>(value)));
  }
};
template <class T>
  requires is_operation<std::remove_cvref_t<T>>
struct AsOperation<T> {
  using Result = typename std::remove_cvref_t<T>::value_type;
  using Value = Stored<Result>;
  static void set(Item<Value>& item, OperationNode& parent, T&& operation) {
    static_assert(
        !std::is_lvalue_reference_v<T>,
        "an operation can be used once: std::move(operation), or share its value with shared() to use it often");
    if constexpr (std::is_lvalue_reference_v<T>) {
      return;
    } else if constexpr (std::is_void_v<Result>) {
      using Nothing = TransformNode<void, Value, std::identity>;
      item.set(parent, TypedNodePtr<Value>(new Nothing(operation.take_node(), {})));
    } else {
      item.set(parent, operation.take_node());
    }
  }
};
template <Element T>
struct AsOperation<std::shared_ptr<Tensor<T>>&> : AsOperation<std::shared_ptr<const Tensor<T>>> {};
template <Element T>
struct AsOperation<const std::shared_ptr<Tensor<T>>&> : AsOperation<std::shared_ptr<const Tensor<T>>> {};
template <Element T>
struct AsOperation<std::shared_ptr<Tensor<T>>> : AsOperation<std::shared_ptr<const Tensor<T>>> {};
template <class T>
using OperationValue = typename AsOperation<T>::Value;

}  // namespace detail

// A kernel with a grid of its own: kernel.grid({8, 8}).
template <class... Param>
struct GridKernel {
  tile::KernelOf<Param...> kernel;
  Shape grid;

  // As the kernel itself is called.
  template <class... Op>
  auto operator()(Op&&... operations) const;
};

// The result of kernel(operations…): the tensor that the kernel writes. unzip() gives all of the values.
template <class Tuple, class... Param>
class KernelOperation;

// Work on a device that has not begun, with a value of type T in the end: a tensor, several in a std::tuple, a vector
// on the host, or nothing (void). It is used up by whatever makes another operation of it and by the doors, so those
// are called on temporaries or on std::move(operation); an operation that was used up throws Errc::invalid_argument.
//
// Which device: that of the stream given to a door, or on(device), or that of the first tensor in the operation, else
// Device::best(). A part of an operation that has an on(device) of its own runs there, unless a door was given a
// stream: of zip(x.on(a), y.on(b)) the first tensor is on a and the second on b. A kernel takes tensors of the device
// that it runs on: Errc::wrong_device names the other one otherwise, and copy_to(device) brings a tensor over. Which
// stream: see StreamPolicy. No choice can make a race: order comes from the buffers.
template <class T>
class [[nodiscard("an operation does nothing until it is awaited, spawned or synced")]] DeviceOperation {
 public:
  using value_type = T;

  // The doors.
  //
  // sync: runs it and gives its value; blocks. Throws what went wrong.
  T sync() && { return finish({}); }
  // The same on this stream, and on its device.
  T sync_on(const Stream& stream) && {
    expect_stream(stream);
    detail::RunOptions options;
    options.stream = stream;
    options.keeps_to_stream = true;
    return finish(std::move(options));
  }
  template <std::same_as<Device> D>
  T sync_on(const D&) && {
    static_assert(detail::never<D>, "sync_on() takes a stream: write std::move(operation).on(device).sync()");
  }
  // Starts it and returns at once; the stop token can stop it.
  Spawned<T> spawn(std::stop_token stop = {}) &&;
  Spawned<T> submit_on(const Stream& stream) &&;
  // co_await, in a coroutine of any type: goes on when the value is there, on the thread that ended the work; at once
  // if it was so little that it is done. In a Task the task's stop token stops it. If the coroutine is destroyed while
  // it waits, the operation is cancelled. (g++ 12 then destroys the captures of lambdas in the awaited expression
  // twice: name the operation first and co_await std::move(operation).)
  detail::RunAwaiter<T, detail::Anywhere> operator co_await() && { return {detail::NodePtr(take_node()), {}}; }
  // co_await operation.on(executor): goes on there, always. An executor is one of Asio's, has execute(f) or post(f), or
  // is called with f; one that cannot be copied is given as std::ref(executor). If it throws, the coroutine goes on on
  // the thread that ended the work, and gets that. A coroutine that is destroyed on the executor's thread while it
  // waits, or is on its way there, is not resumed.
  template <detail::Executor E>
  auto on(E executor) &&;
  template <detail::ExecutorToRefer E>
  auto on(E&) && {
    static_assert(detail::never<E>,
                  "this executor cannot be copied: write on(std::ref(executor)), or on(context.get_executor())");
  }

  // Where it runs, by itself or as a part of another operation; of on(a).on(b) the first counts.
  //
  //   auto [here, there] = zip(ones<float>(shape).on(cpu), ones<float>(shape).on(gpu)).sync();
  DeviceOperation on(const Device& device) && { return make<detail::OnDeviceNode<T>>(take_node(), device); }

  // Tensors. Tensor<T> to Partitioned<T> and back; reshape as that of Tensor.
  auto partition(const Shape& tile) && {
    static_assert(
        requires(T tensor) { std::move(tensor).partition(tile); }, "partition() is for a Tensor that is owned");
    return std::move(*this).transform([tile](T tensor) { return std::move(tensor).partition(tile); });
  }
  auto unpartition() && {
    static_assert(requires(T tensor) { std::move(tensor).unpartition(); }, "unpartition() is for a Partitioned tensor");
    return std::move(*this).transform([](T tensor) { return std::move(tensor).unpartition(); });
  }
  auto reshape(const Shape& shape) && {
    static_assert(requires(T tensor) { std::move(tensor).reshape(shape); }, "reshape() is for a Tensor that is owned");
    return std::move(*this).transform([shape](T tensor) { return std::move(tensor).reshape(shape); });
  }
  // The value for many readers: std::shared_ptr<const T>.
  auto shared() && {
    return std::move(*this).transform([](T value) { return std::make_shared<const T>(std::move(value)); });
  }
  // A copy of the elements for the host: std::vector<element>.
  auto to_host() && {
    static_assert(detail::TensorLike<T>, "to_host() is for a tensor: unzip() takes the tensors out of several values");
    using Element = detail::ElementOf<T>;
    return DeviceOperation<std::vector<Element>>(
        detail::TypedNodePtr<std::vector<Element>>(new detail::ToHostNode<T>(take_node())));
  }
  // A copy of the tensor on another device, through the host's memory.
  auto copy_to(const Device& device) && {
    static_assert(detail::TensorLike<T>, "copy_to() is for a tensor: unzip() takes the tensors out of several values");
    using Copy = Tensor<detail::ElementOf<T>>;
    return DeviceOperation<Copy>(
        detail::TypedNodePtr<Copy>(new detail::CopyToNode<detail::ElementOf<T>>(take_node(), device)));
  }

  // Runs a kernel on the values of a std::tuple, one for each of its parameters in their order, and passes them on: for
  // a tile::Out a tensor that is owned, whole or partitioned; for a tile::In any; for a tile::Scalar a number.
  template <class... Param>
  DeviceOperation apply(const tile::KernelOf<Param...>& kernel) && {
    return std::move(*this).template apply_on<Param...>(kernel, nullptr);
  }
  template <class... Param>
  DeviceOperation apply(const GridKernel<Param...>& kernel) && {
    return std::move(*this).template apply_on<Param...>(kernel.kernel, std::make_unique<const Shape>(kernel.grid));
  }
  // By its name: the first tensor is the output, the others are the inputs.
  DeviceOperation apply(std::string_view kernel, Params params = {}) && {
    using Call = detail::NamedCall<T>;
    return make<detail::ApplyNode<T, Call>>(take_node(), Call{std::string(kernel), std::move(params)});
  }

  // The values of a std::tuple as operations of their own, in a std::tuple. They share one execution: the first that is
  // run does the work for all; each carries the cause if it fails. The work is stopped if all of them are cancelled,
  // stopped or dropped; if only those that do it are, they end when it is done, and the others have their values. Any
  // thread.
  auto unzip() && {
    static_assert(detail::TupleLike<T>, "unzip() is for several values, as zip() gives them");
    detail::TypedNodePtr<T> source = take_node();
    detail::TypedNode<T>* node = source.get();
    return parts(std::make_shared<detail::SharedOperation>(std::move(source)), node,
                 std::make_index_sequence<std::tuple_size_v<T>>{});
  }

  // Goes on with the operation that the function makes of the value, on the same stream and in the same plan: a tensor
  // may not have been written yet, though all that uses it comes after that. The function should only compose.
  template <class F>
  auto then(F function) && {
    static_assert(detail::CallableWith<F, T>,
                  "the function of then() is called with the value of the operation, by value");
    if constexpr (detail::CallableWith<F, T>) {
      using Next = detail::ResultWith<F, T>;
      static_assert(detail::is_operation<Next>,
                    "the function of then() returns an operation: value(x), or map() for a host function");
      if constexpr (detail::is_operation<Next>) {
        using To = typename Next::value_type;
        return DeviceOperation<To>(
            detail::TypedNodePtr<To>(new detail::ThenNode<T, To, F>(take_node(), std::move(function))));
      }
    }
  }
  // What a function of the host makes of the value, when the device has made that. It runs on a thread of the device's,
  // or in sync() on the caller's, and may take its time. What it throws is the operation's failure.
  template <class F>
  auto map(F function) && {
    static_assert(detail::CallableWith<F, T>,
                  "the function of map() is called with the value of the operation, by value");
    if constexpr (detail::CallableWith<F, T>) {
      using To = detail::ResultWith<F, T>;
      return DeviceOperation<To>(
          detail::TypedNodePtr<To>(new detail::MapNode<T, To, F>(take_node(), std::move(function))));
    }
  }
  // Shows the value to a function and passes it on.
  template <class F>
  DeviceOperation inspect(F function) && {
    static_assert(detail::CanInspect<F, T>,
                  "the function of inspect() is called with the value of the operation, as const&");
    if constexpr (detail::CanInspect<F, T>) {
      return make<detail::InspectNode<T, F>>(take_node(), std::move(function));
    } else {
      return std::move(*this);
    }
  }

  // If it fails: the value, or the operation, that the function makes of the Error.
  template <class F>
  DeviceOperation or_else(F function) && {
    static_assert(detail::CallableWith<F, const Error&>, "the function of or_else() is called with a const Error&");
    if constexpr (detail::CallableWith<F, const Error&>) {
      constexpr bool fits = detail::takes_the_place<detail::ResultWith<F, const Error&>, T>;
      static_assert(fits,
                    "the function of or_else() returns a value of the operation's type, or an operation with one");
      if constexpr (fits) return make<detail::OrElseNode<T, F>>(take_node(), std::move(function));
    }
    return std::move(*this);
  }
  // If it fails, not by the caller's fault, again, up to so many times; a timeout() inside counts as a failure.
  // Functions in it are called again too. Each try has a copy of the owned tensors that were given in. If it has a part
  // of unzip(), what makes that is done again, once for all parts, unless it was done or begun elsewhere before. A Task
  // runs once: Errc::unsupported.
  DeviceOperation retry(int times) && {
    if (times < 0) throw Error(Errc::invalid_argument, "[retry] a number of times cannot be negative");
    return make<detail::RetryNode<T>>(take_node(), times);
  }
  // Cancelled with Errc::deadline_exceeded if it is not done in this time, counted from when it is run. More than 100
  // years are for ever.
  template <class Rep, class Period>
  DeviceOperation timeout(std::chrono::duration<Rep, Period> time) && {
    constexpr std::chrono::duration<double> for_ever = std::chrono::hours(24 * 365 * 100);
    using Time = std::chrono::nanoseconds;
    const bool has_end = std::chrono::duration<double>(time) < for_ever;
    return make<detail::TimeoutNode<T>>(take_node(), has_end ? std::chrono::ceil<Time>(time) : Time::max());
  }

  // The same operation: its type tells only its value in any case, so that it can be kept and returned as it is.
  DeviceOperation boxed() && { return std::move(*this); }

  DeviceOperation(DeviceOperation&&) noexcept = default;
  DeviceOperation& operator=(DeviceOperation&&) noexcept = default;

  // On an operation that is not moved: what to do instead, in one line.
  // NOLINTBEGIN(bugprone-macro-parentheses): a name and a list of parameters
#define TESSERA_MOVE_FIRST(member, parameters)                                                                         \
  template <class... Argument>                                                                                         \
  auto member parameters& {                                                                                            \
    static_assert(detail::never<Argument...>, "an operation is used up: write std::move(operation)." #member "(...)"); \
    return DeviceOperation(detail::TypedNodePtr<T>());                                                                 \
  }
  TESSERA_MOVE_FIRST(sync, (Argument && ...))
  TESSERA_MOVE_FIRST(sync_on, (Argument && ...))
  TESSERA_MOVE_FIRST(spawn, (Argument && ...))
  TESSERA_MOVE_FIRST(submit_on, (Argument && ...))
  TESSERA_MOVE_FIRST(on, (Argument && ...))
  TESSERA_MOVE_FIRST(unpartition, (Argument && ...))
  TESSERA_MOVE_FIRST(shared, (Argument && ...))
  TESSERA_MOVE_FIRST(to_host, (Argument && ...))
  TESSERA_MOVE_FIRST(copy_to, (Argument && ...))
  TESSERA_MOVE_FIRST(apply, (Argument && ...))
  TESSERA_MOVE_FIRST(unzip, (Argument && ...))
  TESSERA_MOVE_FIRST(then, (Argument && ...))
  TESSERA_MOVE_FIRST(map, (Argument && ...))
  TESSERA_MOVE_FIRST(inspect, (Argument && ...))
  TESSERA_MOVE_FIRST(or_else, (Argument && ...))
  TESSERA_MOVE_FIRST(retry, (Argument && ...))
  TESSERA_MOVE_FIRST(timeout, (Argument && ...))
  TESSERA_MOVE_FIRST(boxed, (Argument && ...))
  TESSERA_MOVE_FIRST(partition, (const Shape&))
  TESSERA_MOVE_FIRST(reshape, (const Shape&))
  TESSERA_MOVE_FIRST(apply, (std::string_view, const Params&))
#undef TESSERA_MOVE_FIRST
  // NOLINTEND(bugprone-macro-parentheses)
  template <class Value = T>
  T sync() const& {
    static_assert(detail::never<Value>, "an operation is used up, so it cannot be const: write std::move(operation)");
  }
  template <class Value = T>
  T sync_on(const Stream&) const& {
    static_assert(detail::never<Value>, "an operation is used up, so it cannot be const: write std::move(operation)");
  }
  template <class Value = T>
  Spawned<T> spawn(const std::stop_token& = {}) const& {
    static_assert(detail::never<Value>, "an operation is used up, so it cannot be const: write std::move(operation)");
  }
  template <class Value = T>
  detail::RunAwaiter<T, detail::Anywhere> operator co_await() const& {
    static_assert(detail::never<Value>, "an operation is used up by awaiting it: write co_await std::move(operation)");
    return {detail::NodePtr(), {}};
  }

  // For the library.
  explicit DeviceOperation(detail::TypedNodePtr<T> node) noexcept : node_(std::move(node)) {}
  detail::TypedNodePtr<T> take_node() {
    if (!node_) throw Error(Errc::invalid_argument, "the operation has been used already: it can be run once");
    return std::move(node_);
  }

 private:
  template <class U>
  friend class DeviceOperation;

  template <class Node, class... Argument>
  static DeviceOperation make(Argument&&... arguments) {
    return DeviceOperation(detail::TypedNodePtr<T>(new Node(std::forward<Argument>(arguments)...)));
  }
  template <class F>
  auto transform(F function) && {
    using To = std::invoke_result_t<F&, T>;
    return DeviceOperation<To>(
        detail::TypedNodePtr<To>(new detail::TransformNode<T, To, F>(take_node(), std::move(function))));
  }
  template <class... Param>
  DeviceOperation apply_on(const tile::KernelOf<Param...>& kernel, std::unique_ptr<const Shape> grid) && {
    constexpr bool fits =
        detail::check_arguments(static_cast<const tile::KernelOf<Param...>*>(nullptr), static_cast<const T*>(nullptr));
    if constexpr (fits) {
      using Call = detail::KernelCall<T, Param...>;
      return make<detail::ApplyNode<T, Call>>(take_node(), Call{detail::known(kernel), std::move(grid)});
    } else {
      return std::move(*this);
    }
  }
  template <std::size_t... I>
  static auto parts(const std::shared_ptr<detail::SharedOperation>& shared, detail::TypedNode<T>* source,
                    std::index_sequence<I...>) {
    return std::tuple<DeviceOperation<std::tuple_element_t<I, T>>...>(DeviceOperation<std::tuple_element_t<I, T>>(
        detail::TypedNodePtr<std::tuple_element_t<I, T>>(new detail::PartNode<T, I>(shared, source)))...);
  }
  static void expect_stream(const Stream& stream) {
    if (!stream) throw Error(Errc::invalid_argument, "an operation was given an empty stream handle");
  }
  T finish(detail::RunOptions options) {
    options.blocks = true;
    const detail::Run run = detail::Run::start(take_node(), std::move(options));
    run.wait();
    const detail::NodePtr root = run.take_root();  // what it holds goes now, also if it has failed
    run.throw_if_failed();
    if constexpr (!std::is_void_v<T>) return static_cast<detail::TypedNode<T>&>(*root).take();
  }

  detail::TypedNodePtr<T> node_;
};

namespace detail {

// An operation that goes on where the caller wants.
template <class T, class E>
class [[nodiscard]] OnExecutor {
 public:
  OnExecutor(NodePtr root, E executor) : root_(std::move(root)), executor_(std::move(executor)) {}
  RunAwaiter<T, E> operator co_await() && { return {std::move(root_), std::move(executor_)}; }

 private:
  NodePtr root_;
  E executor_;
};

}  // namespace detail

template <class T>
template <detail::Executor E>
auto DeviceOperation<T>::on(E executor) && {
  return detail::OnExecutor<T, E>(take_node(), std::move(executor));
}

}  // namespace tessera
