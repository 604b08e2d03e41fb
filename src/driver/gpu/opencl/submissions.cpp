#include "driver/gpu/opencl/submissions.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"

#include <algorithm>
#include <new>
#include <thread>
#include <utility>
#include <vector>

namespace tessera::driver::gpu::opencl {

namespace {

cl_int status_of(cl_event event) {
  cl_int status = CL_COMPLETE;
  const cl_int error =
      functions()->get_event_info(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr);
  if (error != CL_SUCCESS) return error;
  // Querying the status does not make results visible: only waiting is a synchronisation point.
  if (status == CL_COMPLETE) return functions()->wait_for_events(1, &event);
  return status;
}

}  // namespace

std::uint64_t Submissions::add(Event end) {
  const std::scoped_lock lock(mutex_);
  if (failure_) throw Error(failure_);
  in_flight_.push_back({std::move(end)});
  changed_.notify_all();  // a thread may be waiting for this number
  return ended_ + in_flight_.size();
}

// Requires the lock, as do those below.
void Submissions::collect() {
  while (!failure_ && !in_flight_.empty()) {
    const Event& end = in_flight_.front().end;
    const cl_int status = end ? status_of(end.get()) : CL_COMPLETE;
    if (status > CL_COMPLETE) return;
    if (status < CL_COMPLETE) {
      lose_locked(core::text("a command failed with ", error_name(status)));
      return;
    }
    in_flight_.pop_front();
    ++ended_;
  }
}

void CL_CALLBACK Submissions::report(cl_event, cl_int, void* data) {
  const std::unique_ptr<std::shared_ptr<Submissions>> held(static_cast<std::shared_ptr<Submissions>*>(data));
  Submissions& submissions = **held;
  const std::scoped_lock lock(submissions.mutex_);
  --submissions.reports_;
  submissions.changed_.notify_all();
}

// Without memory it asks for fewer: wait() polls.
void Submissions::ask_for_reports(std::uint64_t number, std::unique_lock<std::mutex>& lock) noexcept {
  std::vector<Event> events;
  const std::uint64_t count = std::min<std::uint64_t>(number - ended_, in_flight_.size());
  try {
    events.reserve(count);
  } catch (const std::bad_alloc&) {
    return;
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    Submission& submission = in_flight_[i];
    if (!submission.end || submission.is_reported) continue;
    if (functions()->retain_event(submission.end.get()) != CL_SUCCESS) continue;
    events.emplace_back(submission.end.get());
    submission.is_reported = true;
  }
  if (events.empty()) return;
  reports_ += events.size();
  lock.unlock();  // events that have finished are reported at once, on this thread
  std::uint64_t refused = 0;
  for (const Event& event : events) {
    std::unique_ptr<std::shared_ptr<Submissions>> held(new (std::nothrow) auto(shared_from_this()));
    if (held && functions()->set_event_callback(event.get(), CL_COMPLETE, report, held.get()) == CL_SUCCESS) {
      [[maybe_unused]] const auto* given = held.release();  // the callback owns it
    } else {
      ++refused;
    }
  }
  lock.lock();
  reports_ -= refused;
}

Progress Submissions::wait(std::uint64_t number, Clock::time_point until) {
  // Polling interval, since the driver may not report events.
  constexpr auto slice = std::chrono::milliseconds(20);
  // Do not sleep for work that finishes soon.
  const Clock::time_point soon = Clock::now() + std::chrono::microseconds(50);
  std::unique_lock lock(mutex_);
  while (true) {
    collect();
    if (failure_ || ended_ >= number) return {ended_, failure_};
    const Clock::time_point now = Clock::now();
    if (now >= until) return {ended_, failure_};
    if (now < soon) {
      lock.unlock();
      std::this_thread::yield();  // the device may run on threads of this process
      lock.lock();
      continue;
    }
    ask_for_reports(number, lock);
    collect();
    if (ended_ < number && !failure_) changed_.wait_until(lock, std::min(until, now + slice));
  }
}

core::FailurePtr Submissions::lose_locked(std::string_view why) {
  core::FailurePtr failure =
      core::make_failure(Errc::device_failure, core::text("the OpenCL device ", device_, " is lost: ", why));
  if (!failure_) failure_ = failure;
  changed_.notify_all();
  return failure;
}

core::FailurePtr Submissions::lose(std::string_view why) {
  const std::scoped_lock lock(mutex_);
  return lose_locked(why);
}

bool Submissions::is_lost() {
  const std::scoped_lock lock(mutex_);
  return failure_ != nullptr;
}

void Submissions::throw_if_lost() {
  const std::scoped_lock lock(mutex_);
  if (failure_) throw Error(failure_);
}

bool Submissions::are_settled(Clock::time_point until) {
  std::unique_lock lock(mutex_);
  while (true) {
    while (!in_flight_.empty()) {
      const Event& end = in_flight_.front().end;
      if (end && status_of(end.get()) > CL_COMPLETE) break;
      in_flight_.pop_front();
    }
    if (in_flight_.empty()) return true;
    if (Clock::now() >= until) return false;
    changed_.wait_for(lock, std::chrono::milliseconds(1));
  }
}

void Submissions::close(Clock::time_point until) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, until, [&] { return reports_ == 0; });
  in_flight_.clear();
}

}  // namespace tessera::driver::gpu::opencl
