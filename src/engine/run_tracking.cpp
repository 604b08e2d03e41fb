#include "engine/run_tracking.hpp"

#include "engine/device_state.hpp"
#include "engine/execution.hpp"

#include <new>
#include <utility>

namespace tessera::detail::engine {

std::unique_ptr<RunTracker> RunLog::take() {
  const std::scoped_lock lock(mutex_);
  if (free_.empty()) return std::make_unique<RunTracker>();
  std::unique_ptr<RunTracker> run = std::move(free_.back());
  free_.pop_back();
  return run;
}

void RunLog::keep(std::unique_ptr<RunTracker> run) noexcept {
  run->log_ = nullptr;                                  // it would keep this log alive
  std::shared_ptr<const plan::CompiledPlan> forgotten;  // destroyed after the lock is released
  const std::scoped_lock lock(mutex_);
  last_.swap(run);
  if (!run) return;
  forgotten = std::move(run->plan_);
  run->failure_ = nullptr;
  try {
    free_.push_back(std::move(run));
  } catch (const std::bad_alloc&) {
  }
}

void RunTracker::begin(std::shared_ptr<const plan::CompiledPlan> plan, std::uint64_t number) {
  plan_ = std::move(plan);
  number_ = number;
  times_.assign(plan_->groups.size(), {});
  works_.clear();
  barrier_ = nullptr;
  is_stopped_ = false;
  failure_ = nullptr;
  outcome_ = Status::completed;
  begin_ = Clock::now();
}

void RunTracker::follow(Work& barrier, bool is_sequence, std::shared_ptr<RunLog> log) {
  barrier_ = &barrier;
  is_sequence_ = is_sequence;
  log_ = std::move(log);
  barrier.listener = this;
}

void RunTracker::add(Work& work) {
  work.listener = this;
  work.part = works_.size();
  works_.push_back({&work, work.serial()});
  works_left_ = works_.size();
}

void RunTracker::finish_here(Status outcome) {
  end_ = Clock::now();
  outcome_ = outcome;
}

bool RunTracker::may_start(const Work&) noexcept { return barrier_->try_start_part(); }

Errc RunTracker::stop_reason() const noexcept { return barrier_->failure ? barrier_->failure->code : Errc::cancelled; }

void RunTracker::started(const Work& work) noexcept {
  const Clock::time_point now = Clock::now();
  if (!is_sequence_) {
    times_[work.part].start = now;
  } else {
    for (Time& time : times_) time.start = now;
  }
}

void RunTracker::compiled(const Work& work, Clock::duration time) noexcept {
  started(work);
  times_[is_sequence_ ? 0 : work.part].compiling = time;
}

void RunTracker::queued(const Work&, std::uint64_t number) noexcept {
  // Threads that wait for the run wait for its only item, which it cannot finish before.
  if (is_sequence_) barrier_->queue_number.store(number, std::memory_order_release);
}

// Whether the run has finished, although its items are still in the order, and the caller is the one to settle it.
// Under the run's lock.
bool RunTracker::try_end() noexcept {
  // A run that has not started is cancelled as a whole, elsewhere.
  const bool is_running = barrier_->status() == Status::running;
  if (!is_stopped_ || works_left_ != 0 || !failure_ || !is_running || !barrier_->try_claim()) return false;
  barrier_->outcome = outcome_;
  barrier_->failure = failure_;
  return true;
}

Ref<Work> RunTracker::finished(const Work& work) noexcept {
  const std::scoped_lock lock(lock_);
  Time& time = times_[work.part];
  if (time.start != Clock::time_point()) time.end = Clock::now();
  if (is_sequence_) times_.assign(times_.size(), Time(time));
  if (work.failure && (!failure_ || work.part < failed_group_)) {
    failed_group_ = work.part;
    failure_ = work.failure;
    outcome_ = work.outcome;
  }
  --works_left_;
  return try_end() ? Ref<Work>(barrier_) : Ref<Work>();
}

void RunTracker::reached(Work& barrier) noexcept {
  if (!barrier.is_settled() && failure_) {
    barrier.outcome = outcome_;
    barrier.failure = failure_;
  }
  end_ = Clock::now();
  outcome_ = barrier.outcome;
  {
    const std::scoped_lock lock(barrier.failure_lock);  // stop_run may read it
    barrier.listener = nullptr;
  }
  const std::shared_ptr<RunLog> log = log_;
  log->keep(std::unique_ptr<RunTracker>(this));
}

void stop_run(Work& barrier, Errc reason, std::string_view why) {
  std::vector<Ref<Work>> works;
  {
    // No item is reused while the order lock is held, and no record while the barrier's is.
    const std::scoped_lock order(barrier.device->order);
    const std::scoped_lock lock(barrier.failure_lock);
    auto* run = static_cast<RunTracker*>(barrier.listener);
    if (!run) return;
    try {
      for (const Position& position : run->works_) {
        if (position.entry->serial() != position.serial) continue;
        if (Ref<Work> shared = WorkPool::try_share(static_cast<Work&>(*position.entry)))
          works.push_back(std::move(shared));
      }
    } catch (const std::bad_alloc&) {  // then the others end when their turn comes
    }
    const std::scoped_lock run_lock(run->lock_);
    run->is_stopped_ = true;
  }
  for (const Ref<Work>& work : works) cancel(*work, reason, why);
  bool has_ended = false;
  {
    const std::scoped_lock lock(barrier.failure_lock);
    auto* run = static_cast<RunTracker*>(barrier.listener);
    if (!run) return;
    const std::scoped_lock run_lock(run->lock_);
    has_ended = run->try_end();
  }
  if (has_ended) settle_stopped(barrier);
}

}  // namespace tessera::detail::engine
