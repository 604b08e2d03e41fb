#include "plan/compiled_plan.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"
#include "ir/cost.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

namespace tessera::plan {

namespace {

using core::text;

// A run of more groups takes long enough to be handed to a worker, however small the groups are.
constexpr std::size_t most_small_groups = 32;

// Resolves the call of a kernel stage.
const CallProgram& resolve(const Compiler& compiler, const GraphStage& stage, const Params& params,
                           driver::Launch& launch) {
  std::vector<kernels::Operand> operands = {{stage.outputs[0].dtype, &stage.outputs[0].shape}};
  for (const Use& input : stage.inputs) operands.push_back({input.dtype, &input.shape});
  return compiler.calls.resolve(*stage.kernel, operands, params, launch, stage.tile);
}

void check_aliases(const GraphStage& stage, const CallProgram& program) {
  const Use& output = stage.outputs[0];
  for (std::size_t i = 0; i < stage.inputs.size(); ++i) {
    const Use& input = stage.inputs[i];
    if (input.buffer == output.buffer)
      check_alias(program, "", i, {input.dtype, &input.shape}, {output.dtype, &output.shape});
  }
}

void check_call(const GraphStage& stage) {
  for (std::size_t i = 0; i < stage.outputs.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (stage.outputs[i].buffer != stage.outputs[j].buffer) continue;
      throw Error(Errc::invalid_argument, text("outputs ", j, " and ", i, " are the same buffer"));
    }
  }
}

std::string context_of(std::size_t stage) { return text("stage ", stage, " "); }

}  // namespace

CompiledGroup compile_stage(const Compiler& compiler, const GraphStage& stage, std::size_t number,
                            const Params& params) {
  CompiledGroup group;
  group.label = stage.label;
  group.stage = number;
  group.context = context_of(number);
  for (const Use& use : stage.outputs) group.outputs.push_back(use.buffer);
  for (const Use& use : stage.inputs) group.inputs.push_back(use.buffer);
  driver::Launch& launch = group.launch;
  for (const Use& use : stage.outputs) launch.bytes += static_cast<std::int64_t>(use.bytes());
  for (const Use& use : stage.inputs) launch.bytes += static_cast<std::int64_t>(use.bytes());
  launch.cost = launch.bytes;
  if (!stage.kernel) {
    check_call(stage);
    group.is_host = true;
    group.input_uses = stage.inputs;
    group.output_uses = stage.outputs;
    return group;
  }
  launch.elements = stage.outputs[0].shape.elements();
  group.operands = group.outputs;
  group.operands.insert(group.operands.end(), group.inputs.begin(), group.inputs.end());
  for (std::size_t i = 0; i < group.operands.size(); ++i) launch.buffers.push_back(nullptr);
  const CallProgram& program = resolve(compiler, stage, params, launch);
  check_aliases(stage, program);
  return group;
}

