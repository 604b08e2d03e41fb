// What a run does when the device is short of memory.
#include "engine/schedule/timer.hpp"
#include "operation/run_state.hpp"

#include <chrono>
#include <utility>

namespace tessera::detail::operation {

// Half of the device's memory is reserved for work that has begun: a graph that does not fit is evaluated in pieces,
// each of which can be finished.
bool RunState::has_memory_for(std::size_t bytes) {
  pressure_.unchecked_bytes += bytes;
  if (pressure_.unchecked_bytes < min_memory_check) return true;
  const MemoryInfo memory = device_->memory.info();
  if (memory.in_use + bytes <= memory.limit / 2) {
    pressure_.unchecked_bytes = 0;
    return true;
  }
  if (memory.in_use + recorder_.promised_bytes() + bytes > memory.limit) flush();
  if (outcome_.failure || pressure_.is_starved) return false;
  pressure_.is_starved = is_progressing();
  return !pressure_.is_starved;
}

// Whether this run, or one inside it, has work in flight that finishes without beginning anything else.
bool RunState::is_progressing() {
  bool is_inside = false;
  const bool is_any = visit_inner([&](RunState& run) {
    is_inside = &run != this;
    const std::scoped_lock lock(run.mutex_);
    return !run.commands_.empty() || run.waiting_.has_host_functions();
  });
  if (is_any && is_inside) look_again_soon();
  return is_any;
}

// An inner run posts an event only when it has finished as a whole.
void RunState::look_again_soon() {
  if (std::exchange(pressure_.has_timer, true)) return;
  constexpr auto soon = std::chrono::milliseconds(5);
  engine::Timer::instance().at(engine::Clock::now() + soon, [state = weak_from_this()] {
    if (const std::shared_ptr<RunState> run = state.lock()) run->post({});
  });
}

}  // namespace tessera::detail::operation
