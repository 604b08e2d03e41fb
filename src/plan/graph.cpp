#include "plan/graph.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

namespace tessera::plan {

using core::text;

std::string_view to_string(GraphBuffer::Kind kind) noexcept {
  switch (kind) {
    case GraphBuffer::Kind::own:
      return "own";
    case GraphBuffer::Kind::slot:
      return "slot";
    case GraphBuffer::Kind::temporary:
      return "temporary";
  }
  return "unknown";
}

std::string GraphStage::describe(std::size_t number) const {
  return text("stage ", number, " [", core::shortened(label), "]");
}

std::size_t Graph::param_number(std::string_view name) const noexcept {
  return static_cast<std::size_t>(std::ranges::find(params, name, &Param::name) - params.begin());
}

Value substituted(const Value& value, const Graph& graph, const std::vector<Value>& values) {
  if (value.is_list()) {
    Value::List items;
    items.reserve(value.items().size());
    for (const Value& item : value.items()) items.push_back(substituted(item, graph, values));
    return items;
  }
  if (!value.is_parameter()) return value;
  const std::size_t number = graph.param_number(value.parameter_name());
  if (number < values.size()) return values[number];
  std::vector<std::string_view> names;
  names.reserve(graph.params.size());
  for (const Param& param : graph.params) names.push_back(param.name);
  throw Error(Errc::unknown_parameter, text("the pipeline has no parameter ", core::in_quotes(value.parameter_name()),
                                            core::suggestion(value.parameter_name(), names)));
}

Params substituted(const Params& params, const Graph& graph, const std::vector<Value>& values) {
  Params result;
  for (const Param& param : params) result.set(param.name, substituted(param.value, graph, values));
  return result;
}

namespace {

bool uses_parameters(const Value& value) {
  return value.is_parameter() || (value.is_list() && std::ranges::any_of(value.items(), [](const Value& item) {
                                    return uses_parameters(item);
                                  }));
}

// By stage and output: whether its contents are used. By a stage that reads the buffer before it is overwritten, or
// that may overwrite only a part of it, as calls may; or by the caller, if the buffer outlives the run.
std::vector<std::vector<bool>> used_outputs(const Graph& graph) {
  struct Writer {
    std::size_t stage, output;
  };
  std::vector<std::vector<bool>> is_used;
  std::vector<std::optional<Writer>> last(graph.buffers.size());
  for (std::size_t s = 0; s < graph.stages.size(); ++s) {
    const GraphStage& stage = graph.stages[s];
    is_used.emplace_back(stage.outputs.size());
    const auto mark = [&](const Use& use) {
      if (const auto& writer = last[use.buffer]) is_used[writer->stage][writer->output] = true;
    };
    std::ranges::for_each(stage.inputs, mark);
    if (stage.op == StageOp::call && !stage.is_between_devices) std::ranges::for_each(stage.outputs, mark);
    for (std::size_t i = 0; i < stage.outputs.size(); ++i) last[stage.outputs[i].buffer] = {s, i};
  }
  for (std::size_t b = 0; b < graph.buffers.size(); ++b) {
    if (graph.buffers[b].kind == GraphBuffer::Kind::temporary || !last[b]) continue;
    is_used[last[b]->stage][last[b]->output] = true;
  }
  return is_used;
}

}  // namespace

bool uses_parameters(const Params& params) {
  return std::ranges::any_of(params, [](const Param& param) { return uses_parameters(param.value); });
}

std::vector<Problem> order_problems(const Graph& graph) {
  std::vector<Problem> problems;
  std::vector<bool> written(graph.buffers.size());
  for (std::size_t s = 0; s < graph.stages.size(); ++s) {
    const GraphStage& stage = graph.stages[s];
    for (std::size_t i = 0; i < stage.inputs.size(); ++i) {
      const std::size_t buffer = stage.inputs[i].buffer;
      if (buffer == Use::nothing) continue;
      if (graph.buffers[buffer].kind != GraphBuffer::Kind::temporary || written[buffer]) continue;
      problems.push_back({s, Errc::invalid_argument,
                          text("input ", i, ", ", core::shortened(graph.buffers[buffer].name),
                               ", is read before a stage has written it")});
    }
    for (const Use& use : stage.outputs) {
      if (use.buffer != Use::nothing) written[use.buffer] = true;
    }
  }
  return problems;
}

std::vector<std::string> order_warnings(const Graph& graph) {
  std::vector<std::string> warnings;
  const std::vector<std::vector<bool>> is_used = used_outputs(graph);
  for (std::size_t s = 0; s < graph.stages.size(); ++s) {
    const GraphStage& stage = graph.stages[s];
    if (stage.outputs.empty() || std::ranges::count(is_used[s], true) != 0) continue;
    warnings.push_back(
        text(stage.describe(s), ": its output, ", graph.buffers[stage.outputs.front().buffer].name, ", is never read"));
  }
  return warnings;
}

void throw_problems(const Graph& graph, const std::vector<Problem>& problems) {
  std::vector<const Problem*> sorted;
  sorted.reserve(problems.size());
  for (const Problem& problem : problems) sorted.push_back(&problem);
  std::ranges::sort(sorted, {}, [](const Problem* problem) { return std::pair(problem->stage, problem); });
  std::string message = text("pipeline: ", problems.size(), problems.size() == 1 ? " problem:" : " problems:");
  for (const Problem* problem : std::span(sorted).first(std::min(sorted.size(), most_listed))) {
    message += text("\n  ", graph.stages[problem->stage].describe(problem->stage), ": ", problem->what);
  }
  if (sorted.size() > most_listed) message += text("\n  and ", sorted.size() - most_listed, " more");
  throw Error(sorted.front()->code, message);
}

namespace {

std::vector<kernels::Operand> operands_of(const std::vector<Use>& uses) {
  std::vector<kernels::Operand> operands;
  operands.reserve(uses.size());
  for (const Use& use : uses) operands.push_back({use.dtype, &use.shape});
  return operands;
}

kernels::Arguments bound(const kernels::Kernel& kernel, const Params& params) {
  kernels::Arguments arguments;
  kernel.bind(params, arguments);
  return arguments;
}

}  // namespace

StageForm::StageForm(kernels::Lowering&& lowering)
    : shapes(std::move(lowering.shapes)),
      fixed(std::move(lowering.fixed)),
      variant(std::move(lowering.variant)),
      tile(std::move(lowering.tile)),
      is_pointwise(lowering.is_pointwise) {}

StageCall::StageCall(const GraphStage& stage, const Params& params)
    : inputs_(operands_of(stage.inputs)),
      arguments_(bound(*stage.kernel, params)),
      call_{*stage.kernel,
            inputs_,
            {stage.outputs.front().dtype, &stage.outputs.front().shape},
            {arguments_.data(), arguments_.size()},
            stage.tile} {}

}  // namespace tessera::plan
