#include "core/platform.hpp"
#include "core/spin_lock.hpp"
#include "engine/execution.hpp"
#include "engine/observe/trace_record.hpp"
#include "engine/schedule/parker.hpp"
#include "engine/schedule/scheduler.hpp"
#include "engine/schedule/timer.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace tessera::detail::engine {

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// An idle worker looks for work this long before it sleeps: about twice the cost of falling asleep and waking up (4 to
// 10 µs here).
constexpr auto search_time = microseconds(20);
// A waiting thread sleeps after this long without anything to help with.
constexpr auto help_time = microseconds(10);
// The amount of work in flight that is worth another worker, in nanoseconds: about the cost of waking one.
constexpr std::uint64_t worth_waking = 5'000;
// A waiting thread helps with other commands up to this size, so that it returns soon after its own command finishes.
constexpr std::uint64_t small_enough_to_help = 20'000;
// Waits in callbacks nest. At this depth a worker helps with commands that have callbacks only after nothing else has
// helped for a while, since each callback may wait in turn.
constexpr int most_depth = 32;
constexpr int most_stalls = 25;  // of 200 µs each

// An intrusive doubly linked list of work items.
class List {
 public:
  bool empty() const noexcept { return !first_; }
  Work* first() const noexcept { return first_; }
  void push_back(Work& work) noexcept {
    work.scheduled.previous = last_;
    work.scheduled.next = nullptr;
    (last_ ? last_->scheduled.next : first_) = &work;
    last_ = &work;
  }
  void remove(Work& work) noexcept {
    (work.scheduled.previous ? work.scheduled.previous->scheduled.next : first_) = work.scheduled.next;
    (work.scheduled.next ? work.scheduled.next->scheduled.previous : last_) = work.scheduled.previous;
  }

 private:
  Work* first_ = nullptr;
  Work* last_ = nullptr;
};

class WorkerPool;

struct Worker {
  WorkerPool* pool = nullptr;
  unsigned index = 0;
  std::uint64_t running = 0;  // the cost of what it runs, under the pool's lock
  int last_core = -1;         // where it fell asleep, under the pool's lock
  std::thread thread;
  Parker parker;
};

thread_local Worker* this_worker = nullptr;
// What this thread waits for while it helps, if it is not a worker.
thread_local const Work* this_target = nullptr;
thread_local int this_depth = 0;
thread_local int this_stalls = 0;

// The workers of a device: one first-come-first-served queue per priority. At most one idle worker looks for work at a
// time while the others sleep; it wakes another one when it finds more than it can do itself.
class WorkerPool final : public Scheduler, public std::enable_shared_from_this<WorkerPool> {
 public:
  explicit WorkerPool(unsigned workers) : limit_(workers) {
    for (unsigned index = 0; index < workers; ++index) {
      workers_.push_back(std::make_unique<Worker>());
      workers_.back()->pool = this;
      workers_.back()->index = index;
    }
  }

  void push(Work& work) override {
    start_once();
    std::unique_lock lock(lock_);
    if (work.priority == Priority::low && level_ >= PowerLevel::serious && !is_alone()) {
      hold(work);
      return;
    }
    Worker* woken = enqueue(work);
    lock.unlock();
    if (woken) woken->parker.wake_up();
    if (is_alone()) [[unlikely]]
      run_all();
  }

  bool take_back(Work& work) override {
    const std::scoped_lock lock(lock_);
    if (work.scheduled.where == Work::Scheduled::Where::nowhere) return false;
    if (work.scheduled.where == Work::Scheduled::Where::ready) {
      dequeue(work);
    } else {
      held_.remove(work);
      work.scheduled.where = Work::Scheduled::Where::nowhere;
    }
    return true;
  }

  bool may_continue_with(const Work& work) override {
    // A user's thread continues only while it waits anyway: it must not be held up.
    if (!is_on_worker() && (!this_target || this_target->is_settled() || work.cost > small_enough_to_help))
      return false;
    if (!is_on_worker() && work.is_observed()) return false;
    if (work.priority == Priority::low) return false;  // push() may have to hold it
    // The pool must know about a long item, so that it wakes others for work that arrives meanwhile.
    if (is_on_worker() && work.cost >= worth_waking && this_worker->running < worth_waking) return false;
    // A hint is enough: a command of higher priority that arrives right now waits for one command.
    for (std::size_t p = 0; p < static_cast<std::size_t>(work.priority); ++p) {
      if (waiting_[p].load(std::memory_order_relaxed) != 0) return false;
    }
    return true;
  }

