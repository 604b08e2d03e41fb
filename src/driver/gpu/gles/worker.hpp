#pragma once

#include "driver/gpu/completions.hpp"
#include "driver/gpu/gles/context.hpp"

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace tessera::driver::gpu::gles {

// The thread that owns the context. All OpenGL ES calls are jobs that it runs in order.
class Worker {
 public:
  // Throws Errc::device_failure if the context cannot be created.
  explicit Worker(const Found& found);
  // Runs all posted jobs and waits for them.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  const Found& found() const noexcept { return found_; }
  Completions& completions() noexcept { return completions_; }
  void lose(std::string_view why);

  // What the thread has to do. A list, so that what must not fail for want of memory is made beforehand and only moved
  // from list to list later.
  using Jobs = std::list<std::function<void()>>;
  // Does not wait. The jobs must not throw.
  void post(Jobs jobs) noexcept;
  // Waits for the job and rethrows its Error.
  void call(const std::function<void()>& job);
  // Returns the submission's number without waiting; `job` issues its commands.
  std::uint64_t submit(std::function<void()> job);

 private:
  struct Fence {
    GLsync fence = nullptr;
    std::uint64_t number = 0;
  };
  using Fences = std::list<Fence>;

  void run(const Context& context);
  bool take(std::function<void()>& job);
  void begin(const std::function<void()>& job, Fences& fence);
  void retire(std::uint64_t nanoseconds);
  void look_for_errors();

  const Found& found_;
  Completions completions_;
  Fences fences_;  // of the submissions in flight; used by the thread only
  GetResetStatus reset_status_ = nullptr;

  std::mutex mutex_;
  std::condition_variable changed_;   // wakes the thread
  std::condition_variable answered_;  // wakes waiters whose job is done
  Jobs jobs_;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace tessera::driver::gpu::gles
