// Threads that wait for a run, and help with what it waits for.
#include <tessera/error.hpp>

#include "engine/schedule/scheduler.hpp"
#include "engine/submission.hpp"
#include "operation/run.hpp"

#include <algorithm>
#include <chrono>

namespace tessera::detail {

Status RunState::poll() {
  if (!is_over()) {
    device_->scheduler->polled();
    std::shared_ptr<RunState> run;
    Ref<engine::Work> command;
    std::uint64_t change = 0;
    if (find_awaited(&run, &command, &change)) {
      if (run) {
        run->poll();
      } else {
        command->device->scheduler->polled();
      }
    }
    if (!is_over()) return Status::running;
  }
  if (!failure_) return Status::completed;
  const Errc code = error_of(failure_).code();
  return code == Errc::cancelled || code == Errc::deadline_exceeded ? Status::cancelled : Status::failed;
}

std::vector<std::shared_ptr<RunState>> RunState::unfinished_inner() {
  std::vector<std::shared_ptr<RunState>> unfinished;
  const std::scoped_lock lock(mutex_);
  for (const std::weak_ptr<RunState>& one : inner_) {
    if (std::shared_ptr<RunState> run = one.lock(); run && !run->is_over()) unfinished.push_back(std::move(run));
  }
  return unfinished;
}

// A command of this run, or of one inside of it, that somebody can help with.
Ref<engine::Work> RunState::find_command(std::uint64_t* number, std::shared_ptr<RunState>* owner) {
  Ref<engine::Work> found;
  visit_inner([&](RunState& run) {
    const std::scoped_lock lock(run.mutex_);
    if (run.outstanding_.empty()) return false;
    *number = run.outstanding_.front().number;
    *owner = run.shared_from_this();
    found = run.outstanding_.front().command;
    return true;
  });
  return found;
}

// A scheduler of this run, or of one inside of it, where nobody else may run what this thread waits for.
std::shared_ptr<engine::Scheduler> RunState::helpless_scheduler() {
  std::shared_ptr<engine::Scheduler> found;
  visit_inner([&](RunState& run) {
    if (!run.device_->scheduler->must_help()) return false;
    found = run.device_->scheduler;
    return true;
  });
  return found;
}

// What a task waits for and is not over: a run or a command.
bool RunState::find_awaited(std::shared_ptr<RunState>* run, Ref<engine::Work>* command, std::uint64_t* change) {
  std::vector<std::shared_ptr<RunState>> over;  // go after the lock
  const std::scoped_lock lock(mutex_);
  *change = awaits_;
  for (const auto& [node, awaited] : awaited_) {
    if (*run) over.push_back(std::move(*run));
    *run = awaited.run.lock();
    *command = awaited.command;
    if (*run ? !(*run)->is_over() : *command && !(*command)->is_settled()) return true;
  }
  return false;
}

bool RunState::wait(engine::Clock::time_point until) {
  constexpr auto look_again = std::chrono::microseconds(50);
  catch_up();
  while (!is_over()) {
    std::uint64_t seen = 0;
    {
      const std::scoped_lock lock(mutex_);
      seen = inner_changes_;
    }
    std::uint64_t number = 0;
    std::shared_ptr<RunState> owner;
    if (const Ref<engine::Work> command = find_command(&number, &owner)) {
      if (!engine::wait(*command, until)) return is_over();
      // Its end is on its way to the run.
      std::unique_lock lock(owner->mutex_);
      owner->changed_.wait(lock, [&] {
        return std::ranges::find(owner->outstanding_, number, &Outstanding::number) == owner->outstanding_.end();
      });
      continue;
    }
    const std::shared_ptr<engine::Scheduler> helpless = helpless_scheduler();
    if (helpless && helpless->run_one()) continue;
    std::shared_ptr<RunState> run;
    Ref<engine::Work> awaited;
    std::uint64_t change = 0;
    if (find_awaited(&run, &awaited, &change)) {
      if (run) {
        run->wait(until);
      } else {
        engine::wait(*awaited, std::min<engine::Clock::time_point>(until, engine::Clock::now() + longest_wait));
      }
      if (until != engine::Clock::time_point::max() && engine::Clock::now() >= until) return is_over();
      continue;
    }
    std::unique_lock lock(mutex_);
    const auto is_changed = [&] {
      return is_over() || !outstanding_.empty() || inner_changes_ != seen || awaits_ != change;
    };
    if (helpless) {
      changed_.wait_for(lock, look_again, is_changed);
      if (engine::Clock::now() >= until) return is_over();
    } else if (until == engine::Clock::time_point::max()) {
      changed_.wait(lock, is_changed);
    } else if (!changed_.wait_until(lock, until, is_changed)) {
      return is_over();
    }
  }
  return true;
}

}  // namespace tessera::detail
