// From recorded stages to a plan that can be run.
#include <tessera/error.hpp>

#include "core/text.hpp"
#include "ir/analysis.hpp"
#include "runtime/pipeline_state.hpp"
#include "runtime/submit.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <optional>
#include <unordered_map>
#include <utility>

namespace tessera::detail {

namespace {

using core::text;
using graph::PipelineBuffer;
using graph::PipelineGraph;
using graph::PipelineStage;
using graph::Problem;
using graph::Use;

// Plans for values of parameters that are kept: enough for a control that goes back and forth between a few settings.
constexpr std::size_t most_variants = 16;
// Beyond this a run takes long enough to be handed over, however small its groups are.
constexpr std::size_t most_small_groups = 32;

// A kernel's message without its name, which the stage's has already.
std::string without_name(std::string_view message, std::string_view label) {
  const std::string name = text("[", label, "] ");
  return std::string(message.starts_with(name) ? message.substr(name.size()) : message);
}

// The buffer of a copy that is another device's, if just one of the two is.
const Buffer* borrowed_of(const Stage& stage, const DeviceState& device) {
  if (stage.op != StageOp::copy_buffer || stage.inputs.size() != 1 || !stage.inputs[0] || !stage.output) return nullptr;
  const auto is_own = [&](const Buffer& buffer) { return buffer.view()->storage->device.get() == &device; };
  const Buffer &from = stage.inputs[0], &to = stage.output;
  if (is_own(from) == is_own(to)) return nullptr;
  return is_own(from) ? &to : &from;
}

// Recorded stages as a graph.
class GraphMaker {
 public:
  GraphMaker(const PipelineState& pipeline, std::vector<Buffer>& buffers, std::vector<Problem>& problems)
      : device_(*pipeline.device), buffers_(buffers), problems_(problems) {
    graph_.params = pipeline.params;
    for (const PipelineState::Placeholder& placeholder : pipeline.placeholders) {
      add(placeholder.handle, placeholder.kind, placeholder.name);
    }
  }

  void add(const Stage& stage) {
    PipelineStage& made = graph_.stages.emplace_back();
    made.op = stage.op;
    made.label = label_of(stage);
    made.params = stage.params;
    made.tile = stage.tile;
    const bool is_call = stage.op == StageOp::call;
    find_ignored(stage);
    if (stage.op == StageOp::barrier) return;
    if (const Buffer* borrowed = borrowed_of(stage, device_)) return add_copy_between(stage, *borrowed, made);
    if (stage.op == StageOp::run_kernel || stage.op == StageOp::copy_buffer) set_kernel(stage, made);
    if (is_call && !stage.function) problem(Errc::invalid_argument, "its function is empty");
    for (std::size_t i = 0; i < stage.inputs.size(); ++i) add_use(stage.inputs[i], text("input ", i), made.inputs);
    if (!is_call || stage.output) add_use(stage.output, "output", made.outputs);
    for (std::size_t i = 0; is_call && i < stage.outputs.size(); ++i) {
      add_use(stage.outputs[i], text("output ", i), made.outputs);
    }
  }

  PipelineGraph take() { return std::move(graph_); }

 private:
  static std::string label_of(const Stage& stage) {
    if (stage.op == StageOp::copy_buffer) return "copy";
    if (stage.op == StageOp::barrier) return "barrier";
    if (stage.op == StageOp::call) return stage.kernel.empty() ? "call" : stage.kernel;
    return stage.tile_kernel ? kernels::of(*stage.tile_kernel).name : stage.kernel;
  }

  // What was given in vain was meant to do something.
  void find_ignored(const Stage& stage) {
    const bool has_buffers = !stage.inputs.empty() || stage.output || !stage.outputs.empty();
    const bool has_kernel = !stage.kernel.empty() || stage.tile_kernel || !stage.params.empty() || stage.function;
    if (stage.op == StageOp::barrier) {
      if (has_buffers || has_kernel) problem(Errc::invalid_argument, "a barrier takes neither buffers nor work");
    } else if (stage.op != StageOp::call) {
      if (!stage.outputs.empty()) problem(Errc::invalid_argument, "only a call takes `outputs`: this is for `output`");
      if (stage.function) problem(Errc::invalid_argument, "only a call takes a function");
    }
  }

