// What a run does when the device is short of memory.
#include "engine/schedule/timer.hpp"
#include "operation/run.hpp"

#include <chrono>
#include <utility>

namespace tessera::detail {

// Half of the device's memory is for what has begun already: a graph that does not fit is evaluated in pieces, and each
// of them is brought to its end.
bool RunState::has_room(std::size_t bytes) {
  unseen_ += bytes;
  if (unseen_ < least_room) return true;
  const MemoryInfo memory = device_->memory.info();
  if (memory.in_use + bytes <= memory.limit / 2) {
    unseen_ = 0;
    return true;
  }
  if (memory.in_use + recorder_.promised() + bytes > memory.limit) collect();
  if (failure_ || is_starved_) return false;
  is_starved_ = is_moving();
  return !is_starved_;
}

// Whether something of it, or inside of it, ends by itself, without anything else that is begun.
bool RunState::is_moving() {
  bool is_inside = false;
  const bool is_any = visit_inner([&](RunState& run) {
    is_inside = &run != this;
    const std::scoped_lock lock(run.mutex_);
    return !run.outstanding_.empty() || run.working_ > 0;
  });
  if (is_any && is_inside) look_again();
  return is_any;
}

// What is inside tells this run only when all of it is over.
void RunState::look_again() {
  if (std::exchange(looks_again_, true)) return;
  constexpr auto soon = std::chrono::milliseconds(5);
  engine::Timer::instance().at(engine::Clock::now() + soon, [state = weak_from_this()] {
    if (const std::shared_ptr<RunState> run = state.lock()) run->post({});
  });
}

}  // namespace tessera::detail
