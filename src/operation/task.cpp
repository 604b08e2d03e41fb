#include <tessera/task.hpp>

#include "engine/execution.hpp"
#include "operation/run_state.hpp"

#include <atomic>
#include <coroutine>
#include <new>
#include <utility>
#include <vector>

namespace tessera::detail {

std::uint64_t next_task_id() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

namespace {

// The coroutines that this thread resumes from inside each other.
struct Resumptions {
  static constexpr std::size_t max_nesting = 16;
  void* running = nullptr;  // the innermost
  std::size_t nesting = 0;
  std::vector<std::coroutine_handle<>> deferred;

  static thread_local Resumptions of_thread;
};
thread_local Resumptions Resumptions::of_thread;

}  // namespace

void resume_from(std::coroutine_handle<> from, std::coroutine_handle<> coroutine) {
  Resumptions& mine = Resumptions::of_thread;
  // If so, nothing but returns from such calls happens until the outermost one resumes the deferred coroutines. If not,
  // user code has resumed `from`, and runs when this call returns: it must not find `coroutine` deferred.
  const bool is_inside = mine.running == from.address();
  if (is_inside && mine.nesting >= Resumptions::max_nesting) {
    try {
      mine.deferred.push_back(coroutine);
      return;
    } catch (const std::bad_alloc&) {  // then the stack has to do
    }
  }
  void* const running = std::exchange(mine.running, coroutine.address());
  const std::size_t nesting = std::exchange(mine.nesting, is_inside ? mine.nesting + 1 : 1);
  const std::size_t before = mine.deferred.size();
  coroutine.resume();
  while (!is_inside && mine.deferred.size() > before) {
    const std::coroutine_handle<> next = mine.deferred.back();
    mine.deferred.pop_back();
    mine.running = next.address();
    mine.nesting = 1;
    next.resume();
  }
  mine.running = running;
  mine.nesting = nesting;
}

TaskWaiter::TaskWaiter() = default;
TaskWaiter::~TaskWaiter() = default;

void TaskWaiter::awaits(const OperationRun& run) {
  const std::scoped_lock lock(mutex_);
  run_ = run;
  command_ = {};
  ++changes_;
  changed_.notify_all();
}

void TaskWaiter::awaits(const Ref<engine::Work>& command) {
  const std::scoped_lock lock(mutex_);
  run_ = {};
  command_ = command;
  ++changes_;
  changed_.notify_all();
}

// Notifies under the lock: the waiting thread may destroy this object as soon as it is released.
void TaskWaiter::finish() noexcept {
  const std::scoped_lock lock(mutex_);
  is_finished_ = true;
  changed_.notify_all();
}

void TaskWaiter::wait() {
  std::unique_lock lock(mutex_);
  std::uint64_t seen = 0;
  while (!is_finished_) {
    if (changes_ != seen) {
      seen = changes_;
      const OperationRun run = run_;
      const Ref<engine::Work> command = command_;
      lock.unlock();
      if (run) run.wait();  // helps with it
      // Only for a short time: a task that is stopped no longer awaits the command.
      const bool is_settled = !command || engine::wait(*command, engine::Clock::now() + operation::max_help_time);
      lock.lock();
      if (!is_settled && changes_ == seen) --seen;  // it is still awaited
    } else {
      changed_.wait(lock, [&] { return is_finished_ || changes_ != seen; });
    }
  }
}

}  // namespace tessera::detail
