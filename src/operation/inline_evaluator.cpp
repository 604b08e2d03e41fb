#include "operation/inline_evaluator.hpp"

#include <tessera/error.hpp>

#include "api/kernel_call.hpp"
#include "kernels/kernel.hpp"
#include "operation/call_batch.hpp"
#include "operation/known_kernel.hpp"
#include "operation/run_state.hpp"

#include <vector>

namespace tessera::detail::operation {

namespace {

// The buffer of a tensor without recorded work or failures; else null.
const Buffer* plain_buffer(const TensorHandle& tensor) noexcept {
  return tensor.state() ? tensor.state()->plain() : nullptr;
}

}  // namespace

void InlineEvaluator::keep_device() {
  kept_device_ = device_for(root_, options_);
  device_ = kept_device_.get();
}

void InlineEvaluator::evaluate() noexcept {
  try {
    visit(root_);
    if (!command_ || !command_->is_settled()) return;
    const Ref<engine::Work> finished = std::move(command_);
    engine::throw_if_failed(*finished);
  } catch (...) {
    failure_ = std::current_exception();
  }
}

void InlineEvaluator::visit(OperationNode& node) {
  for (OperationNode* child = node.first_child_; child; child = child->next_) {
    child->is_leaf() ? static_cast<void>(child->step(*this)) : visit(*child);
  }
  node.step(*this);
}

TensorHandle InlineEvaluator::make(const Shape& shape, DType dtype) {
  return TensorHandle(
      Ref<TensorState>::adopt(new TensorState(Access::make<Buffer>(engine::allocate(*device_, shape, dtype, false)))));
}

void InlineEvaluator::run(const KernelInvocation& call) {
  if (!options_.stream && has_stream_policy()) options_.stream = stream_for(*device_, options_);
  BufferList inputs;
  const Buffer* output = plain_buffer(*call.output);
  if (!output || call.inputs.size() > BufferList::max_in_braces || call.tile || call.grid) return run_any(call);
  for (const TensorHandle* input : call.inputs) {
    const Buffer* buffer = plain_buffer(*input);
    if (!buffer) return run_any(call);
    Access::append(inputs, *buffer);
  }
  start(call, inputs, *output, {});
}

void InlineEvaluator::run_any(const KernelInvocation& call) {
  std::vector<std::int64_t> tile;
  set_tile(call, tile);
  const Buffer output = call.output->buffer();
  std::vector<Buffer> inputs;
  inputs.reserve(call.inputs.size());
  for (const TensorHandle* input : call.inputs) inputs.push_back(input->buffer());
  start(call, inputs, output, tile);
}

void InlineEvaluator::start(const KernelInvocation& call, const BufferList& inputs, const Buffer& output,
                            std::span<const std::int64_t> tile) {
  KernelCall kernel_call(inputs, output,
                         call.params ? kernels::ParamsView(*call.params) : kernels::ParamsView(call.values),
                         Access::get(options_.stream));
  command_ = engine::start(
      *device_, call.kernel ? kernel_call.of(*from_known(call.kernel), tile) : kernel_call.of(call.name, tile));
}

void InlineEvaluator::refuse() { throw Error(Errc::internal, "an operation was evaluated inline that must not be"); }

}  // namespace tessera::detail::operation
