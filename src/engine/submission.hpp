#pragma once

#include <tessera/detail/handle.hpp>
#include <tessera/shape.hpp>

#include "engine/executable_plan.hpp"
#include "engine/run_tracking.hpp"
#include "kernels/kernel.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

// The one way down to the engine. Whatever is submitted, it is groups with their memory: a command is one, a run of a
// plan several, a read or write one on the host. All take the same steps (submission.cpp): a place in the stream; the
// checks that need the order lock; then either the small work is done on the spot, or works are placed in the order and
// armed.
namespace tessera::detail::engine {

// What the caller wants back: a command in any case; one only if the work has not finished yet; or nothing, since it
// waits: then it may run the work itself.
enum class Wants : std::uint8_t { command, unfinished, end };

// A call of a kernel.
struct Call {
  std::string_view name = {};                 // of the kernel, or
  const tile::Kernel* tile_kernel = nullptr;  // the kernel itself, or
  const kernels::Kernel* known = nullptr;     // as it is registered
  const View* output = nullptr;               // null: an empty handle, which is refused
  std::span<const View* const> inputs{};      // the same
  kernels::Given params;
  StreamState* stream = nullptr;
  std::span<const std::int64_t> tile = {};  // of the output, if the caller chose it
};
// submit() returns a command in any case: one that has already failed if the call is wrong. start() returns nothing for
// work that was so small that it is done; it throws what is wrong with the call, as run() does, which blocks.
Ref<Work> submit(DeviceState& device, const Call& call);
Ref<Work> start(DeviceState& device, const Call& call);
void run(DeviceState& device, const Call& call);

// A run of a plan.
struct PlanRun {
  const std::shared_ptr<const PlanVariant>& variant;
  const std::shared_ptr<RunLog>& log;
  std::span<Storage* const> slots;  // in the order of the plan's
  StreamState* stream = nullptr;
};
inline constexpr std::string_view run_label = "pipeline";
Ref<Work> submit(DeviceState& device, const PlanRun& run);
void run(DeviceState& device, const PlanRun& run);

// A function on the host that uses a buffer, in its position in the order. run_host() blocks until it is done, and
// throws if it failed; submit_host() does not, and returns nothing if the function was small and has been called.
struct HostWork {
  const char* label;
  Storage* storage;
  bool writes = false;  // else it reads
  bool heals = false;   // it writes all of it; else the buffer must not be poisoned
  std::int64_t bytes = 0;
  std::function<void()> function;
};
void run_host(DeviceState& device, HostWork work);
Ref<Work> submit_host(DeviceState& device, HostWork work);

// Gives the host access to the memory: blocks until the buffer is free. unmap() takes the work that is returned.
Ref<Work> map(Storage& storage, bool writes);
void unmap(Work& end) noexcept;
// Returns the storage's memory when all that uses it has finished; takes over a reference to the storage.
void release_in_order(Storage& storage) noexcept;

// A command that ended before it could begin. `failure` says why.
Ref<Work> refuse(DeviceState& device, std::string_view label, Status status, core::FailurePtr failure);

}  // namespace tessera::detail::engine
