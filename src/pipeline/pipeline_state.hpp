#pragma once

#include <tessera/pipeline.hpp>

#include "engine/device_state.hpp"
#include "engine/executable_plan.hpp"
#include "engine/run_tracking.hpp"
#include "plan/graph.hpp"

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace tessera::detail::pipeline {

using engine::DeviceState;
using engine::ExecutablePlan;
using engine::PlanVariant;
using engine::Storage;
using engine::StreamState;
using engine::View;
using engine::Work;

// What HostCall looks at.
struct HostCallView {
  const plan::CompiledGroup& group;
  const Work& work;
  // Copies of the inputs, then of the outputs, where the host cannot address the memory; empty where it can.
  std::vector<std::vector<std::byte>> copies;
};
// Calls the function of a call stage, and turns what it throws into an Error (host_call.cpp).
void call_host_function(const plan::CompiledGroup& group, const HostFunction& function, const Work& work);

// One mistake in the bindings of a run.
struct BindingProblem {
  Errc code;
  std::string what;
};
// Throws all problems as one Error.
[[noreturn]] void throw_problems(const std::vector<BindingProblem>& problems);

// The memory bound to the plan's slots, in their order. Adds what is wrong to `problems` (slots.cpp).
using BoundSlots = core::InlineVector<Storage*, 8>;
void find_slots(const DeviceState& device, const ExecutablePlan& plan, const Bindings& bindings, BoundSlots& slots,
                std::vector<BindingProblem>& problems);

// Of a copy stage, the buffer that belongs to another device; null unless exactly one does (recorded_graph.cpp).
const Buffer* borrowed_of(const Stage& stage, const DeviceState& device);

// What Pipeline holds.
struct PipelineState {
  PipelineState(DeviceState& on, const PipelineOptions& with) : device(&on), options(with) {}

  // A temporary or slot of this pipeline.
  struct Placeholder {
    Buffer handle;
    plan::GraphBuffer::Kind kind;
    std::string name;
  };

  const Ref<DeviceState> device;
  const PipelineOptions options;

  std::mutex mutex;  // guards everything below but the log
  std::vector<Stage> stages;
  std::vector<Placeholder> placeholders;
  std::size_t temporaries = 0;  // how many of the placeholders
  std::vector<Param> params;
  // Names that are taken: of slots, and of parameters with their index in `params`.
  std::unordered_set<std::string> slot_names;
  std::unordered_map<std::string, std::size_t> param_indices;
  std::vector<std::shared_ptr<const PlanVariant>> variants;  // the most recently used comes last
  const std::shared_ptr<engine::RunLog> log = std::make_shared<engine::RunLog>();

  std::unique_ptr<PipelineState> clone();
  Buffer add_placeholder(plan::GraphBuffer::Kind kind, std::string name, const Shape& shape, DType dtype);

  // The stages as a graph. Adds what is wrong with them to `problems` (recorded_graph.cpp). Under the mutex.
  plan::Graph graph(std::vector<Buffer>& buffers, std::vector<plan::Problem>& problems) const;
  // The plan for these bindings (variants.cpp). Adds unusable names to `problems` and ignores such bindings. Throws
  // what is wrong with the stages.
  std::shared_ptr<const PlanVariant> variant(const Bindings& bindings, std::vector<BindingProblem>& problems);
  std::shared_ptr<const PlanVariant> variant();  // for the defaults

  // Makes the plan for the defaults and compiles its kernels.
  void compile();

  // Pipeline's run and submit (run.cpp).
  void run(const Bindings& bindings, StreamState* stream);
  Ref<Work> submit(const Bindings& bindings, StreamState* stream);
  std::vector<Buffer> outputs(const Bindings& bindings);
};

}  // namespace tessera::detail::pipeline
