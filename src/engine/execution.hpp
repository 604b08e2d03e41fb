#pragma once

#include "engine/memory/storage.hpp"
#include "engine/work.hpp"

#include <functional>
#include <string>
#include <string_view>

// How a work runs and finishes.
namespace tessera::detail::engine {

// Executes a ready work to its end, and then those that became ready and that the scheduler lets this thread continue
// with. Takes over the engine's reference to the work.
void execute(Work& work) noexcept;
// Does pieces of a running work; takes over a reference.
void assist(Work& work) noexcept;
// Whether executing the work only puts it into the device's queue, which any thread may do.
bool starts_at_once(const Work& work) noexcept;

// Finishes a running work; returns one that became ready and that this thread may continue with.
Work* finish(Work& work, core::FailurePtr failure) noexcept;
// Ends a pending work for the reason given; false if it is not pending any more.
bool cancel(Work& work, Errc reason, std::string_view why);
// Asks a running work to stop between two pieces; a barrier's remaining works are cancelled.
void ask_to_stop(Work& work);
// Settles a barrier whose works have finished, though not all have left the order. Its outcome is set, and the caller
// has claimed it.
void settle_stopped(Work& barrier) noexcept;
inline constexpr std::string_view too_late = "could not start before its deadline";

// Blocks until the work is settled; false on timeout.
bool wait(Work& work, Clock::time_point until);
// Throws why the work, which is settled, failed.
void throw_if_failed(const Work& work);

// Has a worker call a function, ordered after nothing.
void leave_to_worker(DeviceState& device, std::string_view label, std::function<void()> function,
                     Priority priority = Priority::normal);

core::FailurePtr poisoned(const std::string& what, const Storage& storage);
// Why the first of the inputs that is poisoned is; null if none is. `describe` names the work: "[relu] command 12". A
// work that is not a command calls its only input "the buffer".
template <class Describe>
core::FailurePtr first_poisoned_input(const core::InlineVector<Storage*, 3>& inputs, bool is_command,
                                      Describe&& describe) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]->poison) [[likely]]
      continue;
    return poisoned(describe() + (is_command ? ": input " + std::to_string(i) : " the buffer"), *inputs[i]);
  }
  return nullptr;
}

// Launches with what went wrong as a result (launching.cpp). `label` and `context` are as in Work.
//
// Compiles what is not compiled.
core::FailurePtr prepare_launch(driver::Driver& driver, const driver::Launch& launch, std::string_view label,
                                std::string_view context) noexcept;
// The exception that is being handled, as the failure of a launch.
[[gnu::cold]] core::FailurePtr launch_failure(const driver::Launch& launch, std::string_view label,
                                              std::string_view context) noexcept;
inline core::FailurePtr launch_piece(driver::Driver& driver, const driver::Launch& launch, std::int64_t piece,
                                     std::string_view label, std::string_view context) noexcept {
  try {
    driver.launch(launch, piece);
    return nullptr;
  } catch (...) {
    return launch_failure(launch, label, context);
  }
}
// Compiles, counts the work's pieces, and allocates memory for partial results if it needs some. finish_launch combines
// those after all pieces.
core::FailurePtr begin_launch(Work& work) noexcept;
core::FailurePtr finish_launch(const Work& work) noexcept;

// Runs the work's launch on this thread and those that help (pieces.cpp). Returns what finish() does.
Work* run_pieces(Work& work) noexcept;
// The same for a helper.
Work* help_with_pieces(Work& work) noexcept;
// By cancel() of the work, or of what it belongs to.
bool is_stopping(const Work& work) noexcept;
core::FailurePtr cancelled_while_running(const Work& work);

}  // namespace tessera::detail::engine