  // To the graph it is a call that uses one buffer: what the other one is waits and is waited for on its own device.
  void add_copy_between(const Stage& stage, const Buffer& borrowed, PipelineStage& made) {
    made.op = StageOp::call;
    made.is_between_devices = true;
    const bool reads_borrowed = &borrowed == &stage.inputs[0];
    const View &from = *stage.inputs[0].view(), &to = *stage.output.view();
    if (reads_borrowed) {
      add_use(stage.output, "output", made.outputs);
    } else {
      add_use(stage.inputs[0], "input 0", made.inputs);
    }
    if (from.dtype != to.dtype || from.shape != to.shape) {
      return problem(from.dtype != to.dtype ? Errc::dtype_mismatch : Errc::shape_mismatch,
                     text("input 0 is ", describe(from), ", output ", describe(to)));
    }
    if (borrowed.view()->storage->is_freed) {
      const core::FailurePtr why = unusable(reads_borrowed ? "input 0" : "output", *borrowed.view()->storage);
      problem(why->code, why->message);
    }
  }

  void set_kernel(const Stage& stage, PipelineStage& made) {
    try {
      made.kernel = stage.tile_kernel ? &kernels::of(*stage.tile_kernel)
                                      : &kernels::find(stage.op == StageOp::copy_buffer ? "copy" : stage.kernel);
    } catch (const Error& error) {
      problem(error.code(), error.what());
    }
  }

  // What is wrong has its place among the uses too, so that those after it keep their numbers.
  void add_use(const Buffer& buffer, const std::string& what, std::vector<Use>& uses) {
    const View* view = buffer.view();
    uses.push_back(view ? Use{Use::nothing, view->dtype, view->shape} : Use{.buffer = Use::nothing});
    if (!view) return problem(Errc::invalid_argument, what + " is an empty buffer handle");
    const Storage& storage = *view->storage;
    const auto found = numbers_.find(&storage);
    if (found == numbers_.end()) {
      if (storage.device.get() != &device_) {
        return problem(Errc::wrong_device, text(what, ", ", describe(*view),
                                                ", lives on another device: ", storage.device->driver->info().name,
                                                ", not ", device_.driver->info().name));
      }
      if (storage.is_freed) {
        const core::FailurePtr why = unusable(what, storage);
        return problem(why->code, why->message);
      }
    } else if (graph_.buffers[found->second].kind == PipelineBuffer::Kind::own && storage.is_freed) {
      return problem(Errc::buffer_freed, what + " has been freed");
    }
    uses.back().buffer = found != numbers_.end() ? found->second : add(buffer, PipelineBuffer::Kind::own, "");
  }

  std::size_t add(const Buffer& buffer, PipelineBuffer::Kind kind, const std::string& name) {
    const std::size_t number = graph_.buffers.size();
    numbers_[buffer.view()->storage] = number;
    buffers_.push_back(kind == PipelineBuffer::Kind::own ? buffer : Buffer());
    graph_.buffers.push_back(
        {kind, kind == PipelineBuffer::Kind::own ? free_name() : name, buffer.dtype(), buffer.shape()});
    return number;
  }

  // As JSON the caller's own buffers are slots: none is called like another one, or like a parameter.
  std::string free_name() {
    std::string name;
    do {
      name = text("buffer ", own_++);
    } while (graph_.param_number(name) < graph_.params.size() ||
             std::ranges::find(graph_.buffers, name, &PipelineBuffer::name) != graph_.buffers.end());
    return name;
  }

  void problem(Errc code, const std::string& what) { problems_.push_back({graph_.stages.size() - 1, code, what}); }

