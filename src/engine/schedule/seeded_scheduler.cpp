#include "core/random.hpp"
#include "engine/device_state.hpp"
#include "engine/execution.hpp"
#include "engine/observe/trace_record.hpp"
#include "engine/schedule/scheduler.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace tessera::detail::engine {

namespace {

thread_local const void* this_pool = nullptr;

// The scheduler of simulated devices: a seeded random generator picks the next ready item. See simulation.hpp.
class SeededScheduler final : public Scheduler, public std::enable_shared_from_this<SeededScheduler> {
 public:
  explicit SeededScheduler(const SimulationOptions& options)
      : random_(options.seed), workers_(options.workers), has_threads_(workers_ > 0) {}

  void push(Work& work) override {
    const Ref<DeviceState> device = work.device;  // the item may be gone as soon as it is in the list
    if (add(work)) {
      changed_.notify_one();
    } else {
      execute(work);
    }
    // There may be no thread left to run it.
    if (device->handles == 0) last_handle_dropped();
  }
  bool take_back(Work& work) override {
    const std::scoped_lock lock(mutex_);
    return std::erase(ready_, &work) != 0;
  }
  bool may_continue_with(const Work&) override { return false; }
  void share(Work&, std::int64_t) override {}
  void withdraw(Work&) override {}

  Clock::time_point help(Work& target, Clock::time_point until) override {
    if (!must_help()) return until;
    while (!target.is_settled()) {
      if (Clock::now() >= until || !run_one()) break;
    }
    // Another thread may be running what is missing, and it will not notify this one.
    return std::min(until, Clock::now() + std::chrono::microseconds(200));
  }
  bool must_help() const override { return !has_threads_ || this_pool == this; }
  bool run_one() override {
    Work* work = nullptr;
    {
      const std::scoped_lock lock(mutex_);
      work = draw();
    }
    if (!work) return false;
    execute(*work);
    return true;
  }
  void polled() override {
    if (!has_threads_) run_one();
  }
  bool may_use_caller() const override { return false; }
  PowerLevel power_level() const override { return level_; }
  // No effect: any order is allowed already, and the threads do not model real cores.
  void set_power_level(PowerLevel level) override { level_ = level; }

  void last_handle_dropped() override {
    if (!has_threads_)
      while (run_one()) {
      }
  }

  void stop() override {
    {
      const std::scoped_lock lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) {
      if (thread.get_id() == std::this_thread::get_id()) {
        thread.detach();
      } else {
        thread.join();
      }
    }
  }

 private:
  // False if there is no memory for it.
  bool add(Work& work) {
    const std::scoped_lock lock(mutex_);
    if (threads_.size() < workers_) start();
    try {
      ready_.push_back(&work);
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  // Under the mutex. Threads that cannot be had now are asked for again later; without any, the callers do the work.
  void start() noexcept {
    try {
      while (threads_.size() < workers_) {
        threads_.emplace_back([self = shared_from_this(), number = threads_.size() + 1] {
          name_thread("simulated worker", static_cast<unsigned>(number));
          self->run();
        });
      }
    } catch (const std::system_error&) {
    } catch (const std::bad_alloc&) {
    }
    has_threads_ = !threads_.empty();
  }
  Work* draw() {
    if (ready_.empty()) return nullptr;
    std::swap(ready_[random_.below(ready_.size())], ready_.back());
    Work* work = ready_.back();
    ready_.pop_back();
    return work;
  }

  void run() {
    this_pool = this;
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stopping_ || !ready_.empty(); });
      if (ready_.empty()) return;
      // Sometimes let another thread go first, or more items become ready.
      if (random_.below(4) == 0) {
        lock.unlock();
        std::this_thread::yield();
        lock.lock();
      }
      Work* work = draw();
      if (!work) continue;
      lock.unlock();
      execute(*work);
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  core::Random random_;
  const unsigned workers_;
  std::atomic<bool> has_threads_;  // or none were needed yet
  std::vector<Work*> ready_;
  std::vector<std::thread> threads_;
  bool stopping_ = false;
  std::atomic<PowerLevel> level_{PowerLevel::nominal};
};

}  // namespace

std::shared_ptr<Scheduler> make_seeded_scheduler(const SimulationOptions& options) {
  return std::make_shared<SeededScheduler>(options);
}

}  // namespace tessera::detail::engine
