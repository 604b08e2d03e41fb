// Functions of the program's own as stages of a pipeline.
#include <tessera/error.hpp>

#include "core/text.hpp"
#include "runtime/pipeline_state.hpp"

#include <algorithm>
#include <exception>
#include <utility>

namespace tessera::detail {

using core::text;

namespace {

// In a call stage, on this thread: what it has its hands on.
thread_local const Node* this_call = nullptr;

// A worker that waits in a call may run another one.
class InCall {
 public:
  explicit InCall(const Node& node) : outer_(std::exchange(this_call, &node)) {}
  ~InCall() { this_call = outer_; }
  InCall(const InCall&) = delete;
  InCall& operator=(const InCall&) = delete;

 private:
  const Node* outer_;
};

}  // namespace

void call_host_function(const CompiledGroup& group, Node& node) {
  node.device->scheduler->before_user_code();
  const HostCallView view{group, node};
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
}

void expect_not_in_call(const Storage& storage, bool writes, std::string_view label) {
  if (!this_call) [[likely]]
    return;
  const auto has = [&](const auto& list) { return std::ranges::find(list, &storage) != list.end(); };
  if (!has(this_call->outputs) && !(writes && has(this_call->inputs))) return;
  throw Error(Errc::invalid_argument,
              text("[", label, "] the buffer is one of ", this_call->describe(),
                   ", which this thread is in: it would wait for itself; use what HostCall gives"));
}

}  // namespace tessera::detail

namespace tessera {

namespace {

using Kind = std::string_view;

// One of a call's buffers.
std::span<std::byte> bytes_of(const detail::HostCallView& view, Kind kind, const std::vector<graph::Use>& uses,
                              detail::Storage* const* storages, std::size_t index, DType dtype) {
  const auto what = [&] { return core::text("[", view.group.label, "] ", kind, " ", index); };
  if (index >= uses.size()) {
    throw Error(Errc::count_mismatch, core::text(what(), ": the call has ", uses.size(), " ", kind, "s"));
  }
  const graph::Use& use = uses[index];
  if (use.dtype != dtype) {
    throw Error(Errc::dtype_mismatch,
                core::text(what(), " is ", to_string(use.dtype, use.shape), ", not ", to_string(dtype)));
  }
  driver::Driver& driver = *view.node.device->driver;
  std::byte* address = driver.host_address(storages[index]->block.address);
  if (!address) {
    throw Error(Errc::unsupported, core::text(what(), ": the host cannot address the memory of ", driver.info().name));
  }
  return {address, use.bytes()};
}

const Shape& shape_of(const detail::HostCallView& view, Kind kind, const std::vector<graph::Use>& uses,
                      std::size_t index) {
  if (index < uses.size()) return uses[index].shape;
  throw Error(Errc::count_mismatch, core::text("[", view.group.label, "] ", kind, " ", index, ": the call has ",
                                               uses.size(), " ", kind, "s"));
}

}  // namespace

std::span<std::byte> HostCall::input_bytes(std::size_t index, DType dtype) const {
  return bytes_of(view_, "input", view_.group.input_uses, view_.node.inputs.data(), index, dtype);
}
std::span<std::byte> HostCall::output_bytes(std::size_t index, DType dtype) const {
  return bytes_of(view_, "output", view_.group.output_uses, view_.node.outputs.data(), index, dtype);
}
const Shape& HostCall::input_shape(std::size_t index) const {
  return shape_of(view_, "input", view_.group.input_uses, index);
}
const Shape& HostCall::output_shape(std::size_t index) const {
  return shape_of(view_, "output", view_.group.output_uses, index);
}

}  // namespace tessera
