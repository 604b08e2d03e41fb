#include <tessera/error.hpp>

#include "core/text.hpp"
#include "engine/stream_state.hpp"
#include "engine/submission.hpp"
#include "pipeline/pipeline_state.hpp"

#include <algorithm>
#include <vector>

namespace tessera::detail::pipeline {

namespace {

// A run that has passed the checks that need no lock.
struct Request {
  std::shared_ptr<const PlanVariant> variant;
  BoundSlots slots;

  engine::PlanRun of(const PipelineState& pipeline, StreamState* stream) const {
    return {variant, pipeline.log, {slots.data(), slots.size()}, stream};
  }
};

Request checked(PipelineState& pipeline, const Bindings& bindings, const StreamState* stream) {
  pipeline.device->expect_own_process();
  std::vector<BindingProblem> problems;
  Request request{pipeline.variant(bindings, problems), {}};
  if (stream && stream->device != pipeline.device) {
    throw Error(Errc::wrong_device,
                core::text("pipeline: the stream belongs to another device, ", stream->device->name()));
  }
  const ExecutablePlan& plan = *request.variant->plan;
  if (!plan.slots.empty()) find_slots(*pipeline.device, plan, bindings, request.slots, problems);
  if (!problems.empty()) [[unlikely]]
    throw_problems(problems);
  return request;
}

}  // namespace

void PipelineState::run(const Bindings& bindings, StreamState* stream) {
  const Request request = checked(*this, bindings, stream);
  engine::run(*device, request.of(*this, stream));
}

// What the stages write, as far as it can be told of a pipeline or bindings that are wrong.
std::vector<Buffer> PipelineState::outputs(const Bindings& bindings) {
  std::vector<Buffer> found;
  const auto add = [&](const Buffer& buffer) {
    if (buffer) found.push_back(buffer);
  };
  const std::scoped_lock lock(mutex);
  for (const Stage& stage : stages) {
    add(stage.output);
    for (const Buffer& output : stage.outputs) add(output);
  }
  for (Buffer& buffer : found) {
    const auto is_it = [&](const Placeholder& one) { return one.handle == buffer; };
    const auto slot = std::ranges::find_if(placeholders, is_it);
    if (slot == placeholders.end()) continue;
    for (std::size_t i = 0; i < bindings.size(); ++i) {
      if (bindings[i].name == slot->name && bindings[i].buffer) buffer = bindings[i].buffer;
    }
  }
  return found;
}

Ref<Work> PipelineState::submit(const Bindings& bindings, StreamState* stream) {
  try {
    const Request request = checked(*this, bindings, stream);
    return engine::submit(*device, request.of(*this, stream));
  } catch (const Error& error) {
    const std::vector<Buffer> written = outputs(bindings);
    std::vector<engine::Storage*> storages;
    storages.reserve(written.size());
    for (const Buffer& buffer : written) storages.push_back(Access::get(buffer)->storage);
    return engine::refuse(*device, engine::run_label, error.failure(), storages);
  }
}

}  // namespace tessera::detail::pipeline