  const DeviceState& device_;
  PipelineGraph graph_;
  std::vector<Buffer>& buffers_;
  std::vector<Problem>& problems_;
  std::unordered_map<const Storage*, std::size_t> numbers_;
  std::size_t own_ = 0;
};

// Resolves the call of a kernel stage.
const CallProgram& resolve(DeviceState& device, const PipelineStage& stage, const Params& params,
                           driver::Launch& launch) {
  std::vector<kernels::Operand> operands = {{stage.outputs[0].dtype, &stage.outputs[0].shape}};
  for (const Use& input : stage.inputs) operands.push_back({input.dtype, &input.shape});
  return device.calls.resolve(*stage.kernel, operands, params, launch, stage.tile);
}

// A kernel that looks around cannot write where it reads.
void check_aliases(const PipelineStage& stage, const CallProgram& program) {
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
    group.kind = Node::Kind::host;
    group.input_uses = stage.inputs;
    group.output_uses = stage.outputs;
    return group;
  }
  launch.elements = stage.outputs[0].shape.elements();
  group.operands = group.outputs;
  group.operands.insert(group.operands.end(), group.inputs.begin(), group.inputs.end());
  for (std::size_t i = 0; i < group.operands.size(); ++i) launch.buffers.push_back(nullptr);
  const CallProgram& program = resolve(device, stage, params, launch);
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
    if (has_params) compile_stage(device, stage, number, stage.params);
  } catch (const Error& error) {
    note(error);
  }
}

// Several stages as a group.
CompiledGroup compile_fused(DeviceState& device, const PipelineGraph& graph, const graph::Group& fused) {
  const graph::FusedProgram& code = *fused.fused;
  CompiledGroup group;
  for (const std::size_t stage : fused.stages)
    group.label += (group.label.empty() ? "" : "+") + graph.stages[stage].label;
  group.stage = static_cast<int>(fused.stages.front());
  group.outputs = fused.outputs;
  group.inputs = fused.inputs;
  group.operands = code.buffers;
  driver::Launch& launch = group.launch;
  launch.executable = &device.driver->compile(code.program);
  launch.elements = code.shapes[0].elements();
  for (std::size_t i = 0; i < code.buffers.size(); ++i) {
    launch.buffers.push_back(nullptr);
    for (const std::int64_t extent : code.shapes[i]) launch.dims.push_back(extent);
    if (code.buffers[i] == graph::FusedProgram::nowhere) continue;
    launch.bytes += static_cast<std::int64_t>(code.shapes[i].size_bytes(graph.buffers[code.buffers[i]].dtype));
  }
  for (const graph::FusedProgram::Scalar& scalar : code.scalars) launch.scalars.push_back(scalar.bits);
  group.work = launch.bytes * ir::weight(code.program);
  return group;
}

// What a group of a plan would be launched with, had the parameters these values.
driver::Launch launch_of(DeviceState& device, const PipelinePlan& plan, std::size_t number,
                         const std::vector<Value>& values) {
  const graph::Group& group = plan.plan.groups[number];
  if (!group.fused) return compile_stage(device, plan.graph, group.stages.front(), values).launch;
  for (const graph::Group& other : groups_of(plan.graph, values, {true, device.driver->most_buffers()})) {
    if (other.stages == group.stages) return compile_fused(device, plan.graph, other).launch;
  }
  return {};  // it is cut otherwise then
}

// The scalars that these values give a plan; nothing if they would change more than scalars.
std::optional<std::vector<PipelineVariant::Patch>> patches_of(DeviceState& device, const PipelinePlan& plan,
                                                              const std::vector<Value>& values) {
  std::vector<PipelineVariant::Patch> patches;
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    const std::vector<std::size_t>& stages = plan.plan.groups[g].stages;
    const auto is_affected = [&](std::size_t s) { return graph::uses_parameters(plan.graph.stages[s].params); };
    if (std::ranges::none_of(stages, is_affected)) continue;
    try {
      const driver::Launch made = launch_of(device, plan, g, values);
      const driver::Launch& before = plan.groups[g].launch;
      if (made.executable != before.executable || !std::ranges::equal(made.dims, before.dims)) return std::nullopt;
      patches.push_back({g, {made.scalars.begin(), made.scalars.end()}});
    } catch (const Error&) {
      return std::nullopt;  // whoever makes the plan tells what is wrong
    }
  }
  return patches;
}

