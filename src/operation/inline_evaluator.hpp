#pragma once

#include <tessera/detail/operation_evaluator.hpp>
#include <tessera/detail/operation_node.hpp>
#include <tessera/detail/operation_run.hpp>

#include "engine/execution.hpp"
#include "engine/submission.hpp"

#include <exception>

namespace tessera::detail::operation {

// Evaluates a small tree with at most one kernel call, on the caller's stack. There is nothing to plan, and nothing to
// wait for if the call is tiny. A RunState would take twice as long as such a call.
class InlineEvaluator final : public Evaluator {
 public:
  static bool can_evaluate(const OperationNode& root, const RunOptions& options) noexcept {
    constexpr std::uint32_t max_depth = 8;  // visit() is recursive
    return root.is_inline() && root.kernel_calls() <= 1 && root.depth() <= max_depth && !options.stop.stop_possible();
  }

  InlineEvaluator(OperationNode& root, RunOptions& options) : root_(root), options_(options), device_(root.device()) {
    // A single call holds a tensor, which keeps the device alive; in other trees a step may drop the last one.
    if (!device_ || root.kernel_calls() != 1 || root.depth() > 1 || options.stream) keep_device();
  }
  void evaluate() noexcept;

  // Whether the root has its value and the device is done. If not, there is a failure or a command to wait for.
  bool is_done() const noexcept { return !failure_ && !command_; }
  const Ref<engine::Work>& command() const noexcept { return command_; }
  const std::exception_ptr& failure() const noexcept { return failure_; }

  bool has_memory_for(std::size_t) override { return true; }  // nothing is in flight that could release some
  TensorHandle make(const Shape& shape, DType dtype) override;
  void run(const KernelInvocation& call) override;
  engine::DeviceState& device() override { return *device_; }
  void throw_if_poisoned(const TensorHandle&) override {}

 private:
  void keep_device();
  void visit(OperationNode& node);
  [[gnu::noinline]] void run_any(const KernelInvocation& call);
  void start(const KernelInvocation& call, const BufferList& inputs, const Buffer& output,
             std::span<const std::int64_t> tile);

  // Inline nodes use none of these.
  [[noreturn]] static void refuse();
  TensorHandle upload(const Shape&, DType, std::span<const std::byte>, std::shared_ptr<const void>) override {
    refuse();
  }
  bool download(const TensorHandle&, std::function<std::span<std::byte>()>, OperationNode&) override { refuse(); }
  void add_child(OperationNode&, NodePtr) override { refuse(); }
  void run_on_host_after_device(OperationNode&) override { refuse(); }
  void suspend(OperationNode&) override { refuse(); }
  void resume(OperationNode&, std::exception_ptr) noexcept override { refuse(); }
  void execute_user_code(std::function<void()>) override { refuse(); }
  void on_stop(std::function<void()>) override { refuse(); }
  RunOptions inner_options() override { refuse(); }
  bool evaluates_on(const engine::DeviceState&) override { refuse(); }
  std::shared_ptr<Evaluator> share() override { refuse(); }
  void add_inner_run(const OperationRun&) noexcept override { refuse(); }
  void task_awaits(const OperationNode&, const OperationRun&) override { refuse(); }
  void task_awaits(const OperationNode&, const Ref<engine::Work>&) override { refuse(); }
  void begin_children(OperationNode&) override { refuse(); }

  OperationNode& root_;
  RunOptions& options_;
  engine::DeviceState* device_;
  Ref<engine::DeviceState> kept_device_;
  Ref<engine::Work> command_;
  std::exception_ptr failure_;
};

}  // namespace tessera::detail::operation
