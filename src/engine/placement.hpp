#pragma once

#include "engine/executable_plan.hpp"
#include "engine/run_tracking.hpp"
#include "engine/schedule/scheduler.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string_view>
#include <utility>

// How work items get their positions in the order. Everything here is called under the order lock, except arm().
namespace tessera::detail::engine {

// Estimated nanoseconds for moving this many bytes: 8 GB/s, plus overhead. At most that of user code, which is unknown
// (scheduler.hpp).
inline std::uint64_t estimated_cost(std::int64_t bytes) {
  return std::min(unknown_cost, 100 + static_cast<std::uint64_t>(bytes) / 8);
}
// Added if it has to be compiled first.
inline constexpr std::uint64_t compilation_cost = 20'000'000;

// An item that was taken from the pool and has no position yet: returned to the pool unless it is kept.
class Taken {
 public:
  explicit Taken(Work& work) noexcept : work_(&work) {}
  Taken(Taken&& other) noexcept : work_(std::exchange(other.work_, nullptr)) {}
  ~Taken() {
    if (work_) release(work_);
  }
  Taken& operator=(Taken&&) = delete;
  Work& operator*() const noexcept { return *work_; }
  Work* operator->() const noexcept { return work_; }
  Work& keep() noexcept { return *std::exchange(work_, nullptr); }

 private:
  Work* work_;
};
Taken take_work(DeviceState& device, const BoundGroup& group);
Taken take_host_work(DeviceState& device, std::string_view label);

// Items that have positions and are not armed. If there is no memory for placing the rest, they are armed as failed: an
// item that never leaves the order would hold up everything after it. Declare it before the order lock, which must be
// released by then.
class Unarmed {
 public:
  Unarmed() = default;
  ~Unarmed();
  Unarmed(Unarmed&& other) noexcept : first_(std::exchange(other.first_, nullptr)) {}
  Unarmed& operator=(Unarmed&&) = delete;
  void add(Work& work) noexcept {
    work.next_free = first_;  // it is not in the pool
    first_ = &work;
  }
  // All items are placed: the caller arms them.
  void dismiss() noexcept { first_ = nullptr; }

 private:
  Work* first_ = nullptr;
};
// The command that was numbered last: already finished, so it has no position.
Ref<Work> take_ended(DeviceState& device, std::string_view label, Status status, core::FailurePtr failure);

// Places an item after all earlier items that conflict with it over a buffer, and after these too. If there is no
// memory for that, throws and changes nothing.
void place(Work& work, std::span<Ordered* const> also_after = {});

// A run of several groups, and the barrier that is its command.
struct Run {
  const ExecutablePlan& plan;
  PlanInstance& instance;
  RunTracker& tracker;
  Work& barrier;
};
// Places the items of its groups, after `last` too if there is one, then the barrier. As a sequence, the groups are one
// item that a device with a queue starts as a whole. If there is no memory for that, throws; what has a position then
// is in `unarmed`, and the barrier has none.
void place(const Run& run, Ordered* last, Unarmed& unarmed);
void place_sequence(const Run& run, Ordered* last, Unarmed& unarmed);

// All dependencies are known: items that are ready may start. If it `may_run_here`, this thread runs one of them.
void arm(DeviceState& device, Work& work, bool may_run_here);
void arm_run(DeviceState& device, RunTracker& tracker, Work& barrier, bool may_run_here);

}  // namespace tessera::detail::engine
