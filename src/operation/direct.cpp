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

// The buffers of tensors, with handles of their own only where those are needed.
class Operands {
 public:
  explicit Operands(const KernelWork& work) : count_(work.inputs.size()) {
    if (count_ > few_.size()) {
      for (const TensorHandle* input : work.inputs) many_.push_back(input->buffer());
    } else {
      for (std::size_t i = 0; i < count_; ++i) few_[i] = &buffer(*work.inputs[i]);
    }
    output_ = &buffer(*work.output);
  }
  BufferList inputs() const { return many_.empty() ? BufferList::of_pointers(few_.data(), count_) : BufferList(many_); }
  const Buffer& output() const noexcept { return *output_; }

 private:
  const Buffer& buffer(const TensorHandle& tensor) {
    const Buffer* plain = tensor.state() ? tensor.state()->plain() : nullptr;
    if (plain) return *plain;
    if (own_.empty()) own_.reserve(few_.size() + 1);
    return own_.emplace_back(tensor.buffer());
  }

  std::size_t count_;
  std::array<const Buffer*, 8> few_;
  std::vector<Buffer> many_;  // instead, if there are more
  std::vector<Buffer> own_;   // of those that are not plain
  const Buffer* output_;
};

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
  std::vector<std::int64_t> tile;
  if (work.tile || work.grid) set_tile(work, tile);
  const Operands operands(work);
  command_ = device_->start({.kernel = work.name,
                             .tile_kernel = nullptr,
                             .inputs = operands.inputs(),
                             .output = operands.output(),
                             .params = work.params ? kernels::Given(*work.params) : kernels::Given(work.values),
                             .stream = options_.stream.state(),
                             .tile = tile,
                             .known = work.kernel});
}

void DirectEvaluation::refuse() { throw Error(Errc::internal, "an operation that is not evaluated directly was"); }

}  // namespace tessera::detail
