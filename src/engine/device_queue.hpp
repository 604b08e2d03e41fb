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

// The work items that a device with its own queue has in flight, in the order in which they were started. A thread that
// waits for one of them waits for the device; if there is no such thread, the queue's watching thread does. Any thread.
class DeviceQueue {
 public:
  explicit DeviceQueue(driver::Driver& driver);
  ~DeviceQueue();
  DeviceQueue(const DeviceQueue&) = delete;
  DeviceQueue& operator=(const DeviceQueue&) = delete;

  // Starts a running item. If that fails it returns why, and the caller must finish the item.
  core::FailurePtr start(Work& work) noexcept;

  // Blocks until the device has finished the item, or the whole run, or until `until`. Returns whether it is settled:
  // it may not have been started, or another thread may be about to finish it.
  bool attend(const Work& work, Clock::time_point until) noexcept;

  // While it lives, this thread promises to wait for the item if it starts it, so that no other thread needs to.
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
  static void finish_completed(Watch& watch, const driver::Progress& progress) noexcept;
  static void run(std::shared_ptr<Watch> watch) noexcept;

  const std::shared_ptr<Watch> watch_;
};

}  // namespace tessera::detail::engine
