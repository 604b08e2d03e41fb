// From recorded stages to a plan that can be run.
#include <tessera/error.hpp>

#include "core/text.hpp"
#include "engine/submission.hpp"
#include "ir/analysis.hpp"
#include "kernels/diagnostics.hpp"
#include "pipeline/pipeline_state.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

namespace tessera::detail::engine {

namespace {

using core::text;
using plan::PipelineBuffer;
using plan::PipelineGraph;
using plan::PipelineStage;
using plan::Problem;
using plan::Use;

// Beyond this a run takes long enough to be handed over, however small its groups are.
constexpr std::size_t most_small_groups = 32;

// A kernel's message without its name, which the stage's has already.
std::string without_name(std::string_view message, std::string_view label) {
  const std::string name = text("[", label, "] ");
  return std::string(message.starts_with(name) ? message.substr(name.size()) : message);
}

// Resolves the call of a kernel stage.
const plan::CallProgram& resolve(DeviceState& device, const PipelineStage& stage, const Params& params,
                                 driver::Launch& launch) {
  std::vector<kernels::Operand> operands = {{stage.outputs[0].dtype, &stage.outputs[0].shape}};
  for (const Use& input : stage.inputs) operands.push_back({input.dtype, &input.shape});
  return device.calls.resolve(*stage.kernel, operands, params, launch, stage.tile);
}

// A kernel that looks around cannot write where it reads.
void check_aliases(const PipelineStage& stage, const plan::CallProgram& program) {
  const Use& output = stage.outputs[0];
  for (std::size_t i = 0; i < stage.inputs.size(); ++i) {
    const Use& input = stage.inputs[i];
    if (input.buffer != output.buffer) continue;
    const bool is_in_place = i < 64 && (program.in_place >> i & 1) != 0;
    if (is_in_place && input.shape == output.shape && input.dtype == output.dtype) continue;
    throw Error(Errc::invalid_argument,
                text("output must not be input ", i, ": ",
                     is_in_place ? text("it is read as ", to_string(input.dtype, input.shape), " and written as ",
                                        to_string(output.dtype, output.shape))
                                 : "it reads its neighbours"));
  }
}

void check_call(const PipelineStage& stage) {
  for (std::size_t i = 0; i < stage.outputs.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (stage.outputs[i].buffer != stage.outputs[j].buffer) continue;
      throw Error(Errc::invalid_argument, text("outputs ", j, " and ", i, " are the same buffer"));
    }
  }
}

// A stage as a group of its own.
CompiledGroup compile_stage(DeviceState& device, const PipelineStage& stage, std::size_t number, const Params& params) {
  CompiledGroup group;
  group.label = stage.label;
  group.stage = static_cast<int>(number);
  for (const Use& use : stage.outputs) group.outputs.push_back(use.buffer);
  for (const Use& use : stage.inputs) group.inputs.push_back(use.buffer);
  driver::Launch& launch = group.launch;
  for (const Use& use : stage.outputs) launch.bytes += static_cast<std::int64_t>(use.bytes());
  for (const Use& use : stage.inputs) launch.bytes += static_cast<std::int64_t>(use.bytes());
  group.work = launch.bytes;
  if (!stage.kernel) {
    check_call(stage);
    group.kind = Work::Kind::host;
    group.input_uses = stage.inputs;
    group.output_uses = stage.outputs;
    return group;
  }
  launch.elements = stage.outputs[0].shape.elements();
  group.operands = group.outputs;
  group.operands.insert(group.operands.end(), group.inputs.begin(), group.inputs.end());
  for (std::size_t i = 0; i < group.operands.size(); ++i) launch.buffers.push_back(nullptr);
  const plan::CallProgram& program = resolve(device, stage, params, launch);
  check_aliases(stage, program);
  group.work *= program.weight;
  return group;
}
CompiledGroup compile_stage(DeviceState& device, const PipelineGraph& graph, std::size_t number,
                            const std::vector<Value>& values) {
  const PipelineStage& stage = graph.stages[number];
  return compile_stage(device, stage, number, substituted(stage.params, graph, values));
}

// What is wrong with the parameters of a kernel stage, each by itself. Whether the others tell what its operands must
// be.
bool find_wrong_params(const PipelineGraph& graph, std::size_t number, const std::vector<Value>& values, Params& right,
                       std::vector<Problem>& problems) {
  const PipelineStage& stage = graph.stages[number];
  kernels::Kernel lenient = *stage.kernel;
  for (kernels::ParamSpec& spec : lenient.params) spec.is_required = false;
  bool is_complete = true;
  const auto bind = [&](const Params& params) {
    try {
      kernels::Arguments arguments;
      lenient.bind(params, arguments);
      return true;
    } catch (const Error& error) {
      problems.push_back({number, error.code(), without_name(error.what(), stage.label)});
      return false;
    }
  };
  const auto is_given = [&](const std::string& name) {
    return std::ranges::find(stage.params, name, &Param::name) != stage.params.end();
  };
  for (const Param& param : stage.params) {
    Params one;
    try {
      one.set(param.name, substituted(param.value, graph, values));
    } catch (const Error& error) {
      problems.push_back({number, error.code(), error.what()});
      is_complete = false;
      continue;
    }
    const bool is_known =
        std::ranges::find(lenient.params, param.name, &kernels::ParamSpec::name) != lenient.params.end();
    if (bind(one)) {
      right.set(param.name, one.begin()->value);
    } else if (is_known) {
      is_complete = false;
    }
  }
  for (std::size_t i = 0; i < lenient.params.size(); ++i) {
    if (!stage.kernel->params[i].is_required || is_given(lenient.params[i].name)) continue;
    lenient.params[i].is_required = true;
    bind({});
    lenient.params[i].is_required = is_complete = false;
  }
  return is_complete;
}

// What is wrong with the types and shapes of a kernel stage's operands. Whether something is.
bool find_wrong_operands(const PipelineStage& stage, std::size_t number, std::vector<Problem>& problems) {
  kernels::Diagnostics diagnostics;
  try {
    plan::StageCall(stage, stage.params).plan();
  } catch (const Error& error) {
    // Having gone on in spite of a mistake, a plan may stumble over what follows from it.
    const bool is_of_kernel = error.message().starts_with(text("[", stage.kernel->name, "]"));
    if (is_of_kernel || diagnostics.errors().empty()) diagnostics.add(error);
  }
  for (const Error& error : diagnostics.errors()) {
    problems.push_back({number, error.code(), without_name(error.what(), stage.label)});
  }
  return !diagnostics.errors().empty();
}

// All that is wrong with a stage that cannot be compiled: its parameters, the number of its inputs, their types and
// shapes.
void find_problems(DeviceState& device, const PipelineGraph& graph, std::size_t number,
                   const std::vector<Value>& values, std::vector<Problem>& problems) {
  PipelineStage stage = graph.stages[number];
  const auto note = [&](const Error& error) {
    problems.push_back({number, error.code(), without_name(error.what(), stage.label)});
  };
  stage.params = {};
  const bool has_params = !stage.kernel || find_wrong_params(graph, number, values, stage.params, problems);
  try {
    if (stage.kernel) stage.kernel->check_count(stage.inputs.size());
    if (!has_params || (stage.kernel && find_wrong_operands(stage, number, problems))) return;
    compile_stage(device, stage, number, stage.params);
  } catch (const Error& error) {
    note(error);
  }
}

// Several stages as a group.
CompiledGroup compile_fused(DeviceState& device, const PipelineGraph& graph, const plan::Group& fused) {
  const plan::FusedProgram& code = *fused.fused;
  CompiledGroup group;
  for (const std::size_t stage : fused.stages)
    group.label += (group.label.empty() ? "" : "+") + graph.stages[stage].label;
  group.stage = static_cast<int>(fused.stages.front());
  group.outputs = fused.outputs;
  group.inputs = fused.inputs;
  group.operands = code.buffers;
  driver::Launch& launch = group.launch;
  launch.executable = &device.driver->compile(*code.program);
  launch.elements = code.shapes[0].elements();
  for (std::size_t i = 0; i < code.buffers.size(); ++i) {
    launch.buffers.push_back(nullptr);
    for (const std::int64_t extent : code.shapes[i]) launch.dims.push_back(extent);
    if (code.buffers[i] == plan::FusedProgram::nowhere) continue;
    launch.bytes += static_cast<std::int64_t>(code.shapes[i].size_bytes(graph.buffers[code.buffers[i]].dtype));
  }
  for (const plan::FusedProgram::Scalar& scalar : code.scalars) launch.scalars.push_back(scalar.bits);
  group.work = launch.bytes * ir::weight(*code.program);
  return group;
}

// The plan of a kernel stage's call for these values of the parameters.
kernels::Lowering call_plan(const PipelineGraph& graph, std::size_t number, const std::vector<Value>& values) {
  const PipelineStage& stage = graph.stages[number];
  const Params params = substituted(stage.params, graph, values);
  return plan::StageCall(stage, params).plan();
}

// Of the stages whose programs may be other ones for other values.
void find_forms(PipelinePlan& plan, const std::vector<Value>& values) {
  plan.forms.resize(plan.graph.stages.size());
  for (const plan::Group& group : plan.plan.groups) {
    if (!group.fused) continue;
    for (const std::size_t s : group.stages) {
      if (plan::uses_parameters(plan.graph.stages[s].params)) plan.forms[s].emplace(call_plan(plan.graph, s, values));
    }
  }
}

using Scalars = std::vector<std::uint64_t>;

// What a group of a plan would be launched with, had the parameters these values; nothing if that is more than other
// scalars. Stages of the same forms are grouped alike, and give the same program.
std::optional<Scalars> fused_scalars(const PipelinePlan& plan, const plan::Group& group,
                                     const std::vector<Value>& values) {
  const std::vector<plan::FusedProgram::Scalar>& of_program = group.fused->scalars;
  Scalars scalars;
  for (const plan::FusedProgram::Scalar& scalar : of_program) scalars.push_back(scalar.bits);
  for (const std::size_t stage : group.stages) {
    if (!plan.forms[stage]) continue;
    kernels::Lowering call = call_plan(plan.graph, stage, values);
    const std::vector<kernels::Lowering::Scalar> given = std::move(call.scalars);
    if (plan::StageForm(std::move(call)) != *plan.forms[stage]) return std::nullopt;  // another form has others
    for (std::size_t i = 0; i < scalars.size(); ++i) {
      if (of_program[i].stage == stage) scalars[i] = given[of_program[i].number].bits();
    }
  }
  return scalars;
}
std::optional<Scalars> stage_scalars(DeviceState& device, const PipelinePlan& plan, std::size_t number,
                                     const std::vector<Value>& values) {
  const std::size_t stage = plan.plan.groups[number].stages.front();
  const driver::Launch made = compile_stage(device, plan.graph, stage, values).launch;
  const driver::Launch& before = plan.groups[number].launch;
  if (made.executable != before.executable || !std::ranges::equal(made.dims, before.dims)) return std::nullopt;
  return Scalars(made.scalars.begin(), made.scalars.end());
}

void find_used(PipelinePlan& plan) {
  const std::size_t count = plan.graph.buffers.size();
  std::vector<bool> is_used(count);
  plan.is_written.resize(count);
  for (const CompiledGroup& group : plan.groups) {
    for (const std::size_t buffer : group.inputs) is_used[buffer] = true;
    for (const std::size_t buffer : group.outputs) is_used[buffer] = plan.is_written[buffer] = true;
  }
  for (const plan::Place& place : plan.plan.places) {
    for (const std::size_t b : place.temporaries) is_used[b] = b == place.temporaries.front();
  }
  for (std::size_t b = 0; b < count; ++b) {
    if (is_used[b]) plan.used.push_back(b);
    if (plan.graph.buffers[b].kind == PipelineBuffer::Kind::slot) plan.slots.push_back(b);
  }
}

bool is_small(const PipelinePlan& plan) {
  return plan.groups.size() <= most_small_groups &&
         std::ranges::all_of(plan.groups, [&](const CompiledGroup& group) { return group.work <= small_bytes; });
}

}  // namespace

