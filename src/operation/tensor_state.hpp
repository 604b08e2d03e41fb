#pragma once

#include <tessera/buffer.hpp>
#include <tessera/detail/handle.hpp>
#include <tessera/dtype.hpp>
#include <tessera/shape.hpp>

#include "core/failure.hpp"
#include "core/pooled.hpp"
#include "engine/device_state.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace tessera::detail {

namespace operation {
class CallRecorder;
}

// What tensors point at: memory, or a promise of memory while the work that writes it is recorded but not submitted.
// Any thread.
struct TensorState : core::Pooled<TensorState> {
  // A promise.
  TensorState(engine::DeviceState& on, const Shape& with_shape, DType with_dtype,
              const std::shared_ptr<operation::CallRecorder>& recorder)
      : device(&on), shape(with_shape), dtype(with_dtype), recorder_(recorder) {}
  explicit TensorState(Buffer buffer);
  // Another shape for the same memory.
  TensorState(TensorState& of, const Shape& reshaped);

  std::atomic<std::uint32_t> refs{1};
  engine::DeviceState* const device;  // kept alive by the recorder or the memory, else by kept_device_
  const Shape shape;
  const DType dtype;

  // The state that owns the memory: this one, unless it is a reshaped view. Everything below is about the owner.
  TensorState& memory() noexcept { return base_ ? *base_ : *this; }

  // The memory, if there is any, and the reason if it does not hold what it should.
  struct Contents {
    Buffer buffer;
    core::FailurePtr failure;
  };
  Contents contents();
  // The buffer, without locking or counting, if nothing is recorded and nothing has failed; else null. Valid while the
  // caller holds this state.
  const Buffer* plain() const noexcept {
    return is_plain_.load(std::memory_order_acquire) ? &contents_.buffer : nullptr;
  }
  // The recorder whose calls use this tensor, or null. It must submit them before anybody else uses the memory.
  std::shared_ptr<operation::CallRecorder> recorder();
  void set_recorder(const std::shared_ptr<operation::CallRecorder>& recorder);
  // The recorder has submitted its calls, or dropped them for a reason. An empty buffer leaves the memory unchanged.
  void settle(const operation::CallRecorder& recorder, const Buffer& memory, const core::FailurePtr& why);

  std::size_t operand = 0;  // its index in the recorder that created it

 private:
  const Ref<TensorState> base_;
  Ref<engine::DeviceState> kept_device_;
  core::SpinLock lock_;
  std::atomic<bool> is_plain_{false};
  Contents contents_;
  std::shared_ptr<operation::CallRecorder> recorder_;
};

}  // namespace tessera::detail
