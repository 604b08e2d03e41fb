#include "driver/gpu/gles/worker.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"

#include <exception>
#include <future>
#include <memory>
#include <utility>

namespace tessera::driver::gpu::gles {

namespace {

// The longest a new job waits while the thread waits for the device.
constexpr std::uint64_t wait_nanoseconds = 100'000;

}  // namespace

Worker::Worker(const Found& found) : found_(found) {
  // Shared, since the worker may still use it when the waiter has returned.
  const auto has_context = std::make_shared<std::promise<bool>>();
  thread_ = std::thread([this, has_context] {
    const auto context = Context::make();
    has_context->set_value(context.has_value());
    if (context) run(*context);
  });
  if (has_context->get_future().get()) return;
  thread_.join();
  throw Error(Errc::device_failure,
              core::text("failed to create an EGL context for the OpenGL ES device ", found.info.name));
}

Worker::~Worker() {
  {
    const std::scoped_lock lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Worker::lose(std::string_view why) {
  completions_.lose(core::make_failure(Errc::device_failure,
                                       core::text("the OpenGL ES device ", found_.info.name, " is lost: ", why)));
}

void Worker::post(Jobs jobs) noexcept {
  {
    const std::scoped_lock lock(mutex_);
    jobs_.splice(jobs_.end(), jobs);
  }
  changed_.notify_one();
}

void Worker::call(const std::function<void()>& job) {
  bool is_done = false;
  core::FailurePtr failure;
  Jobs jobs;
  jobs.emplace_back([&] {
    core::FailurePtr thrown;
    try {
      job();
    } catch (const Error& error) {
      thrown = error.failure();
    } catch (const std::exception& error) {
      thrown = core::make_failure(Errc::out_of_memory, error.what());
    }
    {
      const std::scoped_lock lock(mutex_);
      failure = std::move(thrown);
      is_done = true;
    }
    answered_.notify_all();
  });
  post(std::move(jobs));
  std::unique_lock lock(mutex_);
  answered_.wait(lock, [&] { return is_done; });
  if (failure) throw Error(failure);
}

std::uint64_t Worker::submit(std::function<void()> job) {
  // The number comes last: one whose job was not posted would never end.
  const auto fence = std::make_shared<Fences>(1);
  Jobs jobs;
  jobs.emplace_back([this, fence, put = std::move(job)] { begin(put, *fence); });
  const std::uint64_t number = completions_.begin();
  fence->front().number = number;
  post(std::move(jobs));
  return number;
}

void Worker::run(const Context& context) {
  reset_status_ = context.reset_status();
  for (;;) {
    std::function<void()> job;
    const bool has_job = take(job);
    if (has_job) {
      job();
    } else if (fences_.empty() || completions_.is_lost()) {
      break;
    }
    retire(has_job ? 0 : wait_nanoseconds);
  }
  for (const Fence& left : fences_) functions()->glDeleteSync(left.fence);
}

// Waits for a job if there is nothing else to do. Returns whether there is one.
bool Worker::take(std::function<void()>& job) {
  std::unique_lock lock(mutex_);
  if (fences_.empty() || (completions_.is_lost() && !is_stopping_)) {
    changed_.wait(lock, [&] { return !jobs_.empty() || is_stopping_; });
  }
  if (jobs_.empty()) return false;
  job = std::move(jobs_.front());
  jobs_.pop_front();
  return true;
}

void Worker::begin(const std::function<void()>& job, Fences& fence) {
  if (completions_.is_lost()) return completions_.end(fence.front().number);
  const Functions& gl = *functions();
  job();
  fence.front().fence = gl.glFenceSync(GL_SYNC_GPU_COMMANDS_COMPLETE, 0);
  gl.glFlush();
  look_for_errors();
  if (fence.front().fence) {
    fences_.splice(fences_.end(), fence);
  } else {
    lose("glFenceSync failed");
  }
}

// Completes the submissions whose fences have been signalled, waiting up to this long for the first.
void Worker::retire(std::uint64_t nanoseconds) {
  const Functions& gl = *functions();
  while (!fences_.empty()) {
    const GLenum state = gl.glClientWaitSync(fences_.front().fence, 0, nanoseconds);
    if (state == GL_TIMEOUT_EXPIRED) return;
    if (state == GL_WAIT_FAILED) lose("glClientWaitSync failed");
    look_for_errors();
    completions_.end(fences_.front().number);
    gl.glDeleteSync(fences_.front().fence);
    fences_.pop_front();
    nanoseconds = 0;
  }
}

void Worker::look_for_errors() {
  const Functions& gl = *functions();
  if (reset_status_ && reset_status_() != GL_NO_ERROR) lose("its context was reset");
  if (const GLenum error = gl.glGetError(); error != GL_NO_ERROR) lose(error_name(error));
}

}  // namespace tessera::driver::gpu::gles
