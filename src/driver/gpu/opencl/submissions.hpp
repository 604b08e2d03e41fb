#pragma once

#include "driver/gpu/api.hpp"
#include "driver/gpu/opencl/functions.hpp"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tessera::driver::gpu::opencl {

// What was submitted to a queue, by the events with which it ends. Whoever waits for one waits for its event itself: a
// driver that reports events does so from one more thread.
class Submissions : public std::enable_shared_from_this<Submissions> {
 public:
  explicit Submissions(std::string device) : device_(std::move(device)) {}

  // The number of a new one, which ends with this event; without one it has ended. Throws what the device was lost for.
  std::uint64_t add(Event end);
  // As Api::wait. A loss that is only declared is noticed, without a time to wait until, when the device ends what is
  // waited for.
  Progress wait(std::uint64_t number, Clock::time_point until);

  // Everybody is told; only the first reason counts.
  core::FailurePtr lose(std::string_view why);
  bool is_lost();
  void throw_if_lost();

  // Forgets all, when the driver's threads have left or time is up.
  void close(Clock::time_point until);

 private:
  struct Submission {
    Event end;
    bool is_reported = false;  // the driver will tell
  };

  void collect();
  void ask_for_reports(std::uint64_t number, std::unique_lock<std::mutex>& lock);
  std::vector<Event> events_up_to(std::uint64_t number) const;
  core::FailurePtr lose_locked(std::string_view why);
  static void CL_CALLBACK report(cl_event, cl_int, void* data);

  const std::string device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t ended_ = 0;           // stays as it is once the device is lost
  std::deque<Submission> under_way_;  // those after ended_
  std::uint64_t reports_ = 0;         // that the driver has still to make
  core::FailurePtr failure_;
};

}  // namespace tessera::driver::gpu::opencl
