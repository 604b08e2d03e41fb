#include "operation/direct.hpp"

#include <tessera/error.hpp>
#include <tessera/tile.hpp>

#include "kernels/kernel.hpp"
#include "operation/recorder.hpp"
#include "operation/run.hpp"

#include <array>
#include <vector>

namespace tessera::detail {

namespace {

// The buffer of a tensor that is nothing but one.
const Buffer* plain_buffer(const TensorHandle& tensor) noexcept {
  return tensor.state() ? tensor.state()->plain() : nullptr;
}

}  // namespace

bool DirectEvaluation::is_for(const OperationNode& root, const RunOptions& options) noexcept {
  constexpr std::uint32_t most_depth = 8;  // visit() goes down by recursion
  return root.is_direct() && root.calls() <= 1 && root.depth() <= most_depth && !options.stop.stop_possible();
}

DirectEvaluation::DirectEvaluation(OperationNode& root, RunOptions& options)
    : root_(root), options_(options), device_(root.device()) {
  // A call by itself holds a tensor that keeps the device to its end; in other trees a step may drop the last one.
  if (device_ && root.calls() == 1 && root.depth() <= 1 && !options.stream) return;
  kept_device_ = device_for(root, options);
  device_ = kept_device_.get();
}

void DirectEvaluation::evaluate() noexcept {
  try {
    visit(root_);
    if (!command_ || !command_->is_settled()) return;
    const Ref<Node> over = std::move(command_);
    throw_if_failed(*over);
  } catch (...) {
    failure_ = std::current_exception();
  }
}

void DirectEvaluation::visit(OperationNode& node) {
  for (OperationNode* child = node.first_child_; child; child = child->next_) visit(*child);
  node.step(*this);
}

TensorHandle DirectEvaluation::make(const Shape& shape, DType dtype) {
  return TensorHandle(Ref<TensorState>::adopt(new TensorState(allocate(*device_, shape, dtype, false))));
}

void DirectEvaluation::run(const KernelWork& work) {
  if (!options_.stream && has_stream_policy()) options_.stream = stream_for(*device_, options_);
  std::array<const Buffer*, 8> inputs;
  const Buffer* output = plain_buffer(*work.output);
  bool is_plain = output && work.inputs.size() <= inputs.size() && !work.tile && !work.grid;
  for (std::size_t i = 0; is_plain && i < work.inputs.size(); ++i) {
    inputs[i] = plain_buffer(*work.inputs[i]);
    is_plain = inputs[i] != nullptr;
  }
  if (!is_plain) return run_any(work);
  start(work, BufferList::of_pointers(inputs.data(), work.inputs.size()), *output, {});
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
  command_ = device_->start({.kernel = work.name,
                             .tile_kernel = nullptr,
                             .inputs = inputs,
                             .output = output,
                             .params = work.params ? kernels::Given(*work.params) : kernels::Given(work.values),
                             .stream = options_.stream.state(),
                             .tile = tile,
                             .known = work.kernel});
}

void DirectEvaluation::refuse() { throw Error(Errc::internal, "an operation that is not evaluated directly was"); }

}  // namespace tessera::detail
