// Threads that wait for a run help with whatever it waits for.
#include <tessera/error.hpp>

#include "engine/observe/nested_callbacks.hpp"
#include "engine/schedule/scheduler.hpp"
#include "engine/submission.hpp"
#include "operation/run_state.hpp"

#include <algorithm>
#include <chrono>
#include <new>

namespace tessera::detail::operation {

Status RunState::poll() {
  if (!is_finished()) {
    device_->scheduler->polled();
    std::shared_ptr<RunState> run;
    Ref<engine::Work> command;
    std::uint64_t version = 0;
    if (find_awaited(&run, &command, &version)) {
      if (run) {
        run->poll();
      } else {
        command->device->scheduler->polled();
      }
    }
    if (!is_finished()) return Status::running;
  }
  if (!failure()) return Status::completed;
  const Errc code = error_of(failure()).code();
  return code == Errc::cancelled || code == Errc::deadline_exceeded ? Status::cancelled : Status::failed;
}

std::vector<std::shared_ptr<RunState>> RunState::unfinished_inner() {
  const std::scoped_lock lock(mutex_);
  return inner_.unfinished();
}

void RunState::set_awaited(const OperationNode& node, Awaited awaited) {
  {
    const std::scoped_lock lock(mutex_);
    awaits_.set(node, awaited);
  }
  changed_.notify_all();
}

// An unfinished run or command that a task of this run awaits.
bool RunState::find_awaited(std::shared_ptr<RunState>* run, Ref<engine::Work>* command, std::uint64_t* version) {
  std::vector<std::shared_ptr<RunState>> dropped;
  const std::scoped_lock lock(mutex_);
  *version = awaits_.version();
  return awaits_.find_unfinished(*run, *command, dropped);
}

// A scheduler of this run, or of one inside it, that may have no thread but this one to run what it waits for.
std::shared_ptr<engine::Scheduler> RunState::scheduler_to_help() {
  std::shared_ptr<engine::Scheduler> found;
  visit_inner([&](RunState& run) {
    if (!run.device_->scheduler->must_help()) return false;
    found = run.device_->scheduler;
    return true;
  });
  return found;
}

// Waits for a command of this run, or of one inside it, and until its run has handled that.
RunState::Waited RunState::wait_for_command(engine::Clock::time_point until) {
  CommandsInFlight::Command command{};
  std::shared_ptr<RunState> owner;
  visit_inner([&](RunState& run) {
    const std::scoped_lock lock(run.mutex_);
    if (run.commands_.empty()) return false;
    command = run.commands_.all().front();
    owner = run.shared_from_this();
    return true;
  });
  if (!owner) return Waited::for_nothing;
  if (!engine::wait(*command.work, until)) return Waited::until_timeout;
  std::unique_lock lock(owner->mutex_);
  owner->changed_.wait(lock, [&] { return !owner->commands_.contains(command.number); });
  return Waited::for_progress;
}

// Waits for what a task of this run awaits. `version` tells whether the tasks await something else since then.
RunState::Waited RunState::wait_for_awaited(engine::Clock::time_point until, std::uint64_t* version) {
  std::shared_ptr<RunState> run;
  Ref<engine::Work> command;
  if (!find_awaited(&run, &command, version)) return Waited::for_nothing;
  if (run) {
    run->wait(until);
  } else {
    engine::wait(*command, std::min<engine::Clock::time_point>(until, engine::Clock::now() + max_help_time));
  }
  const bool is_timeout = until != engine::Clock::time_point::max() && engine::Clock::now() >= until;
  return is_timeout ? Waited::until_timeout : Waited::for_progress;
}

// Blocks until there is something to help with. False on timeout. `is_polling`: returns after a short time in any case.
bool RunState::wait_for_change(engine::Clock::time_point until, bool is_polling, std::uint64_t inner_version,
                               std::uint64_t awaits_version) {
  constexpr auto poll_interval = std::chrono::microseconds(50);
  std::unique_lock lock(mutex_);
  const auto is_changed = [&] {
    return is_finished() || !commands_.empty() || inner_.version() != inner_version ||
           awaits_.version() != awaits_version;
  };
  if (is_polling) {
    changed_.wait_for(lock, poll_interval, is_changed);
    return engine::Clock::now() < until;
  }
  if (until != engine::Clock::time_point::max()) return changed_.wait_until(lock, until, is_changed);
  changed_.wait(lock, is_changed);
  return true;
}

bool RunState::wait(engine::Clock::time_point until) {
  pump_deferred_runs();
  if (is_finished()) return true;
  const engine::BlockingScope blocking;
  while (!is_finished()) {
    bool is_timeout = false;
    try {
      is_timeout = !wait_once(until);
    } catch (const std::bad_alloc&) {
      // The caller relies on the end of the run. There may be memory to help again soon.
      is_timeout = !wait_for_change(until, true, 0, 0);
    }
    if (is_timeout) return is_finished();
  }
  return true;
}

// Helps with something, or blocks until there is something to help with. False on timeout.
bool RunState::wait_once(engine::Clock::time_point until) {
  std::uint64_t inner_version = 0, awaits_version = 0;
  {
    const std::scoped_lock lock(mutex_);
    inner_version = inner_.version();
  }
  Waited waited = wait_for_command(until);
  if (waited != Waited::for_nothing) return waited == Waited::for_progress;
  const std::shared_ptr<engine::Scheduler> scheduler = scheduler_to_help();
  if (scheduler && scheduler->run_one()) return true;
  waited = wait_for_awaited(until, &awaits_version);
  if (waited != Waited::for_nothing) return waited == Waited::for_progress;
  return wait_for_change(until, scheduler != nullptr, inner_version, awaits_version);
}

}  // namespace tessera::detail::operation
