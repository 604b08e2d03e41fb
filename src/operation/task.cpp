#include <tessera/task.hpp>

#include "operation/run.hpp"
#include "runtime/submit.hpp"

#include <atomic>

namespace tessera::detail {

std::uint64_t next_task_id() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
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

void SyncDriver::awaits(const Ref<Node>& command) {
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
      const Ref<Node> command = command_;
      lock.unlock();
      // And works for it.
      if (run) run.wait();
      const bool is_settled = !command || detail::wait(*command, Clock::now() + longest_wait);
      lock.lock();
      if (!is_settled && changes_ == seen) --seen;  // a task that was stopped waits for it no longer
    } else {
      changed_.wait(lock, [&] { return is_over_ || changes_ != seen; });
    }
  }
}

}  // namespace tessera::detail
