#pragma once

#include <tessera/command.hpp>
#include <tessera/detail/operation_awaiter.hpp>
#include <tessera/detail/operation_node.hpp>
#include <tessera/detail/operation_run.hpp>
#include <tessera/device_operation.hpp>
#include <tessera/stream.hpp>

#include <chrono>
#include <stop_token>
#include <type_traits>
#include <utility>

namespace tessera {

// An operation that runs in the background. Dropping the handle does not cancel it. A handle may be used by one thread
// at a time.
template <class T>
class Spawned {
 public:
  // An empty handle; using it throws Errc::invalid_argument.
  Spawned() noexcept = default;
  Spawned(Spawned&&) noexcept = default;
  Spawned& operator=(Spawned&&) noexcept = default;

  // Status::running, completed, failed or cancelled. Never blocks.
  Status poll() const { return run_.poll(); }
  // Blocks until the operation finishes. Returns a reference to its value or throws its failure.
  // std::move(spawned).wait() moves the value out and leaves an empty handle.
  decltype(auto) wait() & {
    run_.wait();
    run_.throw_if_failed();
    if constexpr (!std::is_void_v<T>) return value();
  }
  T wait() && {
    run_.wait();
    run_.throw_if_failed();
    const detail::OperationRun run = std::exchange(run_, detail::OperationRun());
    if constexpr (!std::is_void_v<T>) return static_cast<detail::TypedNode<T>&>(run.root()).take();
  }
  // Blocks for at most this time. Whether the operation has finished; does not throw its failure.
  template <class Rep, class Period>
  bool wait_for(std::chrono::duration<Rep, Period> time) const {
    return run_.wait_seconds(std::chrono::duration<double>(time));
  }
  // Drops work that has not started; host functions that are running are not interrupted. Returns at once; false if the
  // operation had finished.
  bool cancel() const { return run_.cancel(); }

  // co_await std::move(spawned) returns the value or throws the failure. Stopping the Task that awaits it cancels it.
  detail::OperationAwaiter<T, detail::Anywhere> operator co_await() && {
    run_.poll();  // throws on an empty handle
    return {std::move(run_), {}};
  }
  // co_await std::move(spawned).on(executor): the same, and continues on the executor.
  template <detail::Executor E>
  auto on(E executor) && {
    run_.poll();
    return Resumed<E>(std::move(run_), std::move(executor));
  }
  template <class Value = T>
  detail::OperationAwaiter<T, detail::Anywhere> operator co_await() const& {
    static_assert(detail::never<Value>, "co_await consumes the handle: write co_await std::move(spawned)");
    return {detail::OperationRun(), {}};
  }

  explicit operator bool() const noexcept { return static_cast<bool>(run_); }

  // Not for user code.
  explicit Spawned(detail::OperationRun run) noexcept : run_(std::move(run)) {}

 private:
  template <class E>
  struct Resumed {
    // Not an aggregate: g++ 12 would destroy it twice in a coroutine that is destroyed while suspended.
    Resumed(detail::OperationRun given, E on) : run(std::move(given)), executor(std::move(on)) {}
    detail::OperationRun run;
    E executor;
    detail::OperationAwaiter<T, E> operator co_await() && { return {std::move(run), std::move(executor)}; }
  };
  auto& value() { return *static_cast<detail::TypedNode<T>&>(run_.root()).value; }

  detail::OperationRun run_;
};

template <class T>
Spawned<T> DeviceOperation<T>::spawn(std::stop_token stop) && {
  detail::RunOptions options;
  options.stop = std::move(stop);
  return Spawned<T>(detail::OperationRun::start(take_node(), std::move(options)));
}
template <class T>
Spawned<T> DeviceOperation<T>::submit_on(const Stream& stream) && {
  expect_stream(stream);
  detail::RunOptions options;
  options.stream = stream;
  options.is_stream_fixed = true;
  return Spawned<T>(detail::OperationRun::start(take_node(), std::move(options)));
}

// Starts an operation and returns at once. The stop token cancels it.
//
//   Spawned<std::vector<float>> running = spawn(value(std::move(batch)).to_host());
//   // ... other work ...
//   std::vector<float> host = co_await std::move(running);
template <class T>
Spawned<T> spawn(DeviceOperation<T>&& operation, std::stop_token stop = {}) {
  return std::move(operation).spawn(std::move(stop));
}
template <class T>
Spawned<T> spawn(DeviceOperation<T>&, const std::stop_token& = {}) {
  static_assert(detail::never<T>, "spawn() consumes the operation: write spawn(std::move(operation))");
  return {};
}

}  // namespace tessera
