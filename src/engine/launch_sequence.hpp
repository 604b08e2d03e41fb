#pragma once

#include "driver/driver.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace tessera::detail::engine {

// What a device with a queue has recorded of a pipeline's run, and for which launches.
struct RecordedLaunches {
  std::mutex mutex;
  std::vector<driver::Launch> launches;
  std::unique_ptr<driver::Recording> recording;
  std::uint64_t last = 0;  // when it was started last
  // What has been started so often will be started more often: a worker makes ready what makes it quicker, and then it
  // is recorded anew. Not sooner, as a compiler may have to work for a quarter of a second (lavapipe, ten stages).
  static constexpr int often = 8;
  int starts = 0;  // as far as that is counted
  bool is_outdated = false;
};

// All launches of a run, one after the other, as one node of a device with a queue.
struct Batch {
  std::vector<driver::Launch> launches;
  std::shared_ptr<RecordedLaunches> recorded;

  // Compiles what has to be.
  void prepare(driver::Driver& driver) const;
  // By the recording, if there is one for the same launches that is not under way.
  std::uint64_t start(driver::Driver& driver) const;
  // Something that a worker should do once this was started, or nothing. The driver must live until it has.
  std::function<void()> work_for_later(driver::Driver& driver) const noexcept;
};

}  // namespace tessera::detail::engine
