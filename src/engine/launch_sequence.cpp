#include "engine/launch_sequence.hpp"

#include <algorithm>
#include <chrono>

namespace tessera::detail::engine {

namespace {

bool is_same(const driver::Launch& a, const driver::Launch& b) {
  return a.executable == b.executable && a.elements == b.elements && std::ranges::equal(a.buffers, b.buffers) &&
         std::ranges::equal(a.dims, b.dims) && std::ranges::equal(a.scalars, b.scalars);
}
bool is_same(const std::vector<driver::Launch>& a, const std::vector<driver::Launch>& b) {
  return std::ranges::equal(a, b, [](const driver::Launch& x, const driver::Launch& y) { return is_same(x, y); });
}

}  // namespace

void LaunchSequence::prepare(driver::Driver& driver) const {
  for (const driver::Launch& launch : launches) driver.pieces(launch);
}

std::uint64_t LaunchSequence::start(driver::Driver& driver) const {
  const std::scoped_lock lock(recorded->mutex);
  const bool is_free =
      driver.wait(recorded->last, std::chrono::steady_clock::time_point::min()).ended >= recorded->last;
  if (!is_free) return driver.start(launches);
  const bool is_other = !recorded->recording || !is_same(launches, recorded->launches);
  if (is_other || recorded->is_outdated) {
    recorded->recording = nullptr;  // its memory may be reused by the next one
    recorded->recording = driver.record(launches);
    recorded->launches = launches;
    if (is_other) recorded->starts = 0;
    recorded->is_outdated = false;
  }
  if (recorded->starts < RecordedLaunches::often) ++recorded->starts;
  return recorded->last = driver.start(*recorded->recording);
}

std::function<void()> LaunchSequence::work_for_later(driver::Driver& driver) const noexcept try {
  const std::scoped_lock lock(recorded->mutex);
  if (recorded->starts != RecordedLaunches::often) return nullptr;
  ++recorded->starts;
  return [&driver, what = launches, of = recorded] {
    driver.prepare_to_record(what);
    const std::scoped_lock now(of->mutex);
    of->is_outdated = true;
  };
} catch (const std::exception&) {
  return nullptr;  // the recording stays as fast as it is
}

}  // namespace tessera::detail::engine
