#pragma once

#include <tessera/device_info.hpp>
#include <tessera/simulation.hpp>

#include "engine/work.hpp"

#include <chrono>
#include <memory>

namespace tessera::detail::engine {

// The cost of user code, which may take any time: nobody who waits for something else runs it.
inline constexpr std::uint64_t unknown_cost = 1'000'000'000;

// Decides which ready work runs next, and on which thread. Any thread may call any member.
class Scheduler {
 public:
  virtual ~Scheduler() = default;

  // Takes a ready work, which will be executed sometime.
  virtual void push(Work& work) = 0;
  // Takes it out again: false if a thread has it already.
  virtual bool take_back(Work& work) = 0;
  // Whether the thread that made `work` ready may execute it next, without push.
  virtual bool may_continue_with(const Work& work) = 0;

  // A running work has pieces for so many other threads; withdraw ends the offer.
  virtual void share(Work& work, std::int64_t helpers) = 0;
  virtual void withdraw(Work& work) = 0;

  // Called by a thread that waits for `target`: executes what brings its end nearer, as long as that is better than
  // sleeping. Returns when the target is settled or the thread should sleep: until when, at most `until`.
  virtual Clock::time_point help(Work& target, Clock::time_point until) = 0;
  // Whether this thread must not just sleep while it waits, since nobody else might run what it waits for.
  virtual bool must_help() const = 0;
  // Executes one ready work on this thread, if there is one.
  virtual bool run_one() = 0;
  // Called by poll().
  virtual void polled() {}

  // Whether a call may run on the calling thread although that is no worker.
  virtual bool may_use_caller() const = 0;

  // Before user code, which may take any time, on a thread of the scheduler.
  virtual void before_user_code() {}

  virtual PowerLevel power_level() const = 0;
  virtual void set_power_level(PowerLevel level) = 0;
  // The user has no Device handle of it any more.
  virtual void last_handle_dropped() {}

  // No more work will come; the threads end. Called by the device's destructor, perhaps on one of those threads.
  virtual void stop() = 0;
};

std::shared_ptr<Scheduler> make_worker_pool(unsigned workers);
std::shared_ptr<Scheduler> make_seeded_scheduler(const SimulationOptions& options);

}  // namespace tessera::detail::engine
