#pragma once

#include "driver/driver.hpp"

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace tessera::detail {

// What a device with a queue has recorded of a pipeline's run, and for which launches.
struct RecordedLaunches {
  std::mutex mutex;
  std::vector<driver::Launch> launches;
  std::unique_ptr<driver::Recording> recording;
  std::uint64_t last = 0;  // when it was started last
};

// All launches of a run, one after the other, as one node of a device with a queue.
struct Batch {
  std::vector<driver::Launch> launches;
  std::shared_ptr<RecordedLaunches> recorded;

  // Compiles what has to be.
  void prepare(driver::Driver& driver) const;
  // By the recording, if there is one for the same launches that is not under way.
  std::uint64_t start(driver::Driver& driver) const;
};

}  // namespace tessera::detail
