#pragma once

#include "driver/driver.hpp"
#include "engine/work.hpp"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>

namespace tessera::detail::engine {

// The works that a device with a queue of its own has in flight, in the order in which they were started. Whoever waits
// for one of them waits for the device; a thread of the queue's own does if nobody else might. Any thread.
class DeviceQueue {
 public:
  explicit DeviceQueue(driver::Driver& driver);
  ~DeviceQueue();
  DeviceQueue(const DeviceQueue&) = delete;
  DeviceQueue& operator=(const DeviceQueue&) = delete;

  // Starts a running work. Returns why it could not be started: then the caller finishes it.
  core::FailurePtr start(Work& work) noexcept;

  // Blocks until the device has finished the work, or all of a run, at the latest until `until`. Returns whether it is
  // settled: it may not have been started, or another thread may be about to finish it.
  bool attend(const Work& work, Clock::time_point until) noexcept;

  // While it lives, this thread promises to wait for the work if it starts it: no other needs to.
  class Attended {
   public:
    explicit Attended(const Work& work) noexcept;
    ~Attended();
    Attended(const Attended&) = delete;
    Attended& operator=(const Attended&) = delete;
  };

 private:
  struct Watch;

  std::uint64_t start_on_device(Work& work);
  static void end_those(Watch& watch, const driver::Progress& progress) noexcept;
  static void run(std::shared_ptr<Watch> watch) noexcept;

  const std::shared_ptr<Watch> watch_;
};

}  // namespace tessera::detail::engine
