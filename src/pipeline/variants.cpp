// A pipeline's plans, one per set of parameter values.
#include <tessera/error.hpp>

#include "core/text.hpp"
#include "pipeline/pipeline_state.hpp"

#include <algorithm>
#include <bit>
#include <memory>
#include <utility>

namespace tessera::detail::pipeline {

namespace {

using core::text;
using plan::Graph;
using plan::GraphBuffer;
using plan::Problem;

// How many variants are stored: enough for a control that moves back and forth between a few settings.
constexpr std::size_t most_variants = 16;

const Value* bound_value(const Bindings& bindings, std::string_view name) {
  for (std::size_t i = 0; i < bindings.size(); ++i) {
    if (!bindings[i].is_buffer && bindings[i].name == name) return &bindings[i].value;
  }
  return nullptr;
}

// Compares values as a kernel sees them: -0 is not 0.
bool is_same(const Value& a, const Value& b) {
  if (a.is_list() && b.is_list()) return std::ranges::equal(a.items(), b.items(), is_same);
  if (!a.is_integer() && a.is_number() && !b.is_integer() && b.is_number()) {
    return std::bit_cast<std::uint64_t>(a.number()) == std::bit_cast<std::uint64_t>(b.number());
  }
  return a == b;
}

bool has_values(const PlanVariant& variant, const std::vector<Param>& params, const Bindings& bindings) {
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
      problem(Errc::invalid_argument, text(core::in_quotes(binding.name), " is bound twice"));
      break;
    }
    const bool is_param = std::ranges::find(pipeline.params, binding.name, &Param::name) != pipeline.params.end();
    const bool is_slot = std::ranges::any_of(pipeline.placeholders, [&](const PipelineState::Placeholder& one) {
      return one.kind == GraphBuffer::Kind::slot && one.name == binding.name;
    });
    if (binding.is_buffer ? is_slot : is_param) continue;
    if (is_slot) {
      problem(Errc::invalid_argument, text(core::in_quotes(binding.name), " is a slot: bind a buffer"));
    } else if (is_param) {
      problem(Errc::invalid_argument, text(core::in_quotes(binding.name), " is a parameter: bind a value"));
    } else {
      std::vector<std::string_view> names;
      names.reserve(pipeline.params.size());
      for (const Param& param : pipeline.params) names.push_back(param.name);
      for (const PipelineState::Placeholder& one : pipeline.placeholders) {
        if (one.kind == GraphBuffer::Kind::slot) names.push_back(one.name);
      }
      problem(Errc::unknown_parameter, text("there is no slot or parameter ", core::in_quotes(binding.name),
                                            core::suggestion(binding.name, names)));
    }
  }
}

plan::Compiler compiler_of(DeviceState& device) { return {device.calls, *device.driver}; }

// The recorded stages as a plan that can run. Under the mutex.
std::shared_ptr<ExecutablePlan> make_plan(PipelineState& pipeline, const std::vector<Value>& values) {
  auto made = std::make_shared<ExecutablePlan>();
  std::vector<Buffer> buffers;
  std::vector<Problem> problems;
  Graph recorded = pipeline.graph(buffers, problems);
  compile(compiler_of(*pipeline.device), std::move(recorded), values, pipeline.options.fuse, std::move(problems),
          *made);
  for (const Buffer& buffer : buffers) made->buffers.emplace_back(Access::get(buffer));
  made->functions.resize(made->groups.size());
  made->borrowed.resize(made->groups.size());
  for (std::size_t g = 0; g < made->groups.size(); ++g) {
    const plan::CompiledGroup& group = made->groups[g];
    const Stage& stage = pipeline.stages[group.stage];
    if (stage.function) {
      made->functions[g] = [&group, function = stage.function](const Work& work) {
        call_host_function(group, function, work);
      };
    }
    if (const Buffer* borrowed = borrowed_of(stage, *pipeline.device)) {
      made->borrowed[g] = Ref<View>(Access::get(*borrowed));
    }
  }
  made->complete(*pipeline.device);
  return made;
}

}  // namespace

std::shared_ptr<const PlanVariant> PipelineState::variant(const Bindings& bindings,
                                                          std::vector<BindingProblem>& problems) {
  const std::scoped_lock lock(mutex);
  if (!bindings.empty()) check_names(*this, bindings, problems);
  const auto found =
      std::ranges::find_if(variants, [&](const auto& one) { return has_values(*one, params, bindings); });
  if (found != variants.end()) [[likely]] {
    if (found + 1 != variants.end()) std::rotate(found, found + 1, variants.end());
    return variants.back();
  }

  auto made = std::make_shared<PlanVariant>();
  for (const Param& param : params) {
    const Value* bound = bound_value(bindings, param.name);
    made->values.push_back(bound ? *bound : param.value);
  }
  const ExecutablePlan* tried = nullptr;
  for (auto other = variants.rbegin(); other != variants.rend() && !made->plan; ++other) {
    if ((*other)->plan.get() == tried) continue;
    tried = (*other)->plan.get();
    auto patches = patches_of(compiler_of(*device), *tried, made->values);
    if (!patches) continue;
    made->plan = (*other)->plan;
    made->patches = std::move(*patches);
  }
  if (!made->plan) {
    made->plan = make_plan(*this, made->values);
    made->patches = patches_of(compiler_of(*device), *made->plan, made->values).value_or(std::vector<plan::Patch>());
  }
  if (variants.size() >= most_variants) variants.erase(variants.begin());
  variants.push_back(std::move(made));
  return variants.back();
}

std::shared_ptr<const PlanVariant> PipelineState::variant() {
  std::vector<BindingProblem> none;
  return variant({}, none);
}

}  // namespace tessera::detail::pipeline
