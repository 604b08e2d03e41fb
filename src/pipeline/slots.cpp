// The buffers that a run brings for the slots of its pipeline.
#include <tessera/error.hpp>

#include "core/text.hpp"
#include "pipeline/pipeline_run.hpp"

#include <algorithm>

namespace tessera::detail::engine {

using core::text;

namespace {

Storage& checked_slot(const DeviceState& device, const plan::PipelineBuffer& slot, const Binding& binding) {
  const auto what = [&] { return text("the buffer for the slot '", slot.name, "'"); };
  const View* view = Access::get(binding.buffer);
  if (!view) throw Error(Errc::invalid_argument, what() + " is an empty handle");
  Storage& storage = *view->storage;
  if (storage.device.get() != &device) {
    throw Error(Errc::wrong_device,
                text(what(), " lives on another device: ", storage.device->name(), ", not ", device.name()));
  }
  if (!storage.placeholder.empty()) throw Error(unusable(what(), storage));
  if (view->dtype != slot.dtype || view->shape != slot.shape) {
    throw Error(view->dtype != slot.dtype ? Errc::dtype_mismatch : Errc::shape_mismatch,
                text(what(), " must be ", to_string(slot.dtype, slot.shape), ", got ", describe(*view)));
  }
  return storage;
}

// The plan was made for buffers that are different ones.
void check_different(const PipelinePlan& plan, const Request& request, std::size_t index) {
  const std::size_t slot = plan.slots[index];
  const auto check = [&](std::size_t other, const Storage* storage) {
    if (storage != request.slots[index] || !(plan.is_written[slot] || plan.is_written[other])) return;
    throw Error(Errc::invalid_argument, text("the buffer for the slot '", plan.graph.buffers[slot].name, "' is ",
                                             plan.graph.buffers[other].name, " too, and the pipeline writes it"));
  };
  for (std::size_t i = 0; i < index; ++i) check(plan.slots[i], request.slots[i]);
  for (const std::size_t buffer : plan.used) {
    if (plan.buffers[buffer]) check(buffer, Access::get(plan.buffers[buffer])->storage);
  }
}

}  // namespace

void find_slots(const DeviceState& device, const Bindings& bindings, Request& request,
                std::vector<BindingProblem>& problems) {
  const PipelinePlan& plan = *request.variant->plan;
  for (const std::size_t number : plan.slots) {
    const plan::PipelineBuffer& slot = plan.graph.buffers[number];
    const Binding* bound = nullptr;
    for (std::size_t i = 0; i < bindings.size() && !bound; ++i) {
      if (bindings[i].is_buffer && bindings[i].name == slot.name) bound = &bindings[i];
    }
    request.slots.push_back(nullptr);
    try {
      if (bound) {
        request.slots[request.slots.size() - 1] = &checked_slot(device, slot, *bound);
        check_different(plan, request, request.slots.size() - 1);
      } else if (std::ranges::binary_search(plan.used, number)) {
        throw Error(Errc::invalid_argument, text("the slot '", slot.name, "', ", to_string(slot.dtype, slot.shape),
                                                 ", has no buffer in this run"));
      }
    } catch (const Error& error) {
      problems.push_back({error.code(), error.what()});
    }
  }
}

void throw_problems(const std::vector<BindingProblem>& problems) {
  if (problems.size() == 1) throw Error(problems.front().code, text("pipeline: ", problems.front().what));
  std::string message = text("pipeline: ", problems.size(), " problems:");
  for (const BindingProblem& problem : problems) message += text("\n  ", problem.what);
  throw Error(problems.front().code, message);
}

}  // namespace tessera::detail::engine
