#include "operation/batch_plan.hpp"

#include "core/text.hpp"
#include "operation/operation_cache.hpp"

#include <utility>

namespace tessera::detail::operation {

namespace {

// How a kernel would run a call. Throws what is wrong with it.
kernels::Lowering kernel_plan_of(const CallBatch& batch, const RecordedCall& call) {
  call.kernel->check_count(call.uses.size() - 1);
  std::vector<kernels::Operand> operands;
  operands.reserve(call.uses.size());
  for (const OperandUse& use : call.uses) {
    operands.push_back({batch.operands[use.operand].dtype(), &batch.shape_of(use)});
  }
  kernels::Arguments arguments;
  call.kernel->bind(call.given(), arguments);
  return call.kernel->lower({*call.kernel,
                             std::span<const kernels::Operand>(operands).subspan(1),
                             operands[0],
                             {arguments.data(), arguments.size()},
                             call.tile});
}

// The batch as a pipeline: operands with memory are slots, the others temporaries.
plan::Graph graph_of(const CallBatch& batch) {
  using plan::GraphBuffer;
  plan::Graph graph;
  graph.buffers.resize(batch.numbered_count());
  for (std::size_t i = 0; i < batch.operands.size(); ++i) {
    const std::size_t number = batch.number_of(i);
    if (number == no_index) continue;
    const Operand& operand = batch.operands[i];
    graph.buffers[number] = {operand.buffer ? GraphBuffer::Kind::slot : GraphBuffer::Kind::temporary,
                             core::text("tensor ", number), operand.dtype(), operand.shape()};
  }
  for (const RecordedCall& call : batch.calls()) {
    if (!call.kernel) continue;
    plan::GraphStage& stage = graph.stages.emplace_back();
    stage.label = call.kernel->name;
    stage.kernel = call.kernel;
    stage.params = call.given().named(*call.kernel);
    stage.tile = call.tile;
    for (std::size_t i = 0; i < call.uses.size(); ++i) {
      const std::size_t number = batch.number_of(call.uses[i].operand);
      (i == 0 ? stage.outputs : stage.inputs)
          .push_back({number, graph.buffers[number].dtype, batch.shape_of(call.uses[i])});
    }
  }
  return graph;
}

// The index of each stage's first positional value and first derived scalar among those of all stages; no_index if it
// has none of the kind.
struct FirstScalars {
  std::vector<std::size_t> positional, named;
};

FirstScalars first_scalars(const CallBatch& batch, std::span<const kernels::Lowering> kernel_plans) {
  FirstScalars first;
  std::size_t positional = 0, named = 0;
  auto kernel_plan = kernel_plans.begin();
  for (const RecordedCall& call : batch.calls()) {
    if (!call.kernel) continue;
    const bool is_named = call.values.empty();
    first.positional.push_back(is_named ? no_index : positional);
    first.named.push_back(is_named ? named : no_index);
    positional += call.values.size();
    if (is_named) named += kernel_plan->scalars.size();
    ++kernel_plan;
  }
  return first;
}

std::shared_ptr<const BatchPlan> make_batch_plan(engine::DeviceState& device, const CallBatch& batch,
                                                 std::span<const kernels::Lowering> kernel_plans) {
  auto variant = std::make_shared<engine::PlanVariant>();
  variant->plan = std::make_shared<engine::ExecutablePlan>();
  compile({device.calls, *device.driver}, graph_of(batch), {}, true, {}, *variant->plan);
  variant->plan->buffers.resize(batch.numbered_count());
  variant->plan->complete(device);

  const FirstScalars first = first_scalars(batch, kernel_plans);
  auto made = std::make_shared<BatchPlan>();
  const std::vector<plan::Group>& groups = variant->plan->plan.groups;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::size_t count = variant->plan->groups[g].launch.scalars.size();
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t stage = groups[g].fused ? groups[g].fused->scalars[i].stage : groups[g].stages.front();
      const std::size_t value = groups[g].fused ? groups[g].fused->scalars[i].number : i;
      if (first.positional[stage] != no_index) {
        made->positional.push_back({g, i, first.positional[stage] + value});
        continue;
      }
      made->named.push_back({g, i, first.named[stage] + value});
      // Runs of the plan with other numbers leave those in its launches, so this variant has to set its own.
      if (variant->patches.empty() || variant->patches.back().group != g) {
        const auto& scalars = variant->plan->groups[g].launch.scalars;
        variant->patches.push_back({g, {scalars.begin(), scalars.end()}});
      }
    }
  }
  made->variant = std::move(variant);
  return made;
}

