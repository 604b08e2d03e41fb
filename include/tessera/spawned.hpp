#pragma once

#include <tessera/command.hpp>
#include <tessera/detail/operation_awaiter.hpp>
#include <tessera/detail/operation_node.hpp>
#include <tessera/device_operation.hpp>
#include <tessera/stream.hpp>

#include <chrono>
#include <stop_token>
#include <type_traits>
#include <utility>

namespace tessera {

// An operation on its way, in the background: dropping the handle cancels nothing. One thread uses a handle at a time.
template <class T>
class Spawned {
 public:
  // An empty handle: using it throws Errc::invalid_argument.
  Spawned() noexcept = default;
  Spawned(Spawned&&) noexcept = default;
  Spawned& operator=(Spawned&&) noexcept = default;

  // running, completed, failed or cancelled. Never blocks.
  Status poll() const { return run_.poll(); }
  // Blocks until it is over; throws what went wrong. The value stays, or is taken: std::move(spawned).wait() leaves an
  // empty handle.
  decltype(auto) wait() & {
    run_.wait();
    run_.throw_if_failed();
    if constexpr (!std::is_void_v<T>) return value();
  }
  T wait() && {
    run_.wait();
    run_.throw_if_failed();
    const detail::Run run = std::exchange(run_, detail::Run());
    if constexpr (!std::is_void_v<T>) return static_cast<detail::TypedNode<T>&>(run.root()).take();
  }
  // False if it is not over after this time.
  template <class Rep, class Period>
  bool wait_for(std::chrono::duration<Rep, Period> time) const {
    return run_.wait_seconds(std::chrono::duration<double>(time));
  }
  // Stops what has not started; functions that run are not interrupted. False if it was over.
  bool cancel() const { return run_.cancel(); }

  // co_await std::move(spawned): its value, when it is there. If the Task that awaits it is stopped, it is cancelled.
  detail::RunAwaiter<T, detail::Anywhere> operator co_await() && {
    run_.poll();  // throws on an empty handle
    return {std::move(run_), {}};
  }
  template <detail::Executor E>
  auto on(E executor) && {
    run_.poll();
    return Resumed<E>(std::move(run_), std::move(executor));
  }
  template <class Value = T>
  detail::RunAwaiter<T, detail::Anywhere> operator co_await() const& {
    static_assert(detail::never<Value>, "a spawned operation gives its value once: write co_await std::move(spawned)");
    return {detail::Run(), {}};
  }

  explicit operator bool() const noexcept { return static_cast<bool>(run_); }

  explicit Spawned(detail::Run run) noexcept : run_(std::move(run)) {}

 private:
  template <class E>
  struct Resumed {
    // Not an aggregate: g++ 12 would destroy it twice in a coroutine that is destroyed while it waits.
    Resumed(detail::Run given, E on) : run(std::move(given)), executor(std::move(on)) {}
    detail::Run run;
    E executor;
    detail::RunAwaiter<T, E> operator co_await() && { return {std::move(run), std::move(executor)}; }
  };
  auto& value() { return *static_cast<detail::TypedNode<T>&>(run_.root()).value; }

  detail::Run run_;
};

template <class T>
Spawned<T> DeviceOperation<T>::spawn(std::stop_token stop) && {
  detail::RunOptions options;
  options.stop = std::move(stop);
  return Spawned<T>(detail::Run::start(take_node(), std::move(options)));
}
template <class T>
Spawned<T> DeviceOperation<T>::submit_on(const Stream& stream) && {
  expect_stream(stream);
  detail::RunOptions options;
  options.stream = stream;
  options.keeps_to_stream = true;
  return Spawned<T>(detail::Run::start(take_node(), std::move(options)));
}

// Starts an operation and returns at once.
//
//   Spawned<std::vector<float>> running = spawn(value(std::move(batch)).to_host());
//   …
//   std::vector<float> done = co_await std::move(running);
template <class T>
Spawned<T> spawn(DeviceOperation<T>&& operation, std::stop_token stop = {}) {
  return std::move(operation).spawn(std::move(stop));
}
template <class T>
Spawned<T> spawn(DeviceOperation<T>&, const std::stop_token& = {}) {
  static_assert(detail::never<T>, "an operation is used up by spawning it: write spawn(std::move(operation))");
  return {};
}

}  // namespace tessera
