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

// The only way into the engine. Whatever is submitted consists of groups bound to memory: a command is one group, a run
// of a plan several, a read or write one on the host. All take the same steps (submission.cpp): enter the stream; make
// the checks that need the order lock; then either run small work on this thread, or place work items in the order and
// arm them.
namespace tessera::detail::engine {

// What the caller wants back: always a command; a command only if the work has not finished yet; or nothing, because it
// waits for the end and may run the work itself.
enum class Wants : std::uint8_t { command, unfinished, end };

// A call of a kernel.
struct Call {
  std::string_view name = {};                 // of the kernel, or
  const tile::Kernel* tile_kernel = nullptr;  // the kernel itself, or
  const kernels::Kernel* known = nullptr;     // the registered kernel
  const View* output = nullptr;               // null: an empty handle, which is refused
  std::span<const View* const> inputs{};      // likewise
  kernels::ParamsView params;
  StreamState* stream = nullptr;
  std::span<const std::int64_t> tile = {};  // the output's tile, if the caller chose it
};
// submit() always returns a command: one that has already failed if the call is wrong. start() returns nothing if the
// work was so small that it has finished; like run(), which blocks, it throws if the call is wrong.
Ref<Work> submit(DeviceState& device, const Call& call);
Ref<Work> start(DeviceState& device, const Call& call);
void run(DeviceState& device, const Call& call);

// A run of a plan.
struct PlanRun {
  const std::shared_ptr<const PlanVariant>& variant;
  const std::shared_ptr<RunLog>& log;
  std::span<Storage* const> slots;  // in the order of the plan's slots
  StreamState* stream = nullptr;
};
inline constexpr std::string_view run_label = "pipeline";
Ref<Work> submit(DeviceState& device, const PlanRun& run);
void run(DeviceState& device, const PlanRun& run);

// A host function that uses a buffer, at its position in the order. run_host() blocks until it has returned, and throws
// if it failed; submit_host() does neither, and returns nothing if the function was small and has been called.
struct HostWork {
  const char* label;
  Storage* storage;
  bool writes = false;  // else it reads
  bool heals = false;   // it overwrites the whole buffer; else the buffer must not be poisoned
  std::int64_t bytes = 0;
  std::function<void()> function;
};
void run_host(DeviceState& device, HostWork work);
Ref<Work> submit_host(DeviceState& device, HostWork work);

// Gives the host access to the memory: blocks until the buffer is free. Pass the result to unmap(). `holder` is the
// object that will do so: see self_wait.hpp.
Ref<Work> map(Storage& storage, bool writes, const void* holder);
void unmap(Work& end) noexcept;
// Returns the storage's memory to the pool when everything that uses it has finished; takes over a reference.
void release_in_order(Storage& storage) noexcept;

// A command that has failed before it could start. It poisons its outputs in its turn, so that nobody takes their old
// contents for its results; those that are freed, or belong to another device, are left out.
Ref<Work> refuse(DeviceState& device, std::string_view label, core::FailurePtr failure,
                 std::span<Storage* const> outputs = {});

}  // namespace tessera::detail::engine
