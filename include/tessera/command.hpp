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
#include <cstddef>
#include <functional>
#include <optional>
#include <stop_token>
#include <utility>

namespace tessera {

class Command;

namespace detail {

// The awaiter of `co_await command`: resumes the coroutine on the thread that finishes the command, or on the one that
// stops the waiting task.
class TESSERA_API CommandAwaiter final : private Observer {
 public:
  explicit CommandAwaiter(Ref<engine::Work> work) noexcept : work_(std::move(work)) {}
  ~CommandAwaiter();  // a coroutine may be destroyed while it waits
  CommandAwaiter(const CommandAwaiter&) = delete;
  CommandAwaiter& operator=(const CommandAwaiter&) = delete;
  bool await_ready() const;
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> waiting) {
    // A Task passes this on to the thread that waits for it, which may then run the command.
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
  // For tasks that can be stopped: the later of suspend() and the first of finish and stop resumes the coroutine.
  std::atomic<bool> is_stop_asked_{false};
  std::atomic<bool> is_met_{false};
  bool is_stopped_ = false;
  std::optional<std::stop_callback<Stop>> on_stop_;
};

}  // namespace detail

// Submitted work. A shared handle: destroying it neither cancels nor waits for the command.
//
// On an empty handle every member except operator bool and operator== throws Errc::invalid_argument.
class TESSERA_API Command {
 public:
  // An empty handle.
  Command() noexcept = default;

  // Its number on its device, for Device::poll, wait and cancel.
  CommandId id() const;

  // Its current status. Never blocks.
  Status poll() const;

  // Blocks until the command has finished. Throws its Error if it failed or was cancelled. The waiting thread may run
  // the command itself, and small commands before it.
  void wait() const;

  // Like wait, with a time limit. Returns whether the command has finished; if not, it carries on.
  template <class Rep, class Period>
  bool wait_for(std::chrono::duration<Rep, Period> timeout) const {
    return wait_seconds(std::chrono::duration<double>(timeout));
  }
  template <class Clock, class Duration>
  bool wait_until(std::chrono::time_point<Clock, Duration> time) const {
    using Seconds = std::chrono::duration<double>;  // so that the difference cannot overflow
    return wait_seconds(Seconds(time.time_since_epoch()) - Seconds(Clock::now().time_since_epoch()));
  }

  // Returns true if the command had not started: it is cancelled now. Returns false otherwise: a running command stops
  // at the next opportunity or may still complete, and a finished one does not change. Never blocks.
  //
  // The CPU stops between the pieces of a launch, some 256 KiB each, and a run between its launches. A piece, a launch
  // that a GPU has begun, a compilation and a host function cannot be interrupted.
  bool cancel() const;

  // Calls `callback` once when the command has finished: right here if it already has, otherwise on the thread that
  // finishes it. Callbacks nested more than 16 deep on a thread run one after the other instead, so that one that
  // submits again and registers itself again needs no stack. The callback may wait for other commands. If it throws,
  // the device's next synchronize() rethrows. Never blocks.
  void on_complete(std::function<void(const Command&)> callback) const;

  // Why it failed or was cancelled; nullopt if it completed or has not finished. Never blocks.
  std::optional<Error> error() const;

  // co_await command: suspends until it has finished, resumes on the thread that finished it, and throws as wait does.
  // If the awaiting Task is stopped, it throws Errc::cancelled at once and the command carries on.
  detail::CommandAwaiter operator co_await() const { return detail::CommandAwaiter(ref_); }

  explicit operator bool() const noexcept { return static_cast<bool>(ref_); }
  friend bool operator==(const Command&, const Command&) noexcept = default;

 private:
  friend struct detail::Access;
  explicit Command(detail::Ref<detail::engine::Work> ref) noexcept : ref_(std::move(ref)) {}
  bool wait_seconds(std::chrono::duration<double> timeout) const;
  detail::Ref<detail::engine::Work> ref_;
};

// The commands of a call: wait_all({a, b}), or a std::vector<Command>.
using CommandList = ArgumentList<Command>;

// Blocks until all have finished, then throws the error of the first in the list that has one.
TESSERA_API void wait_all(const CommandList& commands);

// Blocks until at least one has finished and returns its index, the lowest if there are several. Does not throw that
// command's error. Throws Errc::invalid_argument if the list is empty.
TESSERA_API std::size_t wait_any(const CommandList& commands);

}  // namespace tessera
