#pragma once

#include <tessera/error.hpp>

#include "engine/schedule/timer.hpp"

#include <atomic>
#include <exception>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace tessera::detail::operation {

// Whether and why a run has to stop before it has its value. Guarded by the run's mutex, but for is_stopping.
struct StopState {
  struct Request {
    Errc reason;
    std::string why;
  };
  std::optional<Request> deferred;  // a cancel() that waits until values for other runs are there
  std::exception_ptr cause;         // set by cancel()
  bool keeps_values = false;        // other runs need values of the cancelled run: its commands go on
  std::vector<std::function<void()>> callbacks;
  std::optional<engine::Timer::Key> deadline;
  std::optional<std::stop_callback<std::function<void()>>> token_callback;

  // The run was cancelled or has failed: host functions that have not started do not start. Any thread.
  std::atomic<bool> is_stopping{false};

  void throw_if_cancelled() const {
    if (cause) std::rethrow_exception(cause);
  }
  // token_callback and deadline are gone when a run finishes.
  void reset() noexcept {
    deferred.reset();
    cause = nullptr;
    keeps_values = false;
    callbacks.clear();
    is_stopping.store(false, std::memory_order_relaxed);
  }
};

}  // namespace tessera::detail::operation
