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

// The buffer of a tensor, without a handle of its own where that is not needed.
class Operand {
 public:
  Operand() = default;
  explicit Operand(const TensorHandle& tensor) {
    if (tensor.state()) plain_ = tensor.state()->plain();
    if (!plain_) own_ = tensor.buffer();
  }
  const Buffer& buffer() const noexcept { return plain_ ? *plain_ : own_; }

 private:
  const Buffer* plain_ = nullptr;
  Buffer own_;
};

}  // namespace

bool DirectEvaluation::is_for(const OperationNode& root, const RunOptions& options) noexcept {
  constexpr std::uint32_t most_depth = 8;  // visit() goes down by recursion
  return root.is_direct() && root.calls() <= 1 && root.depth() <= most_depth && !options.stop.stop_possible();
}

DirectEvaluation::DirectEvaluation(OperationNode& root, RunOptions& options)
    : root_(root), options_(options), device_(device_for(root, options)) {}

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
  return {allocate(*device_, shape, dtype, false), dtype};
}

void DirectEvaluation::run(const KernelWork& work) {
  if (!options_.stream && has_stream_policy()) options_.stream = stream_for(*device_, options_);
  std::vector<std::int64_t> tile;
  set_tile(work, tile);
  const Operand output(*work.output);
  std::array<Operand, 4> few;
  std::array<const Buffer*, 4> pointers;
  std::vector<Buffer> many;
  const std::size_t count = work.inputs.size();
  const bool is_few = count <= few.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (is_few) {
      few[i] = Operand(*work.inputs[i]);
      pointers[i] = &few[i].buffer();
    } else {
      many.push_back(work.inputs[i]->buffer());
    }
  }
  command_ = device_->start({.kernel = work.name,
                             .tile_kernel = work.kernel,
                             .inputs = is_few ? BufferList::of_pointers(pointers.data(), count) : BufferList(many),
                             .output = output.buffer(),
                             .params = work.params ? kernels::Given(*work.params) : kernels::Given(work.values),
                             .stream = options_.stream.state(),
                             .tile = tile});
}

void DirectEvaluation::refuse() { throw Error(Errc::internal, "an operation that is not evaluated directly was"); }

}  // namespace tessera::detail
