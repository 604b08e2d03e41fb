#pragma once

#include "core/spin_lock.hpp"
#include "engine/cross_device.hpp"
#include "engine/work.hpp"
#include "plan/compiled_plan.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

namespace tessera::detail::engine {

class RunLog;

// One run of a plan, in flight or finished: follows the work items of its groups and the barrier that is its command.
class RunTracker final : public Listener {
 public:
  struct Time {
    Clock::time_point start, end;  // start is 0 if it has not started
    Clock::duration compiling{};   // before the start
  };

  void begin(std::shared_ptr<const plan::CompiledPlan> plan, std::uint64_t number);
  // Follows the barrier and the run's items, which are added in the order of their groups; before any of them can
  // start. `is_sequence`: one item has all groups. The log gets the run once it has finished.
  void follow(Work& barrier, bool is_sequence, std::shared_ptr<RunLog> log);
  void add(Work& work);
  // For a run on the submitting thread.
  void set_time(std::size_t group, const Time& time) { times_[group] = time; }
  void finish_here(Status outcome);

  const plan::CompiledPlan& plan() const noexcept { return *plan_; }
  std::uint64_t number() const noexcept { return number_; }
  Status outcome() const noexcept { return outcome_; }
  Clock::time_point begin_time() const noexcept { return begin_; }
  Clock::time_point end_time() const noexcept { return end_; }
  const std::vector<Time>& times() const noexcept { return times_; }  // by group
  const std::vector<Position>& works() const noexcept { return works_; }

  // Scratch space for placing, which keeps its capacity from run to run: the loans of copies between devices, until all
  // items are armed, and what an item waits for besides its buffers.
  std::vector<Loan> loans;
  std::vector<Ordered*> after;

  bool may_start(const Work& work) noexcept override;
  Errc stop_reason() const noexcept override;
  void started(const Work& work) noexcept override;
  void compiled(const Work& work, Clock::duration time) noexcept override;
  void queued(const Work& work, std::uint64_t number) noexcept override;
  bool is_stopping() const noexcept override { return barrier_->is_asked_to_stop(); }
  Ref<Work> finished(const Work& work) noexcept override;
  void reached(Work& barrier) noexcept override;

 private:
  friend void stop_run(Work& barrier, Errc reason, std::string_view why);
  friend class RunLog;
  bool try_end() noexcept;

  std::shared_ptr<const plan::CompiledPlan> plan_;
  std::shared_ptr<RunLog> log_;
  std::uint64_t number_ = 0;
  Clock::time_point begin_, end_;
  std::vector<Time> times_;
  std::vector<Position> works_;
  Work* barrier_ = nullptr;
  bool is_sequence_ = false;

  core::SpinLock lock_;         // guards the rest
  std::size_t works_left_ = 0;  // neither finished nor cancelled
  bool is_stopped_ = false;     // no more items will start: the run finishes with those that have
  // The failure of the failed group with the lowest index, which is a root cause: dependents come after their inputs.
  std::size_t failed_group_ = 0;
  core::FailurePtr failure_;
  Status outcome_ = Status::completed;
};

// Cancels the items of a run that have not started.
void stop_run(Work& barrier, Errc reason, std::string_view why);

// Stores the last finished run of a pipeline. Any thread.
class RunLog {
 public:
  // An empty record, perhaps with the capacity of an earlier one.
  std::unique_ptr<RunTracker> take();
  // Makes this the last finished run.
  void keep(std::unique_ptr<RunTracker> run) noexcept;
  // The number of the next run. Under the order lock.
  std::uint64_t next_number() noexcept { return ++count_; }

  // Calls `look` with the last run, if there is one.
  template <class Look>
  void last(Look&& look) {
    const std::scoped_lock lock(mutex_);
    if (last_) look(*last_);
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<RunTracker> last_;
  std::vector<std::unique_ptr<RunTracker>> free_;
  std::uint64_t count_ = 0;
};

}  // namespace tessera::detail::engine
