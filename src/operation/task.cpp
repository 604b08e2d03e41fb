#include <tessera/task.hpp>

#include <atomic>

namespace tessera::detail {

std::uint64_t next_task_id() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

void SyncDriver::awaits(const Run& run) {
  const std::scoped_lock lock(mutex_);
  awaited_ = run;
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
    if (awaited_ && changes_ != seen) {
      seen = changes_;
      const Run run = awaited_;
      lock.unlock();
      run.wait();  // and works for it
      lock.lock();
    } else {
      changed_.wait(lock, [&] { return is_over_ || changes_ != seen; });
    }
  }
}

}  // namespace tessera::detail
