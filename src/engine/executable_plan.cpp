#include "engine/executable_plan.hpp"

#include <tessera/error.hpp>

#include <algorithm>
#include <utility>

namespace tessera::detail::engine {

namespace {

// Null for a slot that no run has bound yet, and for a buffer that fusion removed.
std::byte* address_of(const PlanInstance& instance, std::size_t operand) {
  const Storage* storage = operand == plan::FusedProgram::nowhere ? nullptr : instance.storages[operand];
  return storage ? storage->block.address : nullptr;
}

BoundGroup bound(const plan::CompiledGroup& group, const PlanInstance& instance) {
  BoundGroup made;
  made.kind = group.is_host ? Work::Kind::host : Work::Kind::kernel;
  made.label = group.label;
  made.context = group.context;
  made.launch = group.launch;
  for (std::size_t i = 0; i < group.operands.size(); ++i) {
    made.launch.buffers[i] = address_of(instance, group.operands[i]);
  }
  for (const std::size_t buffer : group.inputs) made.inputs.push_back(instance.storages[buffer]);
  for (const std::size_t buffer : group.outputs) made.outputs.push_back(instance.storages[buffer]);
  return made;
}

std::unique_ptr<PlanInstance> make_instance(DeviceState& device, const ExecutablePlan& plan) {
  auto instance = std::make_unique<PlanInstance>();
  for (const plan::TemporaryBlock& block : plan.plan.blocks) {
    instance->blocks.push_back(allocate(device, Shape(block.bytes), u8, false));
  }
  instance->storages.resize(plan.graph.buffers.size());
  for (std::size_t buffer = 0; buffer < plan.graph.buffers.size(); ++buffer) {
    if (const auto& block = plan.plan.block_of[buffer]) {
      instance->storages[buffer] = instance->blocks[*block]->storage;
    } else if (plan.buffers[buffer]) {
      instance->storages[buffer] = plan.buffers[buffer]->storage;
    }
  }
  for (const plan::CompiledGroup& group : plan.groups) instance->groups.push_back(bound(group, *instance));
  for (const std::size_t buffer : plan.used) {
    instance->uses.push_back({instance->storages[buffer], plan.is_written[buffer]});
  }
  if (device.queue) instance->recorded = std::make_shared<RecordedLaunches>();
  return instance;
}

PlanInstance* idle_instance(const ExecutablePlan& plan) {
  const auto found = std::ranges::find_if(plan.instances, [](const auto& instance) { return instance->is_idle(); });
  return found == plan.instances.end() ? nullptr : found->get();
}

}  // namespace

void ExecutablePlan::complete(DeviceState& device) {
  functions.resize(groups.size());
  borrowed.resize(groups.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (!functions[g] && !borrowed[g]) continue;
    is_small = is_all_kernels = false;  // user code and transfers may take any time
    if (!borrowed[g]) continue;
    borrowing.push_back(g);
    lenders.push_back(borrowed[g]->storage->device.get());
  }
  if (!borrowing.empty()) {
    // In the order of the stages: the graph does not know which of them use the same buffer of another device.
    std::ranges::sort(borrowing, {}, [&](std::size_t g) { return groups[g].stage; });
    lenders.push_back(&device);
    sort_for_locks(lenders);
  }

  const auto add_uses = [&](SlotUse::As as, std::size_t group, const std::vector<std::size_t>& list) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      const auto slot = std::ranges::find(slots, list[i]);
      if (slot == slots.end()) continue;
      slot_uses.push_back({static_cast<std::size_t>(slot - slots.begin()), as, group, i});
    }
  };
  if (slots.empty()) return;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    add_uses(SlotUse::As::operand, g, groups[g].operands);
    add_uses(SlotUse::As::input, g, groups[g].inputs);
    add_uses(SlotUse::As::output, g, groups[g].outputs);
  }
  add_uses(SlotUse::As::use, 0, used);
}

bool PlanInstance::is_idle() const noexcept {
  return std::ranges::all_of(blocks, [](const Ref<View>& block) { return block->storage->hazards.can_write_now(); });
}

PlanInstance& take_instance(DeviceState& device, ExecutablePlan& plan, OrderLocks& order) {
  if (PlanInstance* idle = idle_instance(plan)) return *idle;
  if (plan.instances.size() < ExecutablePlan::most_instances) {
    order.unlock();
    const std::scoped_lock growing(plan.growing);
    order.lock();
    if (PlanInstance* idle = idle_instance(plan)) return *idle;
    if (plan.instances.size() < ExecutablePlan::most_instances) {
      order.unlock();
      std::unique_ptr<PlanInstance> made;
      try {
        made = make_instance(device, plan);
      } catch (const Error&) {
        if (plan.instances.empty()) throw;
      }
      order.lock();
      if (made) return *plan.instances.emplace_back(std::move(made));
    }
  }
  return *plan.instances[plan.next_instance++ % plan.instances.size()];
}

void bind(const PlanVariant& variant, std::span<Storage* const> slots, PlanInstance& instance) {
  using As = ExecutablePlan::SlotUse::As;
  const ExecutablePlan& plan = *variant.plan;
  for (std::size_t i = 0; i < plan.slots.size(); ++i) instance.storages[plan.slots[i]] = slots[i];
  for (const ExecutablePlan::SlotUse& use : plan.slot_uses) {
    Storage* storage = slots[use.slot];
    switch (use.as) {
      case As::operand:
        instance.groups[use.group].launch.buffers[use.index] = storage ? storage->block.address : nullptr;
        break;
      case As::input:
        instance.groups[use.group].inputs[use.index] = storage;
        break;
      case As::output:
        instance.groups[use.group].outputs[use.index] = storage;
        break;
      case As::use:
        instance.uses[use.index].storage = storage;
        break;
    }
  }
  for (const plan::Patch& patch : variant.patches) {
    instance.groups[patch.group].launch.scalars.assign(patch.scalars.data(), patch.scalars.size());
  }
}

void drop_instances(DeviceState& device, ExecutablePlan& plan) {
  std::vector<std::unique_ptr<PlanInstance>> unneeded;  // destroyed after the locks are released
  const std::scoped_lock growing(plan.growing);
  const std::scoped_lock order(device.order);
  unneeded.swap(plan.instances);
}

}  // namespace tessera::detail::engine
