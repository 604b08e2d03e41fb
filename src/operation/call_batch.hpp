#pragma once

#include <tessera/buffer.hpp>
#include <tessera/detail/operation_evaluator.hpp>
#include <tessera/params.hpp>
#include <tessera/shape.hpp>

#include "kernels/kernel.hpp"
#include "operation/tensor_state.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tessera::detail::operation {

inline constexpr std::size_t no_index = ~std::size_t{0};

// A tensor that recorded calls use.
struct Operand {
  Ref<TensorState> tensor;
  Buffer buffer;                  // empty if there is no memory yet
  bool is_promised = false;       // there was no memory when it was recorded
  std::size_t writer = no_index;  // the last call that writes it
  bool is_read = false;           // since then
  bool is_read_first = false;     // read before a recorded call wrote it
  bool is_needed = false;         // it is held, or a needed call reads it
  std::size_t last_use = 0;       // the last call that uses it

  // Whether anybody but the recorder refers to the tensor.
  bool is_held() const noexcept { return tensor->refs.load(std::memory_order_acquire) > 1; }
  const Shape& shape() const noexcept {
    const engine::View* view = Access::get(buffer);
    return view ? view->shape : tensor->shape;
  }
  DType dtype() const noexcept {
    const engine::View* view = Access::get(buffer);
    return view ? view->dtype : tensor->dtype;
  }
};

// How a call uses an operand.
struct OperandUse {
  std::size_t operand;
  std::unique_ptr<const Shape> reshaped;  // null: the operand's own shape
};

struct RecordedCall {
  const kernels::Kernel* kernel = nullptr;  // null: the call was dropped
  std::vector<OperandUse> uses;             // the output, then the inputs
  Params params;                            // by name; or
  std::vector<Value> values;                // of all parameters
  std::vector<std::int64_t> tile;

  kernels::ParamsView given() const noexcept {
    return values.empty() ? kernels::ParamsView(params) : kernels::ParamsView(values);
  }
};

// The tile of a call: as given, derived from its grid, or empty. Throws if the grid does not fit the output.
void set_tile(const KernelInvocation& call, std::vector<std::int64_t>& tile);

// Kernel calls in the order they were recorded, and the tensors that they use. Not thread-safe.
class CallBatch {
 public:
  std::vector<Operand> operands;

  bool empty() const noexcept { return operands.empty(); }
  std::span<RecordedCall> calls() noexcept { return {calls_.data(), call_count_}; }
  std::span<const RecordedCall> calls() const noexcept { return {calls_.data(), call_count_}; }
  // Clears the batch but retains its capacity.
  void clear() noexcept;

  // A call is recorded in two steps: the caller fills next_call(), then add_next_call() appends it.
  RecordedCall& next_call();
  void add_next_call();

  const Shape& shape_of(const OperandUse& use) const noexcept {
    return use.reshaped ? *use.reshaped : operands[use.operand].shape();
  }
  Buffer buffer_of(const OperandUse& use) const;

  // Bytes that held tensors will need, and those of memory that only this batch keeps alive.
  std::size_t pinned_bytes() const noexcept;
  // Drops the calls whose results nobody holds or reads.
  void drop_unneeded();
  // Takes the memory of promised operands back.
  void drop_promised_buffers() noexcept;
  // Throws if the memory of an operand was freed through its buffer.
  void throw_if_freed() const;

  // Numbers the operands of the remaining calls in the order of their first use: what a plan calls them.
  void number_operands();
  std::size_t number_of(std::size_t operand) const noexcept { return numbers_[operand]; }  // no_index: unused
  std::size_t numbered_count() const noexcept { return numbered_; }

 private:
  std::vector<RecordedCall> calls_;  // the first call_count_; the rest is spare capacity
  std::size_t call_count_ = 0;
  std::vector<std::size_t> numbers_;
  std::size_t numbered_ = 0;
};

inline RecordedCall& CallBatch::next_call() {
  if (call_count_ == calls_.size()) calls_.emplace_back();
  RecordedCall& call = calls_[call_count_];
  call.uses.clear();
  return call;
}

inline void CallBatch::add_next_call() {
  const RecordedCall& call = calls_[call_count_];
  for (std::size_t i = 1; i < call.uses.size(); ++i) {
    Operand& input = operands[call.uses[i].operand];
    input.is_read = true;
    input.is_read_first = input.is_read_first || input.writer == no_index;
    input.last_use = call_count_;
  }
  // Kernels write all of their output, so an earlier write that nobody has read can be dropped.
  Operand& output = operands[call.uses[0].operand];
  if (output.writer != no_index && !output.is_read) calls_[output.writer].kernel = nullptr;
  output.last_use = call_count_;
  output.writer = call_count_++;
  output.is_read = false;
}

}  // namespace tessera::detail::operation