  void share(Work& work, std::int64_t helpers) override {
    start_once();
    std::unique_lock lock(lock_);
    // The caller works too, on a core of its own: with one helper per core the threads competed for cores, and one call
    // in ten over 1 MiB took twice as long as the others.
    const std::int64_t others = static_cast<std::int64_t>(limit_) - 1;
    work.scheduled.helpers_wanted = static_cast<unsigned>(std::clamp<std::int64_t>(others, 0, helpers));
    if (work.scheduled.helpers_wanted == 0) return;
    Worker* woken = enqueue(work);
    lock.unlock();
    if (woken) woken->parker.wake_up();
  }

  void withdraw(Work& work) override {
    const std::scoped_lock lock(lock_);
    if (work.scheduled.where == Work::Scheduled::Where::ready) dequeue(work);
    work.scheduled.helpers_wanted = 0;
  }

  Clock::time_point help(Work& target, Clock::time_point until) override {
    // If a worker slept, there might be no thread left to run the target: it runs anything, and sleeps only briefly.
    const bool on_worker = is_on_worker() || is_alone();
    if (!on_worker && !may_use_caller()) return until;
    Clock::time_point end = Clock::now() + help_time;
    while (!target.is_settled()) {
      if (run_for(target, on_worker, until != Clock::time_point::max())) {
        end = Clock::now() + help_time;
        continue;
      }
      core::pause();
      const Clock::time_point now = Clock::now();
      if (now >= until) return now;
      if (now >= end) {
        ++this_stalls;
        return on_worker ? std::min(until, now + microseconds(200)) : until;
      }
    }
    return until;
  }

  bool must_help() const override { return is_on_worker() || is_alone(); }

  bool run_one() override {
    std::unique_lock lock(lock_);
    Work* work = next();
    if (!work) return false;
    if (is_too_deep_for(*work)) {
      ++this_stalls;
      return false;
    }
    run_nested(*work, nullptr, lock);
    return true;
  }

  bool may_use_caller() const override { return level_.load(std::memory_order_relaxed) == PowerLevel::nominal; }

  void before_user_code() override {
    if (!is_on_worker()) return;
    std::unique_lock lock(lock_);
    set_running(*this_worker, unknown_cost);
    Worker* woken = worker_to_wake();
    lock.unlock();
    if (woken) woken->parker.wake_up();
  }

  PowerLevel power_level() const override { return level_; }

  void set_power_level(PowerLevel level) override {
    start_once();
    std::vector<Worker*> woken;
    {
      const std::scoped_lock lock(lock_);
      level_ = level;
      const auto all = std::max(1U, threads_.load());
      switch (level) {
        case PowerLevel::nominal:
          limit_ = all;
          break;
        case PowerLevel::fair:
          limit_ = std::max(1U, all * 3 / 4);
          break;
        case PowerLevel::serious:
          limit_ = std::max(1U, all / 2);
          break;
        case PowerLevel::critical:
          limit_ = 1;
          break;
      }
      if (level < PowerLevel::serious) {
        while (Work* work = held_.first()) {
          if (Worker* worker = unhold(*work)) woken.push_back(worker);
        }
      }
      // Every worker checks the new limit; those beyond it go back to sleep.
      woken.insert(woken.end(), asleep_.begin(), asleep_.end());
      asleep_.clear();
    }
    for (Worker* worker : woken) worker->parker.wake_up();
  }

  void stop() override {
    {
      const std::scoped_lock lock(lock_);
      stopping_ = true;
      asleep_.clear();
    }
    for (const auto& worker : workers_) {
      if (!worker->thread.joinable()) continue;
      worker->parker.wake_up();
      if (worker->thread.get_id() == std::this_thread::get_id()) {
        worker->thread.detach();  // it ends when this call returns, and keeps the pool alive until then
      } else {
        worker->thread.join();
      }
    }
  }

 private:
  bool is_on_worker() const noexcept { return this_worker && this_worker->pool == this; }

  // Where the system has no thread for any worker, whoever makes an item ready executes it, and the threads are asked
  // for again with the next one.
  bool is_alone() const noexcept { return threads_.load(std::memory_order_relaxed) == 0 && has_started_; }

