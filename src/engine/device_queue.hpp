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

// What a device with a queue of its own works on: the nodes under way, in the order in which they were started. Whoever
// waits for one of them waits for the device; a thread of its own does if nobody else might. Any thread.
class DeviceQueue {
 public:
  explicit DeviceQueue(driver::Driver& driver);
  ~DeviceQueue();
  DeviceQueue(const DeviceQueue&) = delete;
  DeviceQueue& operator=(const DeviceQueue&) = delete;

  // Starts a node that runs. Returns why it could not be started: then the caller ends it.
  core::FailurePtr start(Work& node) noexcept;

  // Blocks until the device is done with the node, or with all of a run; at the latest until `until`. Whether it is
  // settled: it may not have been started, or somebody else may be about to end it.
  bool attend(const Work& node, Clock::time_point until) noexcept;

  // While it lives, this thread promises to wait for the node if it starts it: no other needs to.
  class Attended {
   public:
    explicit Attended(const Work& node) noexcept;
    ~Attended();
    Attended(const Attended&) = delete;
    Attended& operator=(const Attended&) = delete;
  };

 private:
  struct Watch;

  std::uint64_t start_on_device(Work& node);
  static void end_those(Watch& watch, const driver::Progress& progress) noexcept;
  static void run(std::shared_ptr<Watch> watch) noexcept;

  const std::shared_ptr<Watch> watch_;
};

}  // namespace tessera::detail::engine
