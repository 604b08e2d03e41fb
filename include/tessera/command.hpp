#pragma once

#include <tessera/detail/access.hpp>
#include <tessera/detail/argument_list.hpp>
#include <tessera/detail/export.hpp>
#include <tessera/detail/handle.hpp>
#include <tessera/detail/observer.hpp>
#include <tessera/error.hpp>
#include <tessera/status.hpp>

#include <atomic>
#include <chrono>
#include <coroutine>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string_view>

namespace tessera {

class Command;

namespace detail {

// What co_await command uses: resumes the coroutine on the thread that ends the command, or that stops the waiting
// task.
class TESSERA_API CommandAwaiter final : private Observer {
 public:
  explicit CommandAwaiter(Ref<engine::Work> work) noexcept : work_(std::move(work)) {}
  ~CommandAwaiter();  // a coroutine may be destroyed while it waits
  CommandAwaiter(const CommandAwaiter&) = delete;
  CommandAwaiter& operator=(const CommandAwaiter&) = delete;
  bool await_ready() const;
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> waiting) {
    // A Task tells whoever waits for it, and may work for it.
    if constexpr (requires { waiting.promise().awaits(work_); }) waiting.promise().awaits(work_);
    if constexpr (requires { waiting.promise().stop_token(); }) {
      if (std::stop_token stop = waiting.promise().stop_token(); stop.stop_possible()) {
        return suspend(waiting, std::move(stop));
      }
    }
    return suspend(waiting);
  }
  void await_resume() const;

 private:
  struct Stop {
    CommandAwaiter* awaiter;
    void operator()() const noexcept { awaiter->stop(); }
  };
  bool suspend(std::coroutine_handle<> waiting) noexcept;
  bool suspend(std::coroutine_handle<> waiting, std::stop_token token);
  void command_finished(engine::Work& work) noexcept override;
  void stop() noexcept;
  void resume() noexcept;
  Ref<engine::Work> work_;
  std::coroutine_handle<> waiting_;  // null unless it waits
  // Of a task that can be stopped. It is resumed by the second of two: the one that begins to wait, and the one that
  // ends the waiting.
  std::atomic<bool> is_stop_asked_{false};
  std::atomic<bool> is_met_{false};
  bool is_stopped_ = false;
  std::optional<std::stop_callback<Stop>> on_stop_;
};

}  // namespace detail

// Work that was submitted: a shared handle. Dropping it cancels nothing and leaks nothing.
//
// Every member but the default constructor throws Errc::invalid_argument on an empty handle.
class TESSERA_API Command {
 public:
  // An empty handle.
  Command() noexcept = default;

  CommandId id() const;

  // Where it is now. Never blocks.
  Status poll() const;

  // Blocks until it is over; throws its Error if it failed or was cancelled. The waiting thread may run the command,
  // or small commands before it, itself.
  void wait() const;

  // As wait, but gives up after a time: false means that it is not over, and goes on.
  template <class Rep, class Period>
  bool wait_for(std::chrono::duration<Rep, Period> timeout) const {
    return wait_seconds(std::chrono::duration<double>(timeout));
  }
  template <class Clock, class Duration>
  bool wait_until(std::chrono::time_point<Clock, Duration> time) const {
    using Seconds = std::chrono::duration<double>;  // the difference of two ends of the clock fits
    return wait_seconds(Seconds(time.time_since_epoch()) - Seconds(Clock::now().time_since_epoch()));
  }

  // Stops a command that has not started: true, and it is cancelled from now on. A running one is asked to stop
  // between two pieces of its work and may still complete: false. One that is over stays as it is: false.
  bool cancel() const;

  // Calls back once when it is over: at once if it already is, else on the thread that ends it. It may wait
  // for other commands. An exception that leaves it is thrown by a later synchronize() of the device.
  void on_complete(std::function<void(const Command&)> callback) const;

  // Why it failed or was cancelled; nothing while it is not over or if it completed.
  std::optional<Error> error() const;

  // co_await command: suspends until it is over, resumes on the thread that ended it, throws as wait does. In a Task
  // that is stopped it throws Errc::cancelled at once; the command goes on.
  detail::CommandAwaiter operator co_await() const { return detail::CommandAwaiter(ref_); }

  explicit operator bool() const noexcept { return static_cast<bool>(ref_); }
  friend bool operator==(const Command&, const Command&) noexcept = default;

 private:
  friend struct detail::Access;
  explicit Command(detail::Ref<detail::engine::Work> ref) noexcept : ref_(std::move(ref)) {}
  bool wait_seconds(std::chrono::duration<double> timeout) const;
  detail::Ref<detail::engine::Work> ref_;
};

// Commands as an argument: wait_all({a, b}), wait_all(vector).
using CommandList = ArgumentList<Command>;

// Blocks until all are over, then throws the error of the first in the list that has one.
TESSERA_API void wait_all(const CommandList& commands);

// Blocks until one is over and returns its index (the lowest, if several are); does not throw that command's error.
// An empty list is Errc::invalid_argument.
TESSERA_API std::size_t wait_any(const CommandList& commands);

}  // namespace tessera