// Sets scalars of launches, which are in the order of their groups.
void patch(engine::PlanVariant& variant, std::span<const BatchPlan::Scalar> scalars,
           std::span<const std::uint64_t> values) {
  auto patched = variant.patches.begin();
  for (const BatchPlan::Scalar& scalar : scalars) {
    while (patched != variant.patches.end() && patched->group < scalar.group) ++patched;
    if (patched == variant.patches.end() || patched->group != scalar.group) {
      const auto& planned = variant.plan->groups[scalar.group].launch.scalars;
      patched = variant.patches.insert(patched, {scalar.group, {planned.begin(), planned.end()}});
    }
    patched->scalars[scalar.index] = values[scalar.value];
  }
}

}  // namespace

std::shared_ptr<const engine::PlanVariant> BatchPlanner::plan(engine::DeviceState& device, const CallBatch& batch,
                                                              OperationCache* cache) {
  write_exact_key(batch, key_);
  if (cache) {
    if (const auto found = cache->find(key_)) return variant_of(batch, *found, {});
  }
  std::vector<kernels::Lowering> kernel_plans;
  for (const RecordedCall& call : batch.calls()) {
    if (call.kernel) kernel_plans.push_back(kernel_plan_of(batch, call));
  }
  const BatchKey exact = key_;
  write_form_key(batch, kernel_plans, key_);
  if (cache) {
    if (const auto found = cache->find(key_)) return variant_of(batch, *found, kernel_plans);
  }
  const std::shared_ptr<const BatchPlan> made = make_batch_plan(device, batch, kernel_plans);
  if (cache) {
    cache->add(exact, made);
    if (!made->named.empty()) cache->add(key_, made);
  }
  return variant_of(batch, *made, {});
}

// With the positional values of this batch; with its named parameters too if the kernels' plans for them are passed.
std::shared_ptr<const engine::PlanVariant> BatchPlanner::variant_of(const CallBatch& batch, const BatchPlan& plan,
                                                                    std::span<const kernels::Lowering> kernel_plans) {
  if (plan.positional.empty() && kernel_plans.empty()) return plan.variant;
  auto variant = std::make_shared<engine::PlanVariant>();
  variant->plan = plan.variant->plan;
  variant->patches = plan.variant->patches;
  collect_positional_scalars(batch);
  patch(*variant, plan.positional, scalars_);
  if (!kernel_plans.empty()) {
    collect_named_scalars(batch, kernel_plans);
    patch(*variant, plan.named, scalars_);
  }
  return variant;
}

void BatchPlanner::collect_positional_scalars(const CallBatch& batch) {
  scalars_.clear();
  for (const RecordedCall& call : batch.calls()) {
    if (!call.kernel || call.values.empty()) continue;
    kernels::Arguments arguments;
    call.kernel->bind(call.given(), arguments);
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const bool is_float = call.kernel->params[i].kind == kernels::ParamSpec::Kind::number;
      scalars_.push_back(kernels::scalar_bits(is_float ? DType::f64 : DType::s64, arguments[i]));
    }
  }
}

void BatchPlanner::collect_named_scalars(const CallBatch& batch, std::span<const kernels::Lowering> kernel_plans) {
  scalars_.clear();
  auto kernel_plan = kernel_plans.begin();
  for (const RecordedCall& call : batch.calls()) {
    if (!call.kernel) continue;
    if (call.values.empty()) {
      for (const kernels::Lowering::Scalar& scalar : kernel_plan->scalars) scalars_.push_back(scalar.bits());
    }
    ++kernel_plan;
  }
}

}  // namespace tessera::detail::operation
