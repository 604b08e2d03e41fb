#pragma once

#include "driver/gpu/api.hpp"
#include "driver/gpu/opencl/functions.hpp"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

namespace tessera::driver::gpu::opencl {

// The submissions of a queue and their completion events. Waiters poll for a moment, then rely on reports by the
// driver: OpenCL's own wait has no time limit, and would never return if a kernel hangs.
class Submissions : public std::enable_shared_from_this<Submissions> {
 public:
  explicit Submissions(std::string device) : device_(std::move(device)) {}

  // Returns the number of a new submission, which finishes with this event; if null, it has finished. Throws if the
  // device is lost.
  std::uint64_t add(Event end);
  // Like Api::wait.
  Progress wait(std::uint64_t number, Clock::time_point until);

  // Wakes all waiters; only the first reason counts.
  core::FailurePtr lose(std::string_view why);
  bool is_lost();
  void throw_if_lost();

  // Whether the device has stopped working on all of them, at the latest at `until`. Only after the device was lost.
  bool are_settled(Clock::time_point until);
  // Drops all submissions once the driver's threads have reported them, or at `until`.
  void close(Clock::time_point until);

 private:
  struct Submission {
    Event end;
    bool is_reported = false;  // the driver will report it
  };

  void collect();
  void ask_for_reports(std::uint64_t number, std::unique_lock<std::mutex>& lock) noexcept;
  core::FailurePtr lose_locked(std::string_view why);
  static void CL_CALLBACK report(cl_event, cl_int, void* data);

  const std::string device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t ended_ = 0;           // does not change once the device is lost
  std::deque<Submission> in_flight_;  // submissions after ended_
  std::uint64_t reports_ = 0;         // reports the driver still owes
  core::FailurePtr failure_;
};

}  // namespace tessera::driver::gpu::opencl
