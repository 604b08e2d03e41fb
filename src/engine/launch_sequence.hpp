#pragma once

#include "driver/driver.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace tessera::detail::engine {

// What a device with a queue has recorded of a sequence of launches, and for which launches.
struct RecordedLaunches {
  std::mutex mutex;
  std::vector<driver::Launch> launches;
  std::unique_ptr<driver::Recording> recording;
  std::uint64_t last = 0;  // when it was started last
  // After so many starts more are likely: a worker prepares what makes a recording faster, and it is recorded again.
  // Not sooner, since the compiler may need a quarter of a second (lavapipe, ten stages).
  static constexpr int often = 8;
  int starts = 0;  // counted up to `often`
  bool is_outdated = false;
};

// Launches that a device with a queue starts as one work, one after the other.
struct LaunchSequence {
  std::vector<driver::Launch> launches;
  std::shared_ptr<RecordedLaunches> recorded;

  // Compiles what has to be.
  void prepare(driver::Driver& driver) const;
  // From the recording, if there is one for the same launches that is not in flight.
  std::uint64_t start(driver::Driver& driver) const;
  // What a worker should do once this has started, or nothing. The driver must outlive it.
  std::function<void()> work_for_later(driver::Driver& driver) const noexcept;
};

}  // namespace tessera::detail::engine