  void start_once() {
    if (threads_.load(std::memory_order_acquire) != 0) [[likely]]
      return;
    const std::scoped_lock starting(start_mutex_);
    if (threads_ != 0) return;
    unsigned count = 0;
    try {
      for (const auto& worker : workers_) {
        worker->thread = std::thread([self = shared_from_this(), &worker = *worker] { self->run(worker); });
        ++count;
      }
    } catch (const std::system_error&) {  // fewer have to do
    }
    const std::scoped_lock lock(lock_);
    if (level_ == PowerLevel::nominal) limit_ = count;
    has_started_ = true;
    threads_ = count;
  }

  // Executes everything that is ready; items that become ready meanwhile too, without nesting.
  void run_all() {
    static thread_local bool is_running = false;
    if (std::exchange(is_running, true)) return;
    while (run_one()) continue;
    is_running = false;
  }

  void run(Worker& worker) {
    this_worker = &worker;
    name_thread("worker", worker.index + 1);
    while (true) {
      std::unique_lock lock(lock_);
      set_running(worker, 0);
      Work* work = nullptr;
      while (!stopping_) {
        if (worker.index < limit_) work = next();
        if (work) break;
        rest(worker, lock);
      }
      if (!work) return;
      const bool helps = take(*work);
      set_running(worker, work->cost);
      Worker* woken = worker_to_wake();
      lock.unlock();
      if (woken) woken->parker.wake_up();
      helps ? assist(*work) : execute(*work);
    }
  }

  // Looks for work, or sleeps until there is some.
  void rest(Worker& worker, std::unique_lock<core::SpinLock>& lock) {
    if (searching_ == 0 && worker.index < limit_ && !is_in_the_way()) {
      ++searching_;
      lock.unlock();
      const Clock::time_point end = Clock::now() + search_time;
      bool found = false;
      while (!(found = has_work()) && !is_in_the_way() && Clock::now() < end) {
        for (int i = 0; i < 16; ++i) core::pause();
      }
      lock.lock();
      --searching_;
      if (found || has_work()) return;
    }
    worker.last_core = core::current_core();
    asleep_.push_back(&worker);
    // A worker beyond the limit may have been the only one awake when work came.
    Worker* woken = worker_to_wake();
    lock.unlock();
    if (woken) woken->parker.wake_up();
    worker.parker.sleep();
    lock.lock();
  }

  // Whether this worker runs on the core of the thread that submitted last: while it looks for work there, that thread
  // cannot submit any.
  bool is_in_the_way() const noexcept {
    return core::current_core() == submitter_core_.load(std::memory_order_relaxed);
  }

  bool has_work() const noexcept {
    for (const auto& waiting : waiting_) {
      if (waiting.load(std::memory_order_relaxed) != 0) return true;
    }
    return stopping_.load(std::memory_order_relaxed);
  }

  // Everything below is called under the lock.

