#pragma once

#include "driver/gpu/completions.hpp"
#include "driver/gpu/gles/context.hpp"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace tessera::driver::gpu::gles {

// The thread that owns the context. Whoever wants something of OpenGL ES sends it a job; they are done in order.
class Worker {
 public:
  // Throws Errc::device_failure if there is no context.
  explicit Worker(const Found& found);
  // Does what was posted, and waits for it.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  const Found& found() const noexcept { return found_; }
  Completions& completions() noexcept { return completions_; }
  void lose(std::string_view why);

  // Returns at once. The job must not throw.
  void post(std::function<void()> job);
  // Returns when the job is done, and throws the Error that it throws.
  void call(const std::function<void()>& job);
  // Returns at once with the submission's number; `job` puts its commands into the context.
  std::uint64_t submit(std::function<void()> job);

 private:
  struct Fence {
    GLsync fence;
    std::uint64_t number;
  };

  void run(const Context& context);
  bool take(std::function<void()>& job);
  void begin(const std::function<void()>& job, std::uint64_t number);
  void retire(std::uint64_t nanoseconds);
  void look_for_errors();

  const Found& found_;
  Completions completions_;
  std::deque<Fence> fences_;  // of the thread alone
  bool reports_resets_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;   // for the thread
  std::condition_variable answered_;  // for those whose job is done
  std::deque<std::function<void()>> jobs_;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace tessera::driver::gpu::gles
