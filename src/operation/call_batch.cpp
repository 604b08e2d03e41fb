#include "operation/call_batch.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"
#include "operation/known_kernel.hpp"

#include <algorithm>
#include <string>
#include <string_view>

namespace tessera::detail::operation {

using core::text;

void set_tile(const KernelInvocation& call, std::vector<std::int64_t>& tile) {
  tile.clear();
  if (!call.grid) {
    if (call.tile) tile.assign(call.tile->begin(), call.tile->end());
    return;
  }
  const Shape &shape = call.output->shape(), &grid = *call.grid;
  const std::string_view name = call.kernel ? from_known(call.kernel)->name : call.name;
  if (shape.rank() != grid.rank()) {
    throw Error(Errc::shape_mismatch, text("[", name, "] the grid ", to_string(grid), " and the output ",
                                           to_string(shape), " have different ranks"));
  }
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (grid[axis] < 1) {
      throw Error(Errc::invalid_argument, text("[", name, "] the grid ", to_string(grid), " has no tiles"));
    }
    tile.push_back(std::max<std::int64_t>(1, (shape[axis] + grid[axis] - 1) / grid[axis]));
  }
}

void CallBatch::clear() noexcept {
  operands.clear();
  call_count_ = 0;
}

Buffer CallBatch::buffer_of(const OperandUse& use) const {
  const Buffer& buffer = operands[use.operand].buffer;
  return use.reshaped ? buffer.reshape(*use.reshaped) : buffer;
}

std::size_t CallBatch::pinned_bytes() const noexcept {
  std::size_t bytes = 0;
  for (const Operand& operand : operands) {
    if (operand.is_promised == operand.is_held()) bytes += operand.tensor->shape.size_bytes(operand.tensor->dtype);
  }
  return bytes;
}

void CallBatch::drop_unneeded() {
  for (Operand& operand : operands) operand.is_needed = !operand.is_promised || operand.is_held();
  for (std::size_t c = call_count_; c-- > 0;) {
    RecordedCall& call = calls_[c];
    if (!call.kernel) continue;
    if (!operands[call.uses[0].operand].is_needed) {
      call.kernel = nullptr;
      continue;
    }
    // The output stays needed: an earlier call may have read its previous contents.
    for (std::size_t i = 1; i < call.uses.size(); ++i) operands[call.uses[i].operand].is_needed = true;
  }
}

void CallBatch::drop_promised_buffers() noexcept {
  for (Operand& operand : operands) {
    if (operand.is_promised) operand.buffer = {};
  }
}

void CallBatch::throw_if_freed() const {
  for (const RecordedCall& call : calls()) {
    if (!call.kernel) continue;
    for (std::size_t i = 0; i < call.uses.size(); ++i) {
      const engine::View* view = Access::get(operands[call.uses[i].operand].buffer);
      if (!view || !view->storage->is_freed.load(std::memory_order_relaxed)) continue;
      const std::string which = i == 0 ? "output" : text("input ", i - 1, " (", call.kernel->inputs[i - 1], ")");
      throw Error(engine::unusable(text("[", call.kernel->name, "] ", which), *view->storage));
    }
  }
}

void CallBatch::number_operands() {
  numbers_.assign(operands.size(), no_index);
  numbered_ = 0;
  for (const RecordedCall& call : calls()) {
    if (!call.kernel) continue;
    for (const OperandUse& use : call.uses) {
      if (numbers_[use.operand] == no_index) numbers_[use.operand] = numbered_++;
    }
  }
}

}  // namespace tessera::detail::operation
