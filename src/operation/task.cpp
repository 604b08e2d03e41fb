#include <tessera/task.hpp>

#include "engine/submission.hpp"
#include "operation/run.hpp"

#include <atomic>
#include <coroutine>
#include <utility>
#include <vector>

namespace tessera::detail {

std::uint64_t next_task_id() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

namespace {

// The coroutines that this thread resumes from each other.
struct Resumptions {
  static constexpr std::size_t most_nested = 16;
  void* running = nullptr;  // the innermost
  std::size_t nested = 0;
  std::vector<std::coroutine_handle<>> put_off;

  static thread_local Resumptions of_thread;
};
thread_local Resumptions Resumptions::of_thread;

}  // namespace

void resume_from(std::coroutine_handle<> from, std::coroutine_handle<> coroutine) {
  Resumptions& mine = Resumptions::of_thread;
  // Then nothing but ends of such calls comes before the outermost one goes on. Else somebody has resumed `from`, and
  // goes on when this returns.
  const bool is_inside = mine.running == from.address();
  if (is_inside && mine.nested >= Resumptions::most_nested) {
    mine.put_off.push_back(coroutine);
    return;
  }
  void* const running = std::exchange(mine.running, coroutine.address());
  const std::size_t nested = std::exchange(mine.nested, is_inside ? mine.nested + 1 : 1);
  const std::size_t before = mine.put_off.size();
  coroutine.resume();
  while (!is_inside && mine.put_off.size() > before) {
    const std::coroutine_handle<> next = mine.put_off.back();
    mine.put_off.pop_back();
    mine.running = next.address();
    mine.nested = 1;
    next.resume();
  }
  mine.running = running;
  mine.nested = nested;
}

SyncDriver::SyncDriver() = default;
SyncDriver::~SyncDriver() = default;

void SyncDriver::awaits(const Run& run) {
  const std::scoped_lock lock(mutex_);
  run_ = run;
  command_ = {};
  ++changes_;
  changed_.notify_all();
}

void SyncDriver::awaits(const Ref<engine::Work>& command) {
  const std::scoped_lock lock(mutex_);
  run_ = {};
  command_ = command;
  ++changes_;
  changed_.notify_all();
}

// Under the lock to its end: the waiting thread destroys this object.
void SyncDriver::finish() noexcept {
  const std::scoped_lock lock(mutex_);
  is_over_ = true;
  changed_.notify_all();
}

void SyncDriver::wait() {
  std::unique_lock lock(mutex_);
  std::uint64_t seen = 0;
  while (!is_over_) {
    if (changes_ != seen) {
      seen = changes_;
      const Run run = run_;
      const Ref<engine::Work> command = command_;
      lock.unlock();
      // And works for it.
      if (run) run.wait();
      const bool is_settled = !command || engine::wait(*command, engine::Clock::now() + longest_wait);
      lock.lock();
      if (!is_settled && changes_ == seen) --seen;  // a task that was stopped waits for it no longer
    } else {
      changed_.wait(lock, [&] { return is_over_ || changes_ != seen; });
    }
  }
}

}  // namespace tessera::detail
