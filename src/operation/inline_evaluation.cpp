#include "operation/inline_evaluation.hpp"

#include <tessera/error.hpp>
#include <tessera/tile.hpp>

#include "api/kernel_call.hpp"
#include "kernels/kernel.hpp"
#include "operation/recorder.hpp"
#include "operation/run.hpp"

#include <vector>

namespace tessera::detail {

namespace {

// The buffer of a tensor that is nothing but one.
const Buffer* plain_buffer(const TensorHandle& tensor) noexcept {
  return tensor.state() ? tensor.state()->plain() : nullptr;
}

}  // namespace

void DirectEvaluation::keep_device() {
  kept_device_ = device_for(root_, options_);
  device_ = kept_device_.get();
}

void DirectEvaluation::evaluate() noexcept {
  try {
    visit(root_);
    if (!command_ || !command_->is_settled()) return;
    const Ref<engine::Work> over = std::move(command_);
    engine::throw_if_failed(*over);
  } catch (...) {
    failure_ = std::current_exception();
  }
}

void DirectEvaluation::visit(OperationNode& node) {
  for (OperationNode* child = node.first_child_; child; child = child->next_) {
    child->is_leaf() ? static_cast<void>(child->step(*this)) : visit(*child);
  }
  node.step(*this);
}

TensorHandle DirectEvaluation::make(const Shape& shape, DType dtype) {
  return TensorHandle(
      Ref<TensorState>::adopt(new TensorState(Access::make<Buffer>(engine::allocate(*device_, shape, dtype, false)))));
}

void DirectEvaluation::run(const KernelWork& work) {
  if (!options_.stream && has_stream_policy()) options_.stream = stream_for(*device_, options_);
  BufferList inputs;
  const Buffer* output = plain_buffer(*work.output);
  if (!output || work.inputs.size() > BufferList::max_in_braces || work.tile || work.grid) return run_any(work);
  for (const TensorHandle* input : work.inputs) {
    const Buffer* buffer = plain_buffer(*input);
    if (!buffer) return run_any(work);
    Access::append(inputs, *buffer);
  }
  start(work, inputs, *output, {});
}

void DirectEvaluation::run_any(const KernelWork& work) {
  std::vector<std::int64_t> tile;
  set_tile(work, tile);
  const Buffer output = work.output->buffer();
  std::vector<Buffer> inputs;
  inputs.reserve(work.inputs.size());
  for (const TensorHandle* input : work.inputs) inputs.push_back(input->buffer());
  start(work, inputs, output, tile);
}

void DirectEvaluation::start(const KernelWork& work, const BufferList& inputs, const Buffer& output,
                             std::span<const std::int64_t> tile) {
  KernelCall call(inputs, output, work.params ? kernels::Given(*work.params) : kernels::Given(work.values),
                  Access::get(options_.stream));
  command_ = engine::start(*device_, work.kernel ? call.of(*work.kernel, tile) : call.of(work.name, tile));
}

void DirectEvaluation::refuse() { throw Error(Errc::internal, "an operation that is not evaluated directly was"); }

}  // namespace tessera::detail
