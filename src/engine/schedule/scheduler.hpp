#pragma once

#include <tessera/device_info.hpp>
#include <tessera/simulation.hpp>

#include "engine/work.hpp"

#include <chrono>
#include <memory>

namespace tessera::detail::engine {

// The cost of user code, which may take any time: a thread that waits for something else does not run it.
inline constexpr std::uint64_t unknown_cost = 1'000'000'000;

// Decides which ready work item runs next, and on which thread. Any thread may call any member.
class Scheduler {
 public:
  virtual ~Scheduler() = default;

  // Takes a ready item, to be executed at some time.
  virtual void push(Work& work) = 0;
  // Removes it again; false if a thread has already taken it.
  virtual bool take_back(Work& work) = 0;
  // Whether the thread that made `work` ready may execute it next, without push.
  virtual bool may_continue_with(const Work& work) = 0;

  // Offers pieces of a running item to up to this many other threads; withdraw ends the offer.
  virtual void share(Work& work, std::int64_t helpers) = 0;
  virtual void withdraw(Work& work) = 0;

  // Called by a thread that waits for `target`: executes items that bring its end nearer, as long as that beats
  // sleeping. Returns once the target is settled or the thread should sleep; the result is how long, at most `until`.
  virtual Clock::time_point help(Work& target, Clock::time_point until) = 0;
  // Whether this thread must help while it waits, since no other thread might run what it waits for.
  virtual bool must_help() const = 0;
  // Executes one ready item on this thread, if there is one.
  virtual bool run_one() = 0;
  // Called by poll().
  virtual void polled() {}

  // Whether work may run on the calling thread although it is not a worker.
  virtual bool may_use_caller() const = 0;

  // Called on a scheduler thread before user code, which may take any time.
  virtual void before_user_code() {}

  virtual PowerLevel power_level() const = 0;
  virtual void set_power_level(PowerLevel level) = 0;
  // The last Device handle is gone.
  virtual void last_handle_dropped() {}

  // Ends the threads: there will be no more work. Called by the device's destructor, perhaps on one of those threads.
  virtual void stop() = 0;
};

std::shared_ptr<Scheduler> make_worker_pool(unsigned workers);
std::shared_ptr<Scheduler> make_seeded_scheduler(const SimulationOptions& options);

}  // namespace tessera::detail::engine
