#include <tessera/tensor.hpp>

#include <tessera/error.hpp>

#include "api/buffer_view.hpp"
#include "core/text.hpp"
#include "operation/call_recorder.hpp"
#include "operation/tensor_state.hpp"

#include <span>
#include <utility>
#include <vector>

namespace tessera::detail {

using core::text;
using operation::CallRecorder;

void retain(TensorState* state) noexcept { state->refs.fetch_add(1, std::memory_order_relaxed); }
void release(TensorState* state) noexcept {
  if (state->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) delete state;
}

TensorState::TensorState(Buffer buffer)
    : device(Access::get(buffer)->storage->device.get()),
      shape(buffer.shape()),
      dtype(buffer.dtype()),
      is_plain_(true),
      contents_{std::move(buffer), nullptr} {}

TensorState::TensorState(TensorState& of, const Shape& reshaped)
    : device(of.device), shape(reshaped), dtype(of.dtype), base_(&of) {}

TensorState::Contents TensorState::contents() {
  const std::scoped_lock lock(lock_);
  return contents_;
}

std::shared_ptr<CallRecorder> TensorState::recorder() {
  const std::scoped_lock lock(lock_);
  return recorder_;
}

// Several recorders may read a shared tensor at once. Nobody writes it then, so knowing one of them is enough.
void TensorState::set_recorder(const std::shared_ptr<CallRecorder>& recorder) {
  const std::scoped_lock lock(lock_);
  if (!recorder_) recorder_ = recorder;
  is_plain_.store(false, std::memory_order_relaxed);
}

void TensorState::settle(const CallRecorder& recorder, const Buffer& memory, const core::FailurePtr& why) {
  std::shared_ptr<CallRecorder> dropped;  // released after the lock
  const std::scoped_lock lock(lock_);
  if (memory) contents_.buffer = memory;
  if (why) contents_.failure = why;
  if (recorder_.get() == &recorder) dropped.swap(recorder_);
  if (!contents_.buffer && !kept_device_) kept_device_ = Ref<engine::DeviceState>(device);
  if (!recorder_ && contents_.buffer && !contents_.failure) is_plain_.store(true, std::memory_order_release);
}

namespace {

TensorState& state_of(const Ref<TensorState>& state, std::string_view call) {
  if (!state) throw Error(Errc::invalid_argument, text("[", call, "] called on a moved-from tensor"));
  return *state;
}

}  // namespace

TensorHandle::TensorHandle(const Buffer& buffer, DType dtype) {
  const engine::View& view = view_of(buffer, "Tensor");
  if (!view.storage->placeholder.empty()) throw Error(engine::unusable("[Tensor] the buffer", *view.storage));
  if (view.dtype != dtype) {
    throw Error(Errc::dtype_mismatch, text("[Tensor] the buffer is ", describe(view), ", not ", to_string(dtype)));
  }
  state_ = Ref<TensorState>::adopt(new TensorState(buffer));
}

const Shape& TensorHandle::shape() const { return state_of(state_, "shape").shape; }

TensorHandle TensorHandle::reshape(const Shape& shape) const {
  TensorState& state = state_of(state_, "reshape");
  if (shape.elements() != state.shape.elements()) {
    throw Error(Errc::shape_mismatch, text("[reshape] ", to_string(state.shape), " has ", state.shape.elements(),
                                           " elements, ", to_string(shape), " would have ", shape.elements()));
  }
  return TensorHandle(shape == state.memory().shape ? Ref<TensorState>(&state.memory())
                                                    : Ref<TensorState>::adopt(new TensorState(state.memory(), shape)));
}

Buffer TensorHandle::buffer() const {
  const TensorState& state = state_of(state_, "buffer");
  TensorState& memory = state_->memory();
  if (const Buffer* plain = memory.plain(); plain && &memory == &state) return *plain;
  if (const std::shared_ptr<CallRecorder> recorder = memory.recorder()) recorder->flush();
  const TensorState::Contents contents = memory.contents();
  if (contents.failure) throw Error(contents.failure);
  return &memory == &state ? contents.buffer : contents.buffer.reshape(state.shape);
}

engine::DeviceState* TensorHandle::device_state() const noexcept { return state_ ? state_->device : nullptr; }
Device TensorHandle::device() const {
  return Access::make<Device>(Ref<engine::DeviceState>(state_of(state_, "device").device));
}

void check_partition(const Shape& shape, const Shape& tile) {
  if (tile.rank() != shape.rank()) {
    throw Error(Errc::shape_mismatch, text("[partition] the tile ", to_string(tile), " and the tensor ",
                                           to_string(shape), " have different ranks"));
  }
  if (tile.elements() == 0) {
    throw Error(Errc::invalid_argument, text("[partition] the tile ", to_string(tile), " is empty"));
  }
}

Shape tiles_of(const Shape& shape, const Shape& tile) {
  std::vector<std::int64_t> counts;
  counts.reserve(static_cast<std::size_t>(shape.rank()));
  for (int axis = 0; axis < shape.rank(); ++axis) {
    counts.push_back(shape[axis] == 0 ? 0 : (shape[axis] - 1) / tile[axis] + 1);
  }
  return Shape(std::span<const std::int64_t>(counts));
}

}  // namespace tessera::detail
