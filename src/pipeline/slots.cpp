// The buffers that a run binds to the slots of its pipeline.
#include <tessera/error.hpp>

#include "core/text.hpp"
#include "pipeline/pipeline_state.hpp"

#include <algorithm>
#include <span>

namespace tessera::detail::pipeline {

using core::text;

namespace {

Storage& checked_slot(const DeviceState& device, const plan::GraphBuffer& slot, const Binding& binding) {
  const auto what = [&] { return text("the buffer for the slot ", core::in_quotes(slot.name)); };
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

// The plan assumes that a buffer it writes is not bound twice.
void check_different(const ExecutablePlan& plan, const BoundSlots& slots, std::size_t index) {
  const std::size_t slot = plan.slots[index];
  const auto check = [&](std::size_t other, const Storage* storage) {
    if (storage != slots[index] || !(plan.is_written[slot] || plan.is_written[other])) return;
    throw Error(Errc::invalid_argument,
                text("the buffer for the slot ", core::in_quotes(plan.graph.buffers[slot].name), " is also ",
                     core::shortened(plan.graph.buffers[other].name), ", and the pipeline writes it"));
  };
  for (std::size_t i = 0; i < index; ++i) check(plan.slots[i], slots[i]);
  for (const std::size_t buffer : plan.used) {
    if (plan.buffers[buffer]) check(buffer, plan.buffers[buffer]->storage);
  }
}

}  // namespace

void find_slots(const DeviceState& device, const ExecutablePlan& plan, const Bindings& bindings, BoundSlots& slots,
                std::vector<BindingProblem>& problems) {
  for (const std::size_t number : plan.slots) {
    const plan::GraphBuffer& slot = plan.graph.buffers[number];
    const Binding* bound = nullptr;
    for (std::size_t i = 0; i < bindings.size() && !bound; ++i) {
      if (bindings[i].is_buffer && bindings[i].name == slot.name) bound = &bindings[i];
    }
    slots.push_back(nullptr);
    try {
      if (bound) {
        slots[slots.size() - 1] = &checked_slot(device, slot, *bound);
        check_different(plan, slots, slots.size() - 1);
      } else if (std::ranges::binary_search(plan.used, number)) {
        throw Error(Errc::invalid_argument, text("the slot ", core::in_quotes(slot.name), ", ",
                                                 to_string(slot.dtype, slot.shape), ", has no buffer in this run"));
      }
    } catch (const Error& error) {
      problems.push_back({error.code(), error.what()});
    }
  }
}

void throw_problems(const std::vector<BindingProblem>& problems) {
  if (problems.size() == 1) throw Error(problems.front().code, text("pipeline: ", problems.front().what));
  std::string message = text("pipeline: ", problems.size(), " problems:");
  for (const BindingProblem& problem : std::span(problems).first(std::min(problems.size(), plan::most_listed))) {
    message += text("\n  ", problem.what);
  }
  if (problems.size() > plan::most_listed) message += text("\n  and ", problems.size() - plan::most_listed, " more");
  throw Error(problems.front().code, message);
}

}  // namespace tessera::detail::pipeline
