#pragma once

#include <tessera/detail/operation_evaluator.hpp>
#include <tessera/stream.hpp>

#include "core/failure.hpp"
#include "engine/submission.hpp"
#include "operation/batch_plan.hpp"
#include "operation/call_batch.hpp"

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace tessera::detail::operation {

// Records kernel calls and submits them together: a single call as a command, several as a plan, which is made once for
// all batches of the same form. Tensors that only the recorder holds at that point are temporaries: if fusion makes
// them unnecessary, they never get memory. Any thread.
class CallRecorder {
 public:
  // open() comes before anything else. close() returns to the initial state but retains capacity.
  void open(engine::DeviceState& device, const Stream& stream, const std::shared_ptr<CallRecorder>& self);
  void close() noexcept;

  TensorHandle make(const Shape& shape, DType dtype);
  void add(const KernelInvocation& invocation);

  // Submits everything if the recorded calls would pin too much memory after allocating this many bytes.
  void reserve(std::size_t bytes);
  // Bytes that held tensors will need, or more.
  std::size_t promised_bytes();

  // Submits everything, whatever the outcome.
  void flush() noexcept;
  // The same, but calls for which there is no memory may stay recorded. With `can_wait` that may be all of them;
  // without, at least one call is submitted or fails.
  struct FlushResult {
    std::size_t commands;  // submitted so far
    core::FailurePtr failure;
    bool is_short_of_memory;  // some calls are still recorded
  };
  FlushResult flush(bool can_wait) noexcept;
  Ref<engine::Work> command(std::size_t index) noexcept;
  // Drops everything, for this reason.
  void drop_all(const core::FailurePtr& why) noexcept;

  // Submits host work on a buffer. It becomes one of the commands, unless it was small and is done.
  void submit_host(engine::HostWork work);

 private:
  // All under the mutex.
  //
  // Recording (call_recorder.cpp).
  bool is_recorded_here(const TensorState& state) const noexcept;
  void flush_others(const KernelInvocation& call, std::unique_lock<std::recursive_mutex>& lock);
  std::size_t operand_of(const TensorHandle& tensor);
  OperandUse use_of(const TensorHandle& tensor);
  void reserve_locked(std::size_t bytes);
  const std::shared_ptr<CallRecorder>& self();
  void settle(const core::FailurePtr& why) noexcept;

  // Submitting (call_submission.cpp).
  bool try_flush(bool can_wait) noexcept;
  void submit_all();
  void submit_one_by_one();
  void submit_one(const RecordedCall& call);
  void submit_plan();
  void allocate_operands(bool is_single_call);
  void allocate(Operand& operand);
  void make_room_for_command();
  void add_command(Ref<engine::Work> command);

  std::recursive_mutex mutex_;  // a kernel's body is user code, and may use tensors
  engine::DeviceState* device_ = nullptr;
  Stream stream_;
  std::weak_ptr<CallRecorder> self_;
  std::shared_ptr<CallRecorder> held_self_;  // while there are operands, which hold it too
  CallBatch batch_;
  BatchPlanner planner_;
  std::size_t promised_bytes_ = 0;  // pinned when last counted, and everything since then
  bool is_one_by_one_ = false;      // there was no memory for all calls at once
  std::vector<Ref<engine::Work>> commands_;
  core::FailurePtr failure_;
};

}  // namespace tessera::detail::operation
