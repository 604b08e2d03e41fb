#pragma once

#include "engine/cross_device.hpp"
#include "engine/device_state.hpp"
#include "engine/launch_sequence.hpp"
#include "plan/compiled_plan.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

namespace tessera::detail::engine {

// A group of a plan bound to its memory: becomes one work item. A command is a single one.
struct BoundGroup {
  Work::Kind kind = Work::Kind::kernel;
  bool heals = true;         // it overwrites its outputs completely
  std::string_view label;    // as in Work
  std::string_view context;  // as in Work
  driver::Launch launch;
  core::InlineVector<Storage*, 3> inputs;
  core::InlineVector<Storage*, 1> outputs;

  bool is_compiled() const noexcept {
    return !launch.executable || launch.elements == 0 || launch.executable->is_ready();
  }
};

// A buffer of a submission: each is listed once.
struct BufferUse {
  Storage* storage;
  bool writes;
};

// What one run at a time uses: memory for the temporaries, and the groups bound to it. Everything but the blocks is
// used only under the order lock.
struct PlanInstance {
  std::vector<Ref<View>> blocks;
  std::vector<Storage*> storages;  // by buffer
  std::vector<BoundGroup> groups;
  std::vector<BufferUse> uses;                 // of the plan's `used` buffers
  std::shared_ptr<RecordedLaunches> recorded;  // on a device with a queue

  bool is_idle() const noexcept;
};

// A plan that can run: a compiled plan with the caller's buffers, the functions of its host groups, and memory for its
// temporaries. Immutable except for the instances.
struct ExecutablePlan : plan::CompiledPlan {
  // What a host group calls; empty for a barrier.
  using Function = std::function<void(Work&)>;

  // Call it once buffers, functions and borrowed buffers are set.
  void complete(DeviceState& device);

  std::vector<Ref<View>> buffers;   // the caller's own, by buffer; null for the others
  std::vector<Function> functions;  // by group
  std::vector<Ref<View>> borrowed;  // by group: the other device's buffer, of a copy between devices

  // Set by complete().
  std::vector<std::size_t> borrowing;  // which groups copy between devices, in the order of their stages
  std::vector<DeviceState*> lenders;   // the devices of those copies and the plan's own, sorted for OrderLocks
  // Where the buffer of a slot is used.
  struct SlotUse {
    enum class As : std::uint8_t { operand, input, output, use };
    std::size_t slot;
    As as;
    std::size_t group;
    std::size_t index;
  };
  std::vector<SlotUse> slot_uses;

  // Each run in flight needs memory of its own; with more runs than this, they wait for each other. Under the order
  // lock, and changed only while `growing` is held too.
  static constexpr std::size_t most_instances = 4;
  std::vector<std::unique_ptr<PlanInstance>> instances;
  std::size_t next_instance = 0;
  std::mutex growing;
};

// A plan with the parameter values of a run.
struct PlanVariant {
  std::vector<Value> values;
  std::shared_ptr<ExecutablePlan> plan;
  std::vector<plan::Patch> patches;  // the scalars of the groups that use parameters
};

// An idle instance, a new one, or one in use: then this run waits for the earlier ones because of the buffers.
// Errc::out_of_memory if there is none at all. Under the order lock, which it may release for a while.
PlanInstance& take_instance(DeviceState& device, ExecutablePlan& plan, OrderLocks& order);
// Binds the slots' memory, in the order of the plan's slots, and the parameters' values. Under the order lock.
void bind(const PlanVariant& variant, std::span<Storage* const> slots, PlanInstance& instance);
// Returns the temporaries' memory to the device, as soon as the runs that use it have finished.
void drop_instances(DeviceState& device, ExecutablePlan& plan);

}  // namespace tessera::detail::engine