void find_used(PipelinePlan& plan) {
  const std::size_t count = plan.graph.buffers.size();
  std::vector<bool> is_used(count);
  plan.is_written.resize(count);
  for (const CompiledGroup& group : plan.groups) {
    for (const std::size_t buffer : group.inputs) is_used[buffer] = true;
    for (const std::size_t buffer : group.outputs) is_used[buffer] = plan.is_written[buffer] = true;
  }
  for (const graph::Place& place : plan.plan.places) {
    for (const std::size_t b : place.temporaries) is_used[b] = b == place.temporaries.front();
  }
  for (std::size_t b = 0; b < count; ++b) {
    if (is_used[b]) plan.used.push_back(b);
    if (plan.graph.buffers[b].kind == PipelineBuffer::Kind::slot) plan.slots.push_back(b);
  }
}

// In the order of the stages: the graph does not know what is the same buffer elsewhere.
void find_lenders(PipelinePlan& plan, DeviceState& device) {
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    if (!plan.groups[g].borrowed) continue;
    plan.borrowing.push_back(g);
    plan.lenders.push_back(plan.groups[g].borrowed.view()->storage->device.get());
  }
  if (plan.borrowing.empty()) return;
  std::ranges::sort(plan.borrowing, {}, [&](std::size_t g) { return plan.groups[g].stage; });
  plan.lenders.push_back(&device);
  sort_for_locks(plan.lenders);
}

bool is_small(const PipelinePlan& plan) {
  return plan.groups.size() <= most_small_groups &&
         std::ranges::all_of(plan.groups, [&](const CompiledGroup& group) { return group.work <= small_bytes; });
}

}  // namespace

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
  plan->plan = plan_of(graph, groups_of(graph, values, {fuse, device.driver->most_buffers()}));
  for (const graph::Group& group : plan->plan.groups) {
    const std::size_t first = group.stages.front();
    plan->groups.push_back(group.fused ? compile_fused(device, graph, group) : std::move(stages[first]));
  }
  find_used(*plan);
  plan->is_small = is_small(*plan);
  // Barriers, which use nothing, are between all of a batch; calls are not for the device.
  plan->is_all_kernels = !plan->groups.empty() && std::ranges::all_of(plan->groups, [](const CompiledGroup& group) {
    return group.kind == Node::Kind::kernel || (group.input_uses.empty() && group.output_uses.empty());
  });
  return plan;
}

