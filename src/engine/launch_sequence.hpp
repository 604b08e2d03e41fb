#pragma once

#include "driver/driver.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace tessera::detail::engine {

// The recording that a device with a queue has made of a sequence of launches.
struct RecordedLaunches {
  std::mutex mutex;
  std::vector<driver::Launch> launches;
  std::unique_ptr<driver::Recording> recording;
  std::uint64_t last = 0;  // the queue number of its last start
  // After this many starts more are likely: a worker prepares a faster recording, which then replaces this one. Not
  // sooner, since the compiler may need a quarter of a second (lavapipe, ten stages).
  static constexpr int often = 8;
  int starts = 0;  // counted up to `often`
  bool is_outdated = false;
};

// Launches that a device with a queue starts as one work item, one after the other.
struct LaunchSequence {
  std::vector<driver::Launch> launches;
  std::shared_ptr<RecordedLaunches> recorded;

  // Compiles the launches that are not compiled yet.
  void prepare(driver::Driver& driver) const;
  // Starts the recording if it is of the same launches and not in flight.
  std::uint64_t start(driver::Driver& driver) const;
  // What a worker should do after the start, or null. The driver must outlive it.
  std::function<void()> work_for_later(driver::Driver& driver) const noexcept;
};

}  // namespace tessera::detail::engine
