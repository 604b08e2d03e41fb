#pragma once

#include "engine/executable_plan.hpp"
#include "engine/run_tracking.hpp"

#include <chrono>
#include <cstdint>
#include <string_view>

// How work items get their positions in the order. Everything here is called under the order lock, except arm().
namespace tessera::detail::engine {

// Estimated nanoseconds for moving this many bytes: 8 GB/s, plus overhead. User code has an unknown cost
// (scheduler.hpp).
inline std::uint64_t estimated_cost(std::int64_t bytes) { return 100 + static_cast<std::uint64_t>(bytes) / 8; }
// Added if it has to be compiled first.
inline constexpr std::uint64_t compilation_cost = 20'000'000;

// A work item without a position yet.
Work& take_work(DeviceState& device, const BoundGroup& group);
Work& take_host_work(DeviceState& device, std::string_view label);
// The command that was numbered last: already finished, so it has no position.
Ref<Work> take_ended(DeviceState& device, std::string_view label, Status status, core::FailurePtr failure);

// Places an item after all earlier items that conflict with it over a buffer, and after these too.
void place(Work& work, std::span<Ordered* const> also_after = {});

// A run of several groups, and the barrier that is its command.
struct Run {
  const ExecutablePlan& plan;
  PlanInstance& instance;
  RunTracker& tracker;
  Work& barrier;
};
// Places the items of its groups, after `last` too if there is one, then the barrier. As a sequence, the groups are one
// item that a device with a queue starts as a whole.
void place(const Run& run, Ordered* last);
void place_sequence(const Run& run, Ordered* last);

// All dependencies are known: items that are ready may start. If it `may_run_here`, this thread runs one of them.
void arm(DeviceState& device, Work& work, bool may_run_here);
void arm_run(DeviceState& device, RunTracker& tracker, Work& barrier, bool may_run_here);

}  // namespace tessera::detail::engine
