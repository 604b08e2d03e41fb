#include "operation/call_recorder.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"
#include "operation/known_kernel.hpp"

#include <algorithm>
#include <utility>

namespace tessera::detail::operation {

namespace {

// Calls planned together: planning takes more than linear time, and code should fit the caches.
constexpr std::size_t max_calls = 128;
// A batch may pin this fraction of the device's memory limit before it is submitted.
constexpr std::size_t pinned_fraction = 8;

}  // namespace

void CallRecorder::open(engine::DeviceState& device, const Stream& stream, const std::shared_ptr<CallRecorder>& self) {
  device_ = &device;
  stream_ = stream;
  self_ = self;
}

void CallRecorder::close() noexcept {
  settle(nullptr);
  stream_ = {};
  commands_.clear();
  failure_ = nullptr;
}

const std::shared_ptr<CallRecorder>& CallRecorder::self() {
  if (!held_self_) held_self_ = self_.lock();
  return held_self_;
}

TensorHandle CallRecorder::make(const Shape& shape, DType dtype) {
  const std::size_t bytes = shape.size_bytes(dtype);
  const std::scoped_lock lock(mutex_);
  reserve_locked(bytes);
  auto state = Ref<TensorState>::adopt(new TensorState(*device_, shape, dtype, self()));
  state->operand = batch_.operands.size();
  batch_.operands.push_back({.tensor = state, .buffer = {}, .is_promised = true});
  return TensorHandle(std::move(state));
}

void CallRecorder::reserve(std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  reserve_locked(bytes);
}

void CallRecorder::reserve_locked(std::size_t bytes) {
  promised_bytes_ += bytes;
  if (promised_bytes_ < Evaluator::min_memory_check) return;
  const std::size_t limit = device_->memory.info().limit / pinned_fraction;
  if (promised_bytes_ <= limit) return;
  promised_bytes_ = batch_.pinned_bytes() + bytes;
  if (promised_bytes_ <= limit) return;
  try_flush(true);
  promised_bytes_ = batch_.pinned_bytes() + bytes;
}

std::size_t CallRecorder::promised_bytes() {
  const std::scoped_lock lock(mutex_);
  return promised_bytes_;
}

bool CallRecorder::is_recorded_here(const TensorState& state) const noexcept {
  const std::vector<Operand>& operands = batch_.operands;
  return state.operand < operands.size() && operands[state.operand].tensor.get() == &state;
}

// Submits what other runs have recorded about a call's tensors. Without this recorder's mutex: two runs that read the
// same two shared tensors in opposite order would wait for each other.
void CallRecorder::flush_others(const KernelInvocation& call, std::unique_lock<std::recursive_mutex>& lock) {
  const auto flush_other = [&](const TensorHandle& tensor) {
    if (!tensor.state() || is_recorded_here(tensor.state()->memory())) return;
    const std::shared_ptr<CallRecorder> other = tensor.state()->memory().recorder();
    if (!other || other.get() == this) return;
    lock.unlock();
    other->flush();
    lock.lock();
  };
  flush_other(*call.output);
  for (const TensorHandle* input : call.inputs) flush_other(*input);
}

std::size_t CallRecorder::operand_of(const TensorHandle& tensor) {
  if (!tensor.state()) throw Error(Errc::invalid_argument, "a kernel was called with a moved-from tensor");
  std::vector<Operand>& operands = batch_.operands;
  TensorState* state = &tensor.state()->memory();
  if (is_recorded_here(*state)) return state->operand;
  TensorState::Contents contents = state->contents();
  if (contents.failure) throw Error(contents.failure);
  const engine::Storage* storage = Access::get(contents.buffer)->storage;
  const auto found = std::ranges::find_if(operands, [&](const Operand& operand) {
    return operand.buffer && Access::get(operand.buffer)->storage == storage;
  });
  if (found != operands.end()) return static_cast<std::size_t>(found - operands.begin());
  if (storage->device.get() != device_) {
    throw Error(Errc::wrong_device,
                core::text("a tensor ", to_string(state->dtype, state->shape), " is on ", storage->device->name(),
                           ", but the operation runs on ", device_->name(), ": use copy_to()"));
  }
  operands.push_back({.tensor = Ref<TensorState>(state), .buffer = std::move(contents.buffer)});
  state->set_recorder(self());  // last: it is unset for operands only
  return operands.size() - 1;
}

OperandUse CallRecorder::use_of(const TensorHandle& tensor) {
  const std::size_t index = operand_of(tensor);
  const Operand& operand = batch_.operands[index];
  const bool is_same = tensor.state() == operand.tensor.get() || tensor.shape() == operand.shape();
  return {index, is_same ? nullptr : std::make_unique<const Shape>(tensor.shape())};
}

void CallRecorder::add(const KernelInvocation& invocation) {
  std::unique_lock lock(mutex_);
  flush_others(invocation, lock);
  if (batch_.calls().size() >= max_calls) try_flush(true);
  RecordedCall& call = batch_.next_call();
  call.kernel = invocation.kernel ? from_known(invocation.kernel) : &kernels::find(invocation.name);
  if (invocation.params || !call.params.empty()) {
    call.params = invocation.params ? std::move(*invocation.params) : Params();
  }
  call.values.assign(invocation.values.begin(), invocation.values.end());
  set_tile(invocation, call.tile);
  call.uses.push_back(use_of(*invocation.output));
  for (const TensorHandle* input : invocation.inputs) call.uses.push_back(use_of(*input));
  batch_.add_next_call();
}

void CallRecorder::drop_all(const core::FailurePtr& why) noexcept {
  const std::scoped_lock lock(mutex_);
  settle(why);
}

// Gives held tensors their memory, or the reason why they have none, and clears the batch.
void CallRecorder::settle(const core::FailurePtr& why) noexcept {
  for (const Operand& operand : batch_.operands) {
    if (!operand.is_held()) continue;  // destroyed below
    const bool was_to_be_written = operand.is_promised || operand.writer != no_index;
    operand.tensor->settle(*this, operand.buffer, was_to_be_written ? why : nullptr);
  }
  batch_.clear();
  promised_bytes_ = 0;
  is_one_by_one_ = false;
  held_self_ = nullptr;  // the caller holds it
}

}  // namespace tessera::detail::operation
