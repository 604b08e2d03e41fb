// Functions of the program's own as stages of a pipeline.
#include <tessera/error.hpp>

#include "core/text.hpp"
#include "pipeline/pipeline_state.hpp"

#include <algorithm>
#include <exception>
#include <unordered_set>
#include <utility>
#include <vector>

namespace tessera::detail::engine {

using core::text;

namespace {

// The call stage that this thread is in.
thread_local const Work* this_call = nullptr;

// The call that this thread is in and all that waits for it, directly or not. As long as the thread is in there, none
// of them goes on: what hangs on them stays where it is, and only more can come.
std::unordered_set<const engine::Ordered*> call_and_what_waits() {
  std::unordered_set<const engine::Ordered*> found = {this_call};
  std::vector<const engine::Ordered*> unseen = {this_call};
  while (!unseen.empty()) {
    const engine::Ordered* node = unseen.back();
    unseen.pop_back();
    node->each_dependent([&](const engine::Ordered& dependent) {
      if (found.insert(&dependent).second) unseen.push_back(&dependent);
    });
  }
  return found;
}

// A worker that waits in a call may run another one.
class InCall {
 public:
  explicit InCall(const Work& node) : outer_(std::exchange(this_call, &node)) {}
  ~InCall() { this_call = outer_; }
  InCall(const InCall&) = delete;
  InCall& operator=(const InCall&) = delete;

 private:
  const Work* outer_;
};

// What the host cannot address is copied out, and the outputs back in.
void copy_out(HostCallView& view) {
  driver::Driver& driver = *view.node.device->driver;
  const auto copy = [&](const Storage& storage, const plan::Use& use) {
    std::vector<std::byte>& bytes = view.copies.emplace_back();
    if (driver.host_address(storage.block.address)) return;
    bytes.resize(use.bytes());
    driver.download(bytes, storage.block.address);
  };
  for (std::size_t i = 0; i < view.group.input_uses.size(); ++i) copy(*view.node.inputs[i], view.group.input_uses[i]);
  for (std::size_t i = 0; i < view.group.output_uses.size(); ++i)
    copy(*view.node.outputs[i], view.group.output_uses[i]);
}

void copy_in(const HostCallView& view) {
  const std::size_t first = view.group.input_uses.size();
  for (std::size_t i = 0; i < view.group.output_uses.size(); ++i) {
    const std::vector<std::byte>& bytes = view.copies[first + i];
    if (!bytes.empty()) view.node.device->driver->upload(view.node.outputs[i]->block.address, bytes);
  }
}

}  // namespace

void call_host_function(const CompiledGroup& group, Work& node) {
  node.device->scheduler->before_user_code();
  HostCallView view{group, node, {}};
  if (node.device->queue) copy_out(view);
  HostCall call(view);
  const InCall in_call(node);
  try {
    group.function(call);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(Errc::call_failed, error.what());
  } catch (...) {
    throw Error(Errc::call_failed, "it threw something that is no std::exception");
  }
  if (node.device->queue) copy_in(view);
}

core::FailurePtr wait_for_own_call(const Storage& storage, bool writes, std::string_view label) {
  if (!this_call) return nullptr;
  const std::unordered_set<const engine::Ordered*> waiting = call_and_what_waits();
  bool is_own = false, is_after = false;
  storage.hazards.each_before(writes, [&](const engine::Ordered& before) {
    is_own = is_own || &before == this_call;
    is_after = is_after || waiting.contains(&before);
  });
  if (!is_after) return nullptr;
  return core::make_failure(
      Errc::invalid_argument,
      text("[", label, "] the buffer is ", is_own ? "one of " : "used by what waits for ", this_call->describe(),
           ", which this thread is in: it would wait for itself", is_own ? "; use what HostCall gives" : ""));
}

void expect_not_in_call(const DeviceState& device, std::string_view label) {
  if (!this_call || this_call->device.get() != &device) return;
  throw Error(Errc::invalid_argument,
              text("[", label, "] ", this_call->describe(), ", which this thread is in, would wait for itself"));
}

void expect_ends_without_call(Work& node) {
  if (!this_call || !call_and_what_waits().contains(&node)) return;
  throw Error(Errc::invalid_argument, text("[wait] ", node.describe(), " waits for ", this_call->describe(),
                                           ", which this thread is in: it would wait for itself"));
}

}  // namespace tessera::detail::engine

namespace tessera {

namespace {

using Kind = std::string_view;

// One of a call's buffers; `first` is the number of the first copy of that kind.
std::span<std::byte> bytes_of(const detail::engine::HostCallView& view, Kind kind, const std::vector<plan::Use>& uses,
                              detail::engine::Storage* const* storages, std::size_t first, std::size_t index,
                              DType dtype) {
  const auto what = [&] { return core::text("[", view.group.label, "] ", kind, " ", index); };
  if (index >= uses.size()) {
    throw Error(Errc::count_mismatch, core::text(what(), ": the call has ", uses.size(), " ", kind, "s"));
  }
  const plan::Use& use = uses[index];
  if (use.dtype != dtype) {
    throw Error(Errc::dtype_mismatch,
                core::text(what(), " is ", to_string(use.dtype, use.shape), ", not ", to_string(dtype)));
  }
  if (!view.copies.empty() && !view.copies[first + index].empty()) {
    const std::vector<std::byte>& copy = view.copies[first + index];
    return {const_cast<std::byte*>(copy.data()), copy.size()};
  }
  std::byte* address = view.node.device->driver->host_address(storages[index]->block.address);
  return {address, use.bytes()};
}

const Shape& shape_of(const detail::engine::HostCallView& view, Kind kind, const std::vector<plan::Use>& uses,
                      std::size_t index) {
  if (index < uses.size()) return uses[index].shape;
  throw Error(Errc::count_mismatch, core::text("[", view.group.label, "] ", kind, " ", index, ": the call has ",
                                               uses.size(), " ", kind, "s"));
}

}  // namespace

std::span<std::byte> HostCall::input_bytes(std::size_t index, DType dtype) const {
  return bytes_of(view_, "input", view_.group.input_uses, view_.node.inputs.data(), 0, index, dtype);
}
std::span<std::byte> HostCall::output_bytes(std::size_t index, DType dtype) const {
  return bytes_of(view_, "output", view_.group.output_uses, view_.node.outputs.data(), view_.group.input_uses.size(),
                  index, dtype);
}
const Shape& HostCall::input_shape(std::size_t index) const {
  return shape_of(view_, "input", view_.group.input_uses, index);
}
const Shape& HostCall::output_shape(std::size_t index) const {
  return shape_of(view_, "output", view_.group.output_uses, index);
}

}  // namespace tessera