namespace {

CompiledGroup compile_stage(const Compiler& compiler, const Graph& graph, std::size_t number,
                            const std::vector<Value>& values) {
  const GraphStage& stage = graph.stages[number];
  return compile_stage(compiler, stage, number, substituted(stage.params, graph, values));
}

// Compiles several stages as a group.
CompiledGroup compile_fused(const Compiler& compiler, const Graph& graph, const Group& fused) {
  const FusedProgram& code = *fused.fused;
  CompiledGroup group;
  for (const std::size_t stage : fused.stages)
    group.label += (group.label.empty() ? "" : "+") + graph.stages[stage].label;
  group.stage = fused.stages.front();
  group.context = context_of(group.stage);
  group.outputs = fused.outputs;
  group.inputs = fused.inputs;
  group.operands = code.buffers;
  driver::Launch& launch = group.launch;
  launch.executable = &compiler.driver.compile(*code.program);
  launch.elements = code.shapes[0].elements();
  for (std::size_t i = 0; i < code.buffers.size(); ++i) {
    launch.buffers.push_back(nullptr);
    for (const std::int64_t extent : code.shapes[i]) launch.dims.push_back(extent);
    if (code.buffers[i] == FusedProgram::nowhere) continue;
    launch.bytes += static_cast<std::int64_t>(code.shapes[i].size_bytes(graph.buffers[code.buffers[i]].dtype));
  }
  for (const FusedProgram::Scalar& scalar : code.scalars) launch.scalars.push_back(scalar.bits);
  launch.cost = ir::cost(*code.program, launch.dims, launch.bytes);
  return group;
}

// The plan of a kernel stage's call for these values of the parameters.
kernels::Lowering call_plan(const Graph& graph, std::size_t number, const std::vector<Value>& values) {
  const GraphStage& stage = graph.stages[number];
  const Params params = substituted(stage.params, graph, values);
  return StageCall(stage, params).lower();
}

// Stores the forms of the stages whose programs may depend on parameter values.
void find_forms(CompiledPlan& plan, const std::vector<Value>& values) {
  plan.forms.resize(plan.graph.stages.size());
  for (const Group& group : plan.plan.groups) {
    if (!group.fused) continue;
    for (const std::size_t s : group.stages) {
      if (uses_parameters(plan.graph.stages[s].params)) plan.forms[s].emplace(call_plan(plan.graph, s, values));
    }
  }
}

using Scalars = std::vector<std::uint64_t>;

// The scalars that a group of a plan is launched with for these parameter values; nothing if more than scalars would
// change. Stages of the same form are grouped alike and produce the same program.
std::optional<Scalars> fused_scalars(const CompiledPlan& plan, const Group& group, const std::vector<Value>& values) {
  const std::vector<FusedProgram::Scalar>& of_program = group.fused->scalars;
  Scalars scalars;
  for (const FusedProgram::Scalar& scalar : of_program) scalars.push_back(scalar.bits);
  for (const std::size_t stage : group.stages) {
    if (!plan.forms[stage]) continue;
    kernels::Lowering call = call_plan(plan.graph, stage, values);
    const std::vector<kernels::Lowering::Scalar> given = std::move(call.scalars);
    if (StageForm(std::move(call)) != *plan.forms[stage]) return std::nullopt;
    for (std::size_t i = 0; i < scalars.size(); ++i) {
      if (of_program[i].stage == stage) scalars[i] = given[of_program[i].number].bits();
    }
  }
  return scalars;
}
std::optional<Scalars> stage_scalars(const Compiler& compiler, const CompiledPlan& plan, std::size_t number,
                                     const std::vector<Value>& values) {
  const std::size_t stage = plan.plan.groups[number].stages.front();
  const driver::Launch made = compile_stage(compiler, plan.graph, stage, values).launch;
  const driver::Launch& before = plan.groups[number].launch;
  if (made.executable != before.executable || !std::ranges::equal(made.dims, before.dims)) return std::nullopt;
  return Scalars(made.scalars.begin(), made.scalars.end());
}

void find_used(CompiledPlan& plan) {
  const std::size_t count = plan.graph.buffers.size();
  std::vector<bool> is_used(count);
  plan.is_written.resize(count);
  for (const CompiledGroup& group : plan.groups) {
    for (const std::size_t buffer : group.inputs) is_used[buffer] = true;
    for (const std::size_t buffer : group.outputs) is_used[buffer] = plan.is_written[buffer] = true;
  }
  for (const TemporaryBlock& block : plan.plan.blocks) {
    for (const std::size_t b : block.temporaries) is_used[b] = b == block.temporaries.front();
  }
  for (std::size_t b = 0; b < count; ++b) {
    if (is_used[b]) plan.used.push_back(b);
    if (plan.graph.buffers[b].kind == GraphBuffer::Kind::slot) plan.slots.push_back(b);
  }
}

bool is_small(const CompiledPlan& plan) {
  return plan.groups.size() <= most_small_groups &&
         std::ranges::all_of(plan.groups, [&](const CompiledGroup& group) { return group.launch.cost <= small_bytes; });
}

}  // namespace

std::optional<std::vector<Patch>> patches_of(const Compiler& compiler, const CompiledPlan& plan,
                                             const std::vector<Value>& values) {
  std::vector<Patch> patches;
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    const Group& group = plan.plan.groups[g];
    const auto is_affected = [&](std::size_t s) { return uses_parameters(plan.graph.stages[s].params); };
    if (std::ranges::none_of(group.stages, is_affected)) continue;
    try {
      std::optional<Scalars> scalars =
          group.fused ? fused_scalars(plan, group, values) : stage_scalars(compiler, plan, g, values);
      if (!scalars) return std::nullopt;
      patches.push_back({g, *std::move(scalars)});
    } catch (const Error&) {
      return std::nullopt;  // making a new plan will report it
    }
  }
  return patches;
}

void compile(const Compiler& compiler, Graph of, const std::vector<Value>& values, bool fuse,
             std::vector<Problem> problems, CompiledPlan& plan) {
  plan.graph = std::move(of);
  const Graph& graph = plan.graph;

  // A stage whose operands are known to be wrong may have wrong parameters too.
  std::vector<bool> is_wrong(graph.stages.size());
  for (const Problem& problem : problems) is_wrong[problem.stage] = true;
  std::vector<CompiledGroup> stages(graph.stages.size());
  for (std::size_t s = 0; s < graph.stages.size(); ++s) {
    if (is_wrong[s]) {
      find_problems(compiler, graph, s, values, false, problems);
      continue;
    }
    try {
      stages[s] = compile_stage(compiler, graph, s, values);
    } catch (const Error&) {
      find_problems(compiler, graph, s, values, true, problems);
    }
  }
  std::ranges::move(order_problems(graph), std::back_inserter(problems));
  if (!problems.empty()) throw_problems(graph, problems);

  plan.warnings = order_warnings(graph);
  plan.plan =
      plan_of(graph, groups_of(graph, values, {fuse, compiler.driver.most_buffers(), compiler.driver.info().dtypes}));
  for (const Group& group : plan.plan.groups) {
    const std::size_t first = group.stages.front();
    plan.groups.push_back(group.fused ? compile_fused(compiler, graph, group) : std::move(stages[first]));
  }
  find_forms(plan, values);
  find_used(plan);
  plan.is_small = is_small(plan);
  // A sequence implies barriers, which use no buffers; calls cannot run on the device.
  plan.is_all_kernels = !plan.groups.empty() && std::ranges::all_of(plan.groups, [](const CompiledGroup& group) {
    return !group.is_host || (group.input_uses.empty() && group.output_uses.empty());
  });
}

}  // namespace tessera::plan
