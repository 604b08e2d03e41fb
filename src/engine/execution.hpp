#pragma once

#include "engine/memory/storage.hpp"
#include "engine/work.hpp"

#include <functional>
#include <string>
#include <string_view>

// How a work item runs and finishes.
namespace tessera::detail::engine {

// Executes a ready item to its end, then items that became ready, as far as the scheduler lets this thread continue.
// Takes over the engine's reference to the item.
void execute(Work& work) noexcept;
// Runs pieces of a running item; takes over a reference.
void assist(Work& work) noexcept;
// Whether executing the item only adds it to the device queue, which any thread may do.
bool starts_at_once(const Work& work) noexcept;

// Finishes a running item; returns one that became ready and that this thread may continue with.
Work* finish(Work& work, core::FailurePtr failure) noexcept;
// Ends a pending item for this reason; false if it is not pending any more.
bool cancel(Work& work, Errc reason, std::string_view why);
// Settles an item that has not been armed yet as failed. It still takes its turn in the order.
void fail_early(Work& work, core::FailurePtr failure) noexcept;
// Makes a running item stop between two pieces; a barrier's remaining items are cancelled.
void ask_to_stop(Work& work);
// Settles a barrier whose items have finished, although some are still in the order. Its outcome is set, and the caller
// has claimed it.
void settle_stopped(Work& barrier) noexcept;

// Blocks until the item is settled; false on timeout.
bool wait(Work& work, Clock::time_point until);
// Throws the failure of a settled item, if any, to the user.
void throw_if_failed(const Work& work);

// Has a worker call a function, without waiting for anything.
void leave_to_worker(DeviceState& device, std::string_view label, std::function<void()> function,
                     Priority priority = Priority::normal);

core::FailurePtr poisoned(const std::string& what, const Storage& storage) noexcept;
// The failure that poisoned the first poisoned input; null if there is none. `describe` names the item: "[relu] command
// 12". For an item that is not a command, the only input is called "the buffer".
template <class Describe>
core::FailurePtr first_poisoned_input(const core::InlineVector<Storage*, 3>& inputs, bool is_command,
                                      Describe&& describe) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]->poison) [[likely]]
      continue;
    try {
      return poisoned(describe() + (is_command ? ": input " + std::to_string(i) : " the buffer"), *inputs[i]);
    } catch (const std::bad_alloc&) {
      return inputs[i]->poison;
    }
  }
  return nullptr;
}

// Driver calls that return failures instead of throwing (launching.cpp). `label` and `context` are as in Work.
//
// Compiles the launch if it is not compiled yet.
core::FailurePtr prepare_launch(driver::Driver& driver, const driver::Launch& launch, std::string_view label,
                                std::string_view context) noexcept;
// The current exception as the failure of a launch.
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
// Compiles, counts the item's pieces, and allocates memory for partial results if there are any. finish_launch combines
// them after the last piece.
core::FailurePtr begin_launch(Work& work) noexcept;
core::FailurePtr finish_launch(const Work& work) noexcept;

// Runs the item's launch on this thread and on helpers (pieces.cpp). Returns what finish() returns.
Work* run_pieces(Work& work) noexcept;
// The same for a helper.
Work* help_with_pieces(Work& work) noexcept;
// Whether the item, or its run, was cancelled.
bool is_stopping(const Work& work) noexcept;
core::FailurePtr cancelled_while_running(const Work& work) noexcept;

}  // namespace tessera::detail::engine
