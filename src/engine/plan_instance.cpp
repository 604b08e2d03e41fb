// The memory of a pipeline's temporaries, one set for each run under way.
#include <tessera/error.hpp>

#include "pipeline/pipeline_run.hpp"

#include <algorithm>
#include <utility>

namespace tessera::detail::engine {

namespace {

// Null for a slot before the run has brought it, and for what was fused away.
std::byte* address_of(const PipelineInstance& instance, std::size_t operand) {
  const Storage* storage = operand == plan::FusedProgram::nowhere ? nullptr : instance.storages[operand];
  return storage ? storage->block.address : nullptr;
}

std::unique_ptr<PipelineInstance> make_instance(DeviceState& device, const PipelinePlan& plan) {
  auto instance = std::make_unique<PipelineInstance>();
  for (const plan::Place& place : plan.plan.places) {
    instance->places.push_back(allocate(device, Shape(place.bytes), u8, false));
  }
  instance->storages.resize(plan.graph.buffers.size());
  for (std::size_t buffer = 0; buffer < plan.graph.buffers.size(); ++buffer) {
    if (const auto& place = plan.plan.place_of[buffer]) {
      instance->storages[buffer] = Access::get(instance->places[*place])->storage;
    } else if (plan.buffers[buffer]) {
      instance->storages[buffer] = Access::get(plan.buffers[buffer])->storage;
    }
  }
  for (const CompiledGroup& group : plan.groups) {
    driver::Launch& launch = instance->launches.emplace_back(group.launch);
    for (std::size_t i = 0; i < group.operands.size(); ++i)
      launch.buffers[i] = address_of(*instance, group.operands[i]);
  }
  if (device.queue) instance->recorded = std::make_shared<RecordedLaunches>();
  return instance;
}

PipelineInstance* idle_instance(const PipelinePlan& plan) {
  const auto found = std::ranges::find_if(plan.instances, [](const auto& instance) { return instance->is_idle(); });
  return found == plan.instances.end() ? nullptr : found->get();
}

}  // namespace

bool PipelineInstance::is_idle() const noexcept {
  return std::ranges::all_of(places,
                             [](const Buffer& place) { return Access::get(place)->storage->hazards.can_write_now(); });
}

PipelineInstance& take_instance(DeviceState& device, PipelinePlan& plan, OrderLocks& order) {
  if (PipelineInstance* idle = idle_instance(plan)) return *idle;
  if (plan.instances.size() < PipelinePlan::most_instances) {
    order.unlock();
    const std::scoped_lock growing(plan.growing);
    order.lock();
    if (PipelineInstance* idle = idle_instance(plan)) return *idle;
    if (plan.instances.size() < PipelinePlan::most_instances) {
      order.unlock();
      std::unique_ptr<PipelineInstance> made;
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

void bind(const Request& request, const PipelinePlan& plan, PipelineInstance& instance) {
  for (std::size_t i = 0; i < plan.slots.size(); ++i) instance.storages[plan.slots[i]] = request.slots[i];
  if (!plan.slots.empty()) {
    for (std::size_t g = 0; g < plan.groups.size(); ++g) {
      const std::vector<std::size_t>& operands = plan.groups[g].operands;
      for (std::size_t i = 0; i < operands.size(); ++i) {
        instance.launches[g].buffers[i] = address_of(instance, operands[i]);
      }
    }
  }
  for (const PipelineVariant::Patch& patch : request.variant->patches) {
    instance.launches[patch.group].scalars.assign(patch.scalars.data(), patch.scalars.size());
  }
}

void drop_instances(DeviceState& device, PipelinePlan& plan) {
  std::vector<std::unique_ptr<PipelineInstance>> unneeded;  // they go after the locks
  const std::scoped_lock growing(plan.growing);
  const std::scoped_lock order(device.order);
  unneeded.swap(plan.instances);
}

}  // namespace tessera::detail::engine
