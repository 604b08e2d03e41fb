// Finds everything that is wrong with a stage, for messages that name every problem at once.
#include <tessera/error.hpp>

#include "core/text.hpp"
#include "kernels/diagnostics.hpp"
#include "plan/compiled_plan.hpp"

#include <algorithm>

namespace tessera::plan {

using core::text;

namespace {

// A kernel's message without the kernel's name, which the stage's message has already.
std::string without_name(std::string_view message, std::string_view label) {
  const std::string name = text("[", label, "] ");
  return std::string(message.starts_with(name) ? message.substr(name.size()) : message);
}

// Adds the problems of each parameter of a kernel stage; `right` gets the valid ones. Returns whether those determine
// what the operands must be.
bool find_wrong_params(const Graph& graph, std::size_t number, const std::vector<Value>& values, Params& right,
                       std::vector<Problem>& problems) {
  const GraphStage& stage = graph.stages[number];
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
  const auto is_given = [&](const kernels::ParamSpec& spec) {
    return std::ranges::any_of(stage.params, [&](const Param& param) { return spec.has_name(param.name); });
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
        std::ranges::any_of(lenient.params, [&](const kernels::ParamSpec& spec) { return spec.has_name(param.name); });
    if (bind(one)) {
      right.set(param.name, one.begin()->value);
    } else if (is_known) {
      is_complete = false;
    }
  }
  for (std::size_t i = 0; i < lenient.params.size(); ++i) {
    if (!stage.kernel->params[i].is_required || is_given(lenient.params[i])) continue;
    lenient.params[i].is_required = true;
    bind({});
    lenient.params[i].is_required = is_complete = false;
  }
  return is_complete;
}

// Adds the problems of the operands' types and shapes in a kernel stage; returns whether there are any.
bool find_wrong_operands(const GraphStage& stage, std::size_t number, std::vector<Problem>& problems) {
  kernels::Diagnostics diagnostics;
  try {
    StageCall(stage, stage.params).lower();
  } catch (const Error& error) {
    // After one mistake, planning may fail again because of it.
    const bool is_of_kernel = error.message().starts_with(text("[", stage.kernel->name, "]"));
    if (is_of_kernel || diagnostics.errors().empty()) diagnostics.add(error);
  }
  for (const Error& error : diagnostics.errors()) {
    problems.push_back({number, error.code(), without_name(error.what(), stage.label)});
  }
  return !diagnostics.errors().empty();
}

}  // namespace

void find_problems(const Compiler& compiler, const Graph& graph, std::size_t number, const std::vector<Value>& values,
                   bool has_operands, std::vector<Problem>& problems) {
  GraphStage stage = graph.stages[number];
  const auto note = [&](const Error& error) {
    problems.push_back({number, error.code(), without_name(error.what(), stage.label)});
  };
  stage.params = {};
  const bool has_params = !stage.kernel || find_wrong_params(graph, number, values, stage.params, problems);
  if (!has_operands) return;
  try {
    if (stage.kernel) stage.kernel->check_count(stage.inputs.size());
    if (!has_params || (stage.kernel && find_wrong_operands(stage, number, problems))) return;
    compile_stage(compiler, stage, number, stage.params);
  } catch (const Error& error) {
    note(error);
  }
}

}  // namespace tessera::plan
