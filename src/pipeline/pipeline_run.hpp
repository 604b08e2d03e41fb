#pragma once

#include <tessera/bindings.hpp>

#include "core/inline_vector.hpp"
#include "engine/cross_device.hpp"
#include "pipeline/pipeline_state.hpp"

#include <memory>
#include <vector>

// What the parts of a run have in common.
namespace tessera::detail::engine {

// What a run is asked for with.
struct Request {
  const std::shared_ptr<const PipelineVariant>& variant;
  const std::shared_ptr<RunLog>& log;
  core::InlineVector<Storage*, 8> slots;  // in the order of the plan's
  StreamState* stream;
};

// The buffers that are bound to the plan's slots, and what is wrong with them (pipeline_slots.cpp).
void find_slots(const DeviceState& device, const Bindings& bindings, Request& request,
                std::vector<BindingProblem>& problems);
// All that is wrong with the bindings as one Error.
[[noreturn]] void throw_problems(const std::vector<BindingProblem>& problems);

// An idle instance, a new one, or one that is in use: then the buffers order this run after those before it.
// Errc::out_of_memory if there is none at all. Under the order lock, which it may give up for a time
// (pipeline_instance.cpp).
PipelineInstance& take_instance(DeviceState& device, PipelinePlan& plan, OrderLocks& order);
// The instance's launches for this run. Under the order lock.
void bind(const Request& request, const PipelinePlan& plan, PipelineInstance& instance);

}  // namespace tessera::detail::engine
