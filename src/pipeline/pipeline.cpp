#include <tessera/pipeline.hpp>

#include <tessera/error.hpp>
#include <tessera/tile.hpp>

#include "core/text.hpp"
#include "engine/execution.hpp"
#include "pipeline/pipeline_state.hpp"
#include "plan/plan.hpp"

#include <utility>

namespace tessera {

namespace engine = detail::engine;
using core::text;
using detail::Access;
using detail::pipeline::PipelineState;
using plan::GraphBuffer;

std::string_view to_string(StageOp op) noexcept {
  switch (op) {
    case StageOp::run_kernel:
      return "run_kernel";
    case StageOp::copy_buffer:
      return "copy_buffer";
    case StageOp::barrier:
      return "barrier";
    case StageOp::call:
      return "call";
  }
  return "unknown";
}

namespace detail::pipeline {

std::unique_ptr<PipelineState> PipelineState::clone() {
  auto copy = std::make_unique<PipelineState>(*device, options);
  const std::scoped_lock lock(mutex);
  copy->stages = stages;
  copy->placeholders = placeholders;
  copy->temporaries = temporaries;
  copy->params = params;
  copy->slot_names = slot_names;
  copy->param_indices = param_indices;
  return copy;
}

void PipelineState::compile() {
  device->expect_own_process();
  const std::shared_ptr<const PlanVariant> made = variant();
  if (const core::FailurePtr failure = engine::compile_all(*device, made->plan->groups)) throw Error(failure);
}

Buffer PipelineState::add_placeholder(GraphBuffer::Kind kind, std::string name, const Shape& shape, DType dtype) {
  shape.size_bytes(dtype);  // throws if it does not fit
  std::string what = kind == GraphBuffer::Kind::slot ? text("the slot ", core::in_quotes(name), " of a pipeline")
                                                     : std::string("a temporary of a pipeline");
  Buffer handle =
      Access::make<Buffer>(Ref<View>::adopt(new View(*new Storage(*device, std::move(what)), shape, dtype)));
  placeholders.push_back({handle, kind, std::move(name)});
  try {
    if (kind == GraphBuffer::Kind::slot) slot_names.insert(placeholders.back().name);
  } catch (...) {
    placeholders.pop_back();
    throw;
  }
  if (kind == GraphBuffer::Kind::temporary) ++temporaries;
  variants.clear();
  return handle;
}

}  // namespace detail::pipeline

namespace {

std::vector<Buffer> to_vector(const BufferList& list) {
  std::vector<Buffer> buffers;
  buffers.reserve(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) buffers.push_back(list[i]);
  return buffers;
}

// Refuses a name that a slot or parameter has already; param() may redefine a parameter. Under the mutex.
void expect_free_name(const PipelineState& pipeline, std::string_view call, const std::string& name, bool for_param) {
  if (name.empty()) throw Error(Errc::invalid_argument, text("[", call, "] needs a name"));
  const bool is_slot = pipeline.slot_names.contains(name);
  const bool is_param = pipeline.param_indices.contains(name);
  if (!is_slot && (!is_param || for_param)) return;
  throw Error(Errc::invalid_argument, text("[", call, "] the pipeline already has a ", is_slot ? "slot " : "parameter ",
                                           core::in_quotes(name)));
}

engine::StreamState* stream_of(const Stream& stream, std::string_view call) {
  if (!stream) throw Error(Errc::invalid_argument, text("[", call, "] on an empty stream handle"));
  return Access::get(stream);
}

}  // namespace

Pipeline::Pipeline(const Device& device, const PipelineOptions& options)
    : state_(std::make_unique<PipelineState>(*Access::get(device), options)) {}
Pipeline::Pipeline(std::unique_ptr<PipelineState> state) noexcept : state_(std::move(state)) {}
Pipeline::Pipeline(Pipeline&& other) noexcept = default;
Pipeline& Pipeline::operator=(Pipeline&& other) noexcept = default;
Pipeline::~Pipeline() = default;

PipelineState& Pipeline::state(std::string_view call) const {
  if (!state_) throw Error(Errc::invalid_argument, text("[", call, "] on a pipeline that was moved from"));
  state_->device->expect_own_process();
  return *state_;
}

Pipeline Pipeline::clone() const { return Pipeline(state("clone").clone()); }
Device Pipeline::device() const { return Access::make<Device>(state("device").device); }
PipelineOptions Pipeline::options() const { return state("options").options; }

Pipeline& Pipeline::add(Stage stage) {
  PipelineState& pipeline = state("add");
  if (stage.op > StageOp::call) {
    throw Error(Errc::invalid_argument,
                text("there is no stage operation with the number ", static_cast<unsigned>(stage.op)));
  }
  if (stage.op == StageOp::call && !stage.function) {
    throw Error(Errc::invalid_argument,
                text("[", stage.kernel.empty() ? "call" : core::shortened(stage.kernel), "] its function is empty"));
  }
  const std::scoped_lock lock(pipeline.mutex);
  pipeline.stages.push_back(std::move(stage));
  pipeline.variants.clear();
  return *this;
}

Pipeline& Pipeline::add(std::string_view kernel, const BufferList& inputs, const Buffer& output, const Params& params) {
  return add({.kernel = std::string(kernel), .inputs = to_vector(inputs), .output = output, .params = params});
}
Pipeline& Pipeline::add(const tile::Kernel& kernel, const BufferList& inputs, const Buffer& output,
                        const Params& params) {
  return add({.inputs = to_vector(inputs),
              .output = output,
              .params = params,
              .tile_kernel = std::make_shared<const tile::Kernel>(kernel)});
}
Pipeline& Pipeline::copy(const Buffer& from, const Buffer& to) {
  return add({.op = StageOp::copy_buffer, .inputs = {from}, .output = to});
}
Pipeline& Pipeline::fill(const Buffer& output, Value value) {
  return add({.kernel = "fill", .output = output, .params = {{"value", std::move(value)}}});
}
Pipeline& Pipeline::barrier() { return add({.op = StageOp::barrier}); }
Pipeline& Pipeline::call(HostFunction function, const BufferList& reads, const BufferList& writes) {
  return call({}, std::move(function), reads, writes);
}
Pipeline& Pipeline::call(std::string_view name, HostFunction function, const BufferList& reads,
                         const BufferList& writes) {
  return add({.op = StageOp::call,
              .kernel = std::string(name),
              .inputs = to_vector(reads),
              .outputs = to_vector(writes),
              .function = std::move(function)});
}

Buffer Pipeline::temporary(const Shape& shape, DType dtype) {
  PipelineState& pipeline = state("temporary");
  const std::scoped_lock lock(pipeline.mutex);
  return pipeline.add_placeholder(GraphBuffer::Kind::temporary, text("temporary ", pipeline.temporaries), shape, dtype);
}

Buffer Pipeline::slot(std::string_view name, const Shape& shape, DType dtype) {
  PipelineState& pipeline = state("slot");
  std::string own_name(name);
  const std::scoped_lock lock(pipeline.mutex);
  expect_free_name(pipeline, "slot", own_name, false);
  return pipeline.add_placeholder(GraphBuffer::Kind::slot, std::move(own_name), shape, dtype);
}

Value Pipeline::param(std::string_view name, Value default_value) {
  PipelineState& pipeline = state("param");
  const std::string own_name(name);
  const std::scoped_lock lock(pipeline.mutex);
  expect_free_name(pipeline, "param", own_name, true);
  if (const auto found = pipeline.param_indices.find(own_name); found != pipeline.param_indices.end()) {
    pipeline.params[found->second].value = std::move(default_value);
  } else {
    pipeline.params.emplace_back(name, std::move(default_value));
    try {
      pipeline.param_indices.emplace(own_name, pipeline.params.size() - 1);
    } catch (...) {
      pipeline.params.pop_back();
      throw;
    }
  }
  pipeline.variants.clear();
  return Value::parameter(name);
}

std::vector<Stage> Pipeline::stages() const {
  PipelineState& pipeline = state("stages");
  const std::scoped_lock lock(pipeline.mutex);
  return pipeline.stages;
}

std::size_t Pipeline::stage_count() const {
  PipelineState& pipeline = state("stage_count");
  const std::scoped_lock lock(pipeline.mutex);
  return pipeline.stages.size();
}

void Pipeline::compile() { state("compile").compile(); }

std::vector<std::string> Pipeline::warnings() {
  state("warnings").compile();
  return state("warnings").variant()->plan->warnings;
}

void Pipeline::run(const Bindings& bindings) { state("run").run(bindings, nullptr); }
void Pipeline::run(const Bindings& bindings, const Stream& stream) {
  state("run").run(bindings, stream_of(stream, "run"));
}
Command Pipeline::submit(const Bindings& bindings) {
  return Access::make<Command>(state("submit").submit(bindings, nullptr));
}
Command Pipeline::submit(const Bindings& bindings, const Stream& stream) {
  return Access::make<Command>(state("submit").submit(bindings, stream_of(stream, "submit")));
}

std::string Pipeline::explain() {
  state("explain").compile();
  const auto variant = state("explain").variant();
  return plan::explain(variant->plan->graph, variant->plan->plan, variant->plan->warnings);
}

std::string Pipeline::to_dot() {
  state("to_dot").compile();
  const auto variant = state("to_dot").variant();
  return plan::to_dot(variant->plan->graph, variant->plan->plan);
}

std::string Pipeline::to_json() const {
  PipelineState& pipeline = state("to_json");
  const std::scoped_lock lock(pipeline.mutex);
  std::vector<Buffer> buffers;
  std::vector<plan::Problem> problems;
  const plan::Graph graph = pipeline.graph(buffers, problems);
  if (!problems.empty()) throw_problems(graph, problems);
  return plan::to_json(graph, pipeline.options);
}

Pipeline Pipeline::from_json(const Device& device, std::string_view text) {
  PipelineOptions options;
  const plan::Graph graph = plan::from_json(text, &options);
  Pipeline pipeline(device, options);
  std::vector<Buffer> buffers;
  buffers.reserve(graph.buffers.size());
  for (const GraphBuffer& buffer : graph.buffers) {
    buffers.push_back(buffer.kind == GraphBuffer::Kind::slot ? pipeline.slot(buffer.name, buffer.shape, buffer.dtype)
                                                             : pipeline.temporary(buffer.shape, buffer.dtype));
  }
  for (const Param& param : graph.params) pipeline.param(param.name, param.value);
  const auto view_of = [&](const plan::Use& use) {
    const Buffer& buffer = buffers[use.buffer];
    return use.shape == buffer.shape() ? buffer : buffer.reshape(use.shape);
  };
  for (const plan::GraphStage& stage : graph.stages) {
    Stage made{.op = stage.op, .kernel = stage.op == StageOp::run_kernel ? stage.label : "", .params = stage.params};
    made.tile = stage.tile;
    for (const plan::Use& use : stage.inputs) made.inputs.push_back(view_of(use));
    if (!stage.outputs.empty()) made.output = view_of(stage.outputs.front());
    pipeline.add(std::move(made));
  }
  return pipeline;
}

RunTimes Pipeline::last_run() const {
  RunTimes times;
  state("last_run").log->last([&](const engine::RunTracker& run) {
    times.run = run.number();
    times.status = run.outcome();
    times.total = run.end_time() - run.begin_time();
    for (std::size_t g = 0; g < run.times().size(); ++g) {
      const engine::RunTracker::Time& time = run.times()[g];
      if (time.start == engine::Clock::time_point()) continue;
      for (const std::size_t stage : run.plan().plan.groups[g].stages) {
        times.stages.push_back({stage, run.plan().graph.stages[stage].label, g, time.start - run.begin_time(),
                                time.end - time.start, time.compiling});
      }
    }
  });
  return times;
}

}  // namespace tessera