  Worker* enqueue(Work& work) {
    if (!is_on_worker()) submitter_core_.store(core::current_core(), std::memory_order_relaxed);
    const auto p = static_cast<std::size_t>(work.priority);
    ready_[p].push_back(work);
    waiting_[p].store(waiting_[p].load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    work.scheduled.where = Work::Scheduled::Where::ready;
    queued_cost_ += work.cost;
    return worker_to_wake();
  }

  void dequeue(Work& work) {
    const auto p = static_cast<std::size_t>(work.priority);
    ready_[p].remove(work);
    waiting_[p].store(waiting_[p].load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
    work.scheduled.where = Work::Scheduled::Where::nowhere;
    queued_cost_ -= work.cost;
  }

  Work* next() const noexcept {
    for (const List& list : ready_) {
      if (!list.empty()) return list.first();
    }
    return nullptr;
  }

  // Takes an item from the queue for the calling thread: to execute it, or (true) to help with it while it runs.
  bool take(Work& work) {
    if (work.scheduled.helpers_wanted == 0) {
      dequeue(work);
      return false;
    }
    retain(&work);
    if (--work.scheduled.helpers_wanted == 0) dequeue(work);
    return true;
  }

  // A sleeping worker, if there is work for it that no other worker is looking for and that is worth waking it.
  Worker* worker_to_wake() {
    if (asleep_.empty() || searching_ != 0 || !has_work()) return nullptr;
    if (asleep_.size() < threads_.load(std::memory_order_relaxed) && queued_cost_ + running_cost_ < worth_waking)
      return nullptr;
    // The one that fell asleep last, but preferably one that slept on another core than this thread's: on this core it
    // would preempt this thread instead of running beside it.
    const int here = core::current_core();
    auto chosen = asleep_.end();
    for (auto it = asleep_.begin(); it != asleep_.end(); ++it) {
      if ((*it)->index >= limit_) continue;
      if (chosen == asleep_.end() || (*it)->last_core != here || (*chosen)->last_core == here) chosen = it;
    }
    if (chosen == asleep_.end()) return nullptr;
    Worker* worker = *chosen;
    asleep_.erase(chosen);
    return worker;
  }

  void set_running(Worker& worker, std::uint64_t cost) {
    running_cost_ += cost - worker.running;
    worker.running = cost;
  }

  // Executes the target if it is in the queue, else a small item ahead of it. `anything`: of any size. `is_timed`: the
  // caller has set a timeout.
  bool run_for(Work& target, bool anything, bool is_timed) {
    if (!has_work()) return false;
    std::unique_lock lock(lock_);
    Work* work = target.scheduled.where == Work::Scheduled::Where::ready ? &target : next();
    if (!work) return false;
    if (work == &target) {
      // A caller with a timeout must not be held up by a long item, or by one that has to be compiled.
      if (!anything && is_timed && work->cost > small_enough_to_help) return false;
    } else {
      if (anything ? is_too_deep_for(*work) : !may_help_with(*work, target)) return false;
    }
    run_nested(*work, &target, lock);
    return true;
  }

  // A user's thread returns soon after its own command finishes, and runs no callbacks of other commands.
  static bool may_help_with(const Work& work, const Work& target) noexcept {
    return work.cost <= small_enough_to_help && work.priority <= target.priority && !work.is_observed();
  }

  // Whether an item may run user code that waits: callbacks at its end, or callbacks of a GPU command as an item of
  // their own.
  static bool is_too_deep_for(const Work& work) noexcept {
    const bool may_wait = work.is_observed() || work.kind == Work::Kind::host;
    return this_depth >= most_depth && may_wait && this_stalls < most_stalls;
  }

  void run_nested(Work& work, const Work* target, std::unique_lock<core::SpinLock>& lock) {
    const bool helps = take(work);
    lock.unlock();
    const Work* outer = std::exchange(this_target, target);
    ++this_depth;
    this_stalls = 0;
    helps ? assist(work) : execute(work);
    --this_depth;
    this_target = outer;
  }

  void hold(Work& work) {
    work.scheduled.where = Work::Scheduled::Where::held;
    held_.push_back(work);
    const auto delay = level_ == PowerLevel::serious ? milliseconds(10) : milliseconds(100);
    Timer::instance().at(Clock::now() + delay,
                         [weak = weak_from_this(), shared = Ref<Work>(&work), serial = work.serial()] {
                           const auto self = weak.lock();
                           if (!self) return;
                           std::unique_lock lock(self->lock_);
                           if (shared->serial() != serial || shared->scheduled.where != Work::Scheduled::Where::held)
                             return;
                           Worker* woken = self->unhold(*shared);
                           lock.unlock();
                           if (woken) woken->parker.wake_up();
                         });
  }

  Worker* unhold(Work& work) {
    held_.remove(work);
    return enqueue(work);
  }

  std::vector<std::unique_ptr<Worker>> workers_;
  std::mutex start_mutex_;
  std::atomic<unsigned> threads_{0};      // that could be started, of the first workers
  std::atomic<bool> has_started_{false};  // it was tried

  core::SpinLock lock_;
  std::array<List, 3> ready_;
  std::array<std::atomic<std::uint32_t>, 3> waiting_{};  // the lengths of ready_, to be read without the lock
  List held_;                                            // low-priority items that the power level delays
  std::vector<Worker*> asleep_;
  unsigned searching_ = 0;
  unsigned limit_;
  std::uint64_t queued_cost_ = 0;
  std::uint64_t running_cost_ = 0;
  std::atomic<PowerLevel> level_{PowerLevel::nominal};
  std::atomic<bool> stopping_{false};
  std::atomic<int> submitter_core_{-1};
};

}  // namespace

std::shared_ptr<Scheduler> make_worker_pool(unsigned workers) { return std::make_shared<WorkerPool>(workers); }

}  // namespace tessera::detail::engine
