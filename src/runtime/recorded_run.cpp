#include "runtime/recorded_run.hpp"

#include <algorithm>
#include <chrono>

namespace tessera::detail {

namespace {

bool is_same(const driver::Launch& a, const driver::Launch& b) {
  return a.executable == b.executable && a.elements == b.elements && std::ranges::equal(a.buffers, b.buffers) &&
         std::ranges::equal(a.dims, b.dims) && std::ranges::equal(a.scalars, b.scalars);
}

}  // namespace

void Batch::prepare(driver::Driver& driver) const {
  for (const driver::Launch& launch : launches) driver.pieces(launch);
}

std::uint64_t Batch::start(driver::Driver& driver) const {
  const std::scoped_lock lock(recorded->mutex);
  const bool is_free =
      driver.wait(recorded->last, std::chrono::steady_clock::time_point::min()).ended >= recorded->last;
  if (!is_free) return driver.start(launches);
  if (!recorded->recording || !std::ranges::equal(launches, recorded->launches, is_same)) {
    recorded->recording = nullptr;  // its memory may serve the next one
    recorded->recording = driver.record(launches);
    recorded->launches = launches;
  }
  return recorded->last = driver.start(*recorded->recording);
}

}  // namespace tessera::detail