std::optional<std::vector<PipelineVariant::Patch>> patches_of(DeviceState& device, const PipelinePlan& plan,
                                                              const std::vector<Value>& values) {
  std::vector<PipelineVariant::Patch> patches;
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    const plan::Group& group = plan.plan.groups[g];
    const auto is_affected = [&](std::size_t s) { return plan::uses_parameters(plan.graph.stages[s].params); };
    if (std::ranges::none_of(group.stages, is_affected)) continue;
    try {
      std::optional<Scalars> scalars =
          group.fused ? fused_scalars(plan, group, values) : stage_scalars(device, plan, g, values);
      if (!scalars) return std::nullopt;
      patches.push_back({g, *std::move(scalars)});
    } catch (const Error&) {
      return std::nullopt;  // whoever makes the plan tells what is wrong
    }
  }
  return patches;
}

std::shared_ptr<PipelinePlan> make_plan(DeviceState& device, PipelineGraph of, std::vector<Buffer> buffers,
                                        const std::vector<Value>& values, bool fuse, std::vector<Problem> problems) {
  auto plan = std::make_shared<PipelinePlan>();
  plan->graph = std::move(of);
  plan->buffers = std::move(buffers);
  const PipelineGraph& graph = plan->graph;

  // Of stages whose operands are wrong already, the parameters may be too.
  std::vector<bool> is_wrong(graph.stages.size());
  for (const Problem& problem : problems) is_wrong[problem.stage] = true;
  std::vector<CompiledGroup> stages(graph.stages.size());
  for (std::size_t s = 0; s < graph.stages.size(); ++s) {
    if (is_wrong[s]) {
      Params right;
      if (graph.stages[s].kernel) find_wrong_params(graph, s, values, right, problems);
      continue;
    }
    try {
      stages[s] = compile_stage(device, graph, s, values);
    } catch (const Error&) {
      find_problems(device, graph, s, values, problems);
    }
  }
  std::ranges::move(order_problems(graph), std::back_inserter(problems));
  if (!problems.empty()) throw_problems(graph, problems);

  plan->warnings = order_warnings(graph);
  plan->plan =
      plan_of(graph, groups_of(graph, values, {fuse, device.driver->most_buffers(), device.driver->info().dtypes}));
  for (const plan::Group& group : plan->plan.groups) {
    const std::size_t first = group.stages.front();
    plan->groups.push_back(group.fused ? compile_fused(device, graph, group) : std::move(stages[first]));
  }
  find_forms(*plan, values);
  find_used(*plan);
  plan->is_small = is_small(*plan);
  // Barriers, which use nothing, are between all of a batch; calls are not for the device.
  plan->is_all_kernels = !plan->groups.empty() && std::ranges::all_of(plan->groups, [](const CompiledGroup& group) {
    return group.kind == Work::Kind::kernel || (group.input_uses.empty() && group.output_uses.empty());
  });
  return plan;
}

}  // namespace tessera::detail::engine
