#include "driver/gpu/watchdog.hpp"

#include "core/text.hpp"
#include "driver/gpu/time_limit.hpp"

#include <algorithm>

namespace tessera::driver::gpu {

using namespace std::chrono_literals;

Watchdog::Watchdog(Api& api) : api_(api), limit_(time_limit()) {}

std::uint64_t Watchdog::started(std::uint64_t number) noexcept {
  const std::scoped_lock lock(mutex_);
  if (ended_ >= last_) since_ = Clock::now();
  last_ = std::max(last_, number);
  return number;
}

Clock::time_point Watchdog::deadline(std::uint64_t number) {
  const std::scoped_lock lock(mutex_);
  // What has not been started, or is known to have finished, has no deadline.
  return number > last_ || number <= ended_ ? Clock::time_point::max() : since_ + limit_;
}

void Watchdog::note(std::uint64_t ended) {
  const std::scoped_lock lock(mutex_);
  if (ended <= ended_) return;
  ended_ = ended;
  since_ = Clock::now();
}

void Watchdog::lose_if_still(std::uint64_t ended) {
  {
    const std::scoped_lock lock(mutex_);
    if (ended < ended_ || Clock::now() < since_ + limit_) return;
  }
  const double seconds = std::chrono::duration<double>(limit_).count();
  api_.lose(core::text("a kernel has not finished within ", seconds, " s (set TESSERA_GPU_TIMEOUT to allow more)"));
}

Progress Watchdog::wait(std::uint64_t number, Clock::time_point until) {
  // How long the waiting thread sleeps at most; one that sleeps for far longer was stopped, as was the whole process.
  constexpr auto slice = 1s;
  while (true) {
    const Clock::time_point begin = Clock::now();
    const Clock::time_point end = deadline(number);
    const Clock::time_point asked = std::min({until, end, begin + slice});
    const Progress progress = api_.wait(number, asked);
    note(progress.ended);
    if (progress.failure || progress.ended >= number) return progress;
    const Clock::time_point now = Clock::now();
    if (const auto late = now - std::max(asked, begin); late > slice) {
      const std::scoped_lock lock(mutex_);
      since_ += late;
    } else if (now >= end) {
      lose_if_still(progress.ended);
    }
    if (now >= until) return progress;
  }
}

}  // namespace tessera::driver::gpu
