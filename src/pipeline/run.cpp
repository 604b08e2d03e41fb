#include <tessera/error.hpp>

#include "core/text.hpp"
#include "engine/stream_state.hpp"
#include "engine/submission.hpp"
#include "pipeline/pipeline_state.hpp"

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

Ref<Work> PipelineState::submit(const Bindings& bindings, StreamState* stream) {
  try {
    const Request request = checked(*this, bindings, stream);
    return engine::submit(*device, request.of(*this, stream));
  } catch (const Error& error) {
    return engine::refuse(*device, engine::run_label, Status::failed, error.failure());
  }
}

}  // namespace tessera::detail::pipeline