namespace {

const Value* bound_value(const Bindings& bindings, std::string_view name) {
  for (std::size_t i = 0; i < bindings.size(); ++i) {
    if (!bindings[i].is_buffer && bindings[i].name == name) return &bindings[i].value;
  }
  return nullptr;
}

// As a kernel sees them: -0 is not 0.
bool is_same(const Value& a, const Value& b) {
  if (a.is_list() && b.is_list()) return std::ranges::equal(a.items(), b.items(), is_same);
  if (!a.is_integer() && a.is_number() && !b.is_integer() && b.is_number()) {
    return std::bit_cast<std::uint64_t>(a.number()) == std::bit_cast<std::uint64_t>(b.number());
  }
  return a == b;
}

bool has_values(const PipelineVariant& variant, const std::vector<Param>& params, const Bindings& bindings) {
  for (std::size_t i = 0; i < params.size(); ++i) {
    const Value* bound = bound_value(bindings, params[i].name);
    if (!is_same(variant.values[i], bound ? *bound : params[i].value)) return false;
  }
  return true;
}

void check_names(const PipelineState& pipeline, const Bindings& bindings, std::vector<BindingProblem>& problems) {
  const auto problem = [&](Errc code, std::string what) { problems.push_back({code, std::move(what)}); };
  for (std::size_t i = 0; i < bindings.size(); ++i) {
    const Binding& binding = bindings[i];
    for (std::size_t j = 0; j < i; ++j) {
      if (bindings[j].name != binding.name) continue;
      problem(Errc::invalid_argument, text("'", binding.name, "' is bound twice"));
      break;
    }
    const bool is_param = std::ranges::find(pipeline.params, binding.name, &Param::name) != pipeline.params.end();
    const bool is_slot = std::ranges::any_of(pipeline.placeholders, [&](const PipelineState::Placeholder& one) {
      return one.kind == PipelineBuffer::Kind::slot && one.name == binding.name;
    });
    if (binding.is_buffer ? is_slot : is_param) continue;
    if (is_slot) {
      problem(Errc::invalid_argument, text("'", binding.name, "' is a slot: bind a buffer"));
    } else if (is_param) {
      problem(Errc::invalid_argument, text("'", binding.name, "' is a parameter: bind a value"));
    } else {
      std::vector<std::string_view> names;
      names.reserve(pipeline.params.size());
      for (const Param& param : pipeline.params) names.push_back(param.name);
      for (const PipelineState::Placeholder& one : pipeline.placeholders) {
        if (one.kind == PipelineBuffer::Kind::slot) names.push_back(one.name);
      }
      problem(Errc::unknown_parameter,
              text("there is no slot or parameter '", binding.name, "'", core::suggestion(binding.name, names)));
    }
  }
}

}  // namespace

PipelineGraph PipelineState::graph(std::vector<Buffer>& buffers, std::vector<Problem>& problems) const {
  GraphMaker maker(*this, buffers, problems);
  for (const Stage& stage : stages) maker.add(stage);
  return maker.take();
}

std::shared_ptr<const PipelineVariant> PipelineState::variant(const Bindings& bindings,
                                                              std::vector<BindingProblem>& problems) {
  const std::scoped_lock lock(mutex);
  if (!bindings.empty()) check_names(*this, bindings, problems);
  const auto found =
      std::ranges::find_if(variants, [&](const auto& one) { return has_values(*one, params, bindings); });
  if (found != variants.end()) [[likely]] {
    if (found + 1 != variants.end()) std::rotate(found, found + 1, variants.end());
    return variants.back();
  }

  auto made = std::make_shared<PipelineVariant>();
  for (const Param& param : params) {
    const Value* bound = bound_value(bindings, param.name);
    made->values.push_back(bound ? *bound : param.value);
  }
  const PipelinePlan* tried = nullptr;
  for (auto other = variants.rbegin(); other != variants.rend() && !made->plan; ++other) {
    if ((*other)->plan.get() == tried) continue;
    tried = (*other)->plan.get();
    auto patches = patches_of(*device, *tried, made->values);
    if (!patches) continue;
    made->plan = (*other)->plan;
    made->patches = std::move(*patches);
  }
  if (!made->plan) {
    std::vector<Buffer> buffers;
    std::vector<Problem> of_stages;
    PipelineGraph recorded = graph(buffers, of_stages);
    made->plan =
        make_plan(*device, std::move(recorded), std::move(buffers), made->values, options.fuse, std::move(of_stages));
    for (CompiledGroup& group : made->plan->groups) {
      const Stage& stage = stages[static_cast<std::size_t>(group.stage)];
      group.function = stage.function;
      if (const Buffer* borrowed = borrowed_of(stage, *device)) group.borrowed = *borrowed;
      if (!group.function && !group.borrowed) continue;
      made->plan->is_small = false;  // it may take any time
      made->plan->is_all_kernels = false;
    }
    find_lenders(*made->plan, *device);
    made->patches = patches_of(*device, *made->plan, made->values).value_or(std::vector<PipelineVariant::Patch>());
  }
  if (variants.size() >= most_variants) variants.erase(variants.begin());
  variants.push_back(std::move(made));
  return variants.back();
}

std::shared_ptr<const PipelineVariant> PipelineState::variant() {
  std::vector<BindingProblem> none;
  return variant({}, none);
}

}  // namespace tessera::detail
