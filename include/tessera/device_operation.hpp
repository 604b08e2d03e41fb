#pragma once

#include <tessera/detail/operation_awaiter.hpp>
#include <tessera/detail/operation_inner_nodes.hpp>
#include <tessera/detail/operation_kernel_nodes.hpp>
#include <tessera/detail/operation_node.hpp>
#include <tessera/detail/operation_nodes.hpp>
#include <tessera/detail/operation_run.hpp>
#include <tessera/detail/operation_traits.hpp>
#include <tessera/detail/operation_unzip.hpp>
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

// The operation class. Include operation.hpp, which has everything that goes with it.
namespace tessera {

template <class T>
class DeviceOperation;
template <class T>
class Spawned;

namespace detail {

// Arguments of zip and kernels: operations, and values that become operations.
template <class T>
struct AsOperation {
  using Value = std::remove_cvref_t<T>;
  static void set(OperationArgument<Value>& argument, OperationNode& parent, T&& value) {
    constexpr bool can_be_used = std::is_copy_constructible_v<Value> || !std::is_lvalue_reference_v<T>;
    static_assert(can_be_used,
                  "an owned tensor can be used once: pass std::move(tensor), or share it with "
                  "std::move(tensor).shared() to use it several times");
    if constexpr (can_be_used) argument.set(parent, Value(std::forward<T>(value)));
  }
};
template <class T>
  requires is_operation<std::remove_cvref_t<T>>
struct AsOperation<T> {
  using Result = typename std::remove_cvref_t<T>::value_type;
  using Value = Stored<Result>;
  static void set(OperationArgument<Value>& argument, OperationNode& parent, T&& operation) {
    static_assert(
        !std::is_lvalue_reference_v<T>,
        "an operation can be used once: pass std::move(operation), or share its value with shared() to use it several "
        "times");
    if constexpr (std::is_lvalue_reference_v<T>) {
      return;
    } else if constexpr (std::is_void_v<Result>) {
      using Nothing = TransformNode<void, Value, std::identity>;
      argument.set(parent, TypedNodePtr<Value>(new Nothing(operation.take_node(), {})));
    } else {
      argument.set(parent, operation.take_node());
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

// A kernel with an explicit grid: kernel.grid({8, 8}) splits the output into 8 x 8 tiles.
template <class... Param>
struct GridKernel {
  tile::KernelOf<Param...> kernel;
  Shape grid;

  // Calls the kernel with operations and values, like kernel(operations...).
  template <class... Op>
  auto operator()(Op&&... operations) const;
};

// The result of kernel(operations...): the tensor that the kernel writes. unzip() returns all of the arguments.
template <class Tuple, class... Param>
class KernelOperation;

// Work on a device that has not started, with a result of type T: a tensor, several tensors in a std::tuple, a vector
// on the host, or nothing (void). Composing, awaiting, spawning and syncing consume it, so those are called on
// temporaries or on std::move(operation). Using a consumed operation throws Errc::invalid_argument.
//
// Device: the device of the stream passed to sync_on or submit_on; else on(device); else the device of the first tensor
// in the operation; else Device::best(). A part with an on(device) of its own runs there, unless a stream was passed:
// in zip(x.on(a), y.on(b)) the first tensor is on a and the second on b. A kernel takes tensors of the device it runs
// on (Errc::wrong_device names the other device); copy_to(device) copies a tensor to another device.
//
// Stream: see StreamPolicy. No choice of stream can cause a race: order comes from the buffers.
//
// Failure: the earliest failure is thrown by whatever requests the value. Cancelling drops work that has not started;
// host functions that are running are not interrupted, and the operation finishes after them.
template <class T>
class [[nodiscard("an operation does nothing until it is awaited, spawned or synced")]] DeviceOperation {
 public:
  using value_type = T;

  // --- Running it ---

  // Runs the operation and returns its value. Blocks. Throws the operation's failure.
  //
  //   std::vector<float> host = ones<float>({4}).to_host().sync();
  T sync() && { return finish({}); }
  // The same on this stream and its device. Errc::invalid_argument for an empty stream.
  T sync_on(const Stream& stream) && {
    expect_stream(stream);
    detail::RunOptions options;
    options.stream = stream;
    options.is_stream_fixed = true;
    return finish(std::move(options));
  }
  template <std::same_as<Device> D>
  T sync_on(const D&) && {
    static_assert(detail::never<D>, "sync_on() takes a stream: write std::move(operation).on(device).sync()");
  }
  // Starts the operation and returns at once. The stop token cancels it.
  Spawned<T> spawn(std::stop_token stop = {}) &&;
  // The same on this stream and its device. Errc::invalid_argument for an empty stream.
  Spawned<T> submit_on(const Stream& stream) &&;
  // co_await, in a coroutine of any type: runs the operation and returns its value, or throws its failure. The
  // coroutine continues on the thread that finished the work, or without suspending if the work was tiny. In a Task,
  // the task's stop token cancels the operation. Destroying the coroutine while it waits cancels it too. (In that case
  // g++ 12 destroys the captures of lambdas in the awaited expression twice: name the operation first, then co_await
  // std::move(operation).)
  detail::OperationAwaiter<T, detail::Anywhere> operator co_await() && { return {detail::NodePtr(take_node()), {}}; }
  // co_await operation.on(executor): always continues on the executor. An executor is one of Asio's, has execute(f) or
  // post(f), or can be called with f; pass a non-copyable one as std::ref(executor). If the executor throws, the
  // coroutine continues on the thread that finished the work and co_await rethrows that. A coroutine that is destroyed
  // on the executor's thread before it continues is not resumed.
  template <detail::Executor E>
  auto on(E executor) &&;
  template <detail::NonCopyableExecutor E>
  auto on(E&) && {
    static_assert(detail::never<E>,
                  "this executor cannot be copied: write on(std::ref(executor)), or on(context.get_executor())");
  }

  // Chooses the device, for the operation by itself and as a part of another one. In on(a).on(b) the first wins.
  //
  //   auto [here, there] = zip(ones<float>(shape).on(cpu), ones<float>(shape).on(gpu)).sync();
  DeviceOperation on(const Device& device) && { return make<detail::OnDeviceNode<T>>(take_node(), device); }

  // --- Tensors ---

  // Splits the tensor into tiles for a kernel that writes it: Tensor<E> to Partitioned<E>. Fails as Tensor::partition
  // does. unpartition() is the inverse.
  auto partition(const Shape& tile) && {
    static_assert(requires(T tensor) { std::move(tensor).partition(tile); }, "partition() needs an owned Tensor");
    return std::move(*this).transform([tile](T tensor) { return std::move(tensor).partition(tile); });
  }
  auto unpartition() && {
    static_assert(requires(T tensor) { std::move(tensor).unpartition(); }, "unpartition() needs a Partitioned tensor");
    return std::move(*this).transform([](T tensor) { return std::move(tensor).unpartition(); });
  }
  // The same elements with another shape. Fails with Errc::shape_mismatch if the number of elements differs.
  auto reshape(const Shape& shape) && {
    static_assert(requires(T tensor) { std::move(tensor).reshape(shape); }, "reshape() needs an owned Tensor");
    return std::move(*this).transform([shape](T tensor) { return std::move(tensor).reshape(shape); });
  }
  // The value for many readers: std::shared_ptr<const T>.
  auto shared() && {
    return std::move(*this).transform([](T value) { return std::make_shared<const T>(std::move(value)); });
  }
  // Copies the elements to the host: std::vector<element>.
  auto to_host() && {
    static_assert(detail::TensorLike<T>, "to_host() needs a tensor: unzip() splits a tuple into its tensors");
    using Element = detail::ElementOf<T>;
    return DeviceOperation<std::vector<Element>>(
        detail::TypedNodePtr<std::vector<Element>>(new detail::ToHostNode<T>(take_node())));
  }
  // Copies the tensor to another device, through host memory: Tensor<element>.
  auto copy_to(const Device& device) && {
    static_assert(detail::TensorLike<T>, "copy_to() needs a tensor: unzip() splits a tuple into its tensors");
    using Copy = Tensor<detail::ElementOf<T>>;
    return DeviceOperation<Copy>(
        detail::TypedNodePtr<Copy>(new detail::CopyToNode<detail::ElementOf<T>>(take_node(), device)));
  }

  // --- Kernels ---

  // Calls a kernel with the values of a std::tuple, one for each parameter in order, and passes the tuple on. A
  // tile::Out takes an owned tensor, whole or partitioned; a tile::In any tensor; a tile::Scalar a number.
  //
  //   auto [z, x, y] = zip(zeros<float>({8}), ones<float>({8}), ones<float>({8})).apply(add).sync();
  template <class... Param>
  DeviceOperation apply(const tile::KernelOf<Param...>& kernel) && {
    return std::move(*this).template apply_on<Param...>(kernel, nullptr);
  }
  template <class... Param>
  DeviceOperation apply(const GridKernel<Param...>& kernel) && {
    return std::move(*this).template apply_on<Param...>(kernel.kernel, std::make_unique<const Shape>(kernel.grid));
  }
  // Calls a kernel by name: the first tensor is the output, the others are the inputs. Fails as Device::submit does.
  DeviceOperation apply(std::string_view kernel, Params params = {}) && {
    using Caller = detail::NamedKernelCaller<T>;
    return make<detail::ApplyNode<T, Caller>>(take_node(), Caller{std::string(kernel), std::move(params)});
  }

  // Splits a std::tuple of values into a std::tuple of operations. They share one evaluation: the first one to run does
  // the work for all, and each of them throws its failure. The work is cancelled only if all of them are cancelled or
  // dropped. If only those that run the work are cancelled, they finish when it is done, and the others get their
  // values. Any thread.
  auto unzip() && {
    static_assert(detail::TupleLike<T>, "unzip() needs a std::tuple of values, such as zip() returns");
    detail::TypedNodePtr<T> source = take_node();
    detail::TypedNode<T>* node = source.get();
    return parts(std::make_shared<detail::UnzipSource>(std::move(source)), node,
                 std::make_index_sequence<std::tuple_size_v<T>>{});
  }

  // --- Functions of the value ---

  // Continues with the operation that the function returns, on the same stream and in the same plan. The device may not
  // have written a tensor yet when the function gets it; everything that uses the tensor runs after that. The function
  // should only compose. An exception from it is the operation's failure.
  //
  //   auto y = ones<float>({8}).then([](Tensor<float> x) {
  //     return zip(empty<float>({8}), std::move(x)).apply("neg");
  //   });
  template <class F>
  auto then(F function) && {
    static_assert(detail::CallableWith<F, T>,
                  "the function passed to then() must take the operation's value, by value");
    if constexpr (detail::CallableWith<F, T>) {
      using Next = detail::ResultWith<F, T>;
      static_assert(detail::is_operation<Next>,
                    "the function passed to then() must return an operation: return value(x), or use map()");
      if constexpr (detail::is_operation<Next>) {
        using To = typename Next::value_type;
        return DeviceOperation<To>(
            detail::TypedNodePtr<To>(new detail::ThenNode<T, To, F>(take_node(), std::move(function))));
      }
    }
  }
  // The result of a host function of the value, called once the device has written it. It runs on a device thread, or
  // on the caller's in sync(), and may take its time. An exception from it is the operation's failure. Cancelling does
  // not interrupt it.
  //
  //   float first = ones<float>({8}).to_host().map([](std::vector<float> x) { return x[0]; }).sync();
  template <class F>
  auto map(F function) && {
    static_assert(detail::CallableWith<F, T>, "the function passed to map() must take the operation's value, by value");
    if constexpr (detail::CallableWith<F, T>) {
      using To = detail::ResultWith<F, T>;
      return DeviceOperation<To>(
          detail::TypedNodePtr<To>(new detail::MapNode<T, To, F>(take_node(), std::move(function))));
    }
  }
  // Calls a host function with a const reference to the value, as map() does, and passes the value on.
  template <class F>
  DeviceOperation inspect(F function) && {
    static_assert(detail::CanInspect<F, T>,
                  "the function passed to inspect() must take the operation's value, by const reference");
    if constexpr (detail::CanInspect<F, T>) {
      return make<detail::InspectNode<T, F>>(take_node(), std::move(function));
    } else {
      return std::move(*this);
    }
  }

  // --- Failures ---

  // If the operation fails, calls the function with the Error and continues with the value or operation it returns.
  //
  //   auto x = load().or_else([](const Error&) { return zeros<float>({8}); });
  template <class F>
  DeviceOperation or_else(F function) && {
    static_assert(detail::CallableWith<F, const Error&>, "the function passed to or_else() must take a const Error&");
    if constexpr (detail::CallableWith<F, const Error&>) {
      constexpr bool fits = detail::can_replace<detail::ResultWith<F, const Error&>, T>;
      static_assert(fits,
                    "the function passed to or_else() must return a value of the operation's type, or an operation "
                    "with one");
      if constexpr (fits) return make<detail::OrElseNode<T, F>>(take_node(), std::move(function));
    }
    return std::move(*this);
  }
  // If the operation fails, and not by the caller's fault, runs it again, up to `times` times, then throws the last
  // failure. A timeout() inside counts as a failure; cancelling ends the retries. Functions in the operation are called
  // again. Each attempt gets a copy of the owned tensors that were passed in. A part of unzip() evaluates its source
  // again, once for all parts, unless another operation began or finished that before. Errc::invalid_argument if
  // `times` is negative; Errc::unsupported when run if the operation holds a Task or a non-copyable value.
  DeviceOperation retry(int times) && {
    if (times < 0) throw Error(Errc::invalid_argument, "[retry] the number of retries must not be negative");
    return make<detail::RetryNode<T>>(take_node(), times);
  }
  // Cancels the operation with Errc::deadline_exceeded if it has not finished after this time, measured from its start.
  // What is running then stops at the next opportunity: see Command::cancel. More than 100 years means no limit.
  template <class Rep, class Period>
  DeviceOperation timeout(std::chrono::duration<Rep, Period> time) && {
    constexpr std::chrono::duration<double> unlimited = std::chrono::hours(24 * 365 * 100);
    using Time = std::chrono::nanoseconds;
    const bool is_limited = std::chrono::duration<double>(time) < unlimited;
    return make<detail::TimeoutNode<T>>(take_node(), is_limited ? std::chrono::ceil<Time>(time) : Time::max());
  }

  // The operation itself. Its type depends on nothing but its value type, so it can be stored and returned as it is.
  DeviceOperation boxed() && { return std::move(*this); }

  DeviceOperation(DeviceOperation&&) noexcept = default;
  DeviceOperation& operator=(DeviceOperation&&) noexcept = default;

  // Overloads for lvalues, which say in one line what to write instead.
  // NOLINTBEGIN(bugprone-macro-parentheses): a name and a list of parameters
#define TESSERA_MOVE_FIRST(member, parameters)                                                 \
  template <class... Argument>                                                                 \
  auto member parameters& {                                                                    \
    static_assert(detail::never<Argument...>,                                                  \
                  "this consumes the operation: write std::move(operation)." #member "(...)"); \
    return DeviceOperation(detail::TypedNodePtr<T>());                                         \
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
    static_assert(detail::never<Value>,
                  "this consumes the operation, which must not be const: write std::move(operation)");
  }
  template <class Value = T>
  T sync_on(const Stream&) const& {
    static_assert(detail::never<Value>,
                  "this consumes the operation, which must not be const: write std::move(operation)");
  }
  template <class Value = T>
  Spawned<T> spawn(const std::stop_token& = {}) const& {
    static_assert(detail::never<Value>,
                  "this consumes the operation, which must not be const: write std::move(operation)");
  }
  template <class Value = T>
  detail::OperationAwaiter<T, detail::Anywhere> operator co_await() const& {
    static_assert(detail::never<Value>, "co_await consumes the operation: write co_await std::move(operation)");
    return {detail::NodePtr(), {}};
  }

  // Not for user code.
  explicit DeviceOperation(detail::TypedNodePtr<T> node) noexcept : node_(std::move(node)) {}
  detail::TypedNodePtr<T> take_node() {
    if (!node_) throw Error(Errc::invalid_argument, "the operation was already consumed: it can be used only once");
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
      using Caller = detail::TileKernelCaller<T, Param...>;
      return make<detail::ApplyNode<T, Caller>>(take_node(), Caller{detail::known_kernel(kernel), std::move(grid)});
    } else {
      return std::move(*this);
    }
  }
  template <std::size_t... I>
  static auto parts(const std::shared_ptr<detail::UnzipSource>& shared, detail::TypedNode<T>* source,
                    std::index_sequence<I...>) {
    return std::tuple<DeviceOperation<std::tuple_element_t<I, T>>...>(DeviceOperation<std::tuple_element_t<I, T>>(
        detail::TypedNodePtr<std::tuple_element_t<I, T>>(new detail::UnzipNode<T, I>(shared, source)))...);
  }
  static void expect_stream(const Stream& stream) {
    if (!stream) throw Error(Errc::invalid_argument, "an empty stream was passed to an operation");
  }
  T finish(detail::RunOptions options) {
    options.blocks = true;
    const detail::OperationRun run = detail::OperationRun::start(take_node(), std::move(options));
    run.wait();
    const detail::NodePtr root = run.take_root();  // destroyed here, even after a failure
    run.throw_if_failed();
    if constexpr (!std::is_void_v<T>) return static_cast<detail::TypedNode<T>&>(*root).take();
  }

  detail::TypedNodePtr<T> node_;
};

namespace detail {

// An operation whose awaiter continues on an executor.
template <class T, class E>
class [[nodiscard]] OnExecutor {
 public:
  OnExecutor(NodePtr root, E executor) : root_(std::move(root)), executor_(std::move(executor)) {}
  OperationAwaiter<T, E> operator co_await() && { return {std::move(root_), std::move(executor_)}; }

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
