#pragma once

#include <tessera/detail/operation_node.hpp>

#include "engine/device_state.hpp"
#include "engine/execution.hpp"
#include "engine/submission.hpp"

#include <exception>

namespace tessera::detail {

// The evaluation of a small tree with one call of a kernel at most, on the caller's stack: there is nothing to plan,
// and if the call is so little that it is done at once, nothing to wait for. What a run needs for that would take twice
// as long as such a call.
class DirectEvaluation final : public Evaluation {
 public:
  static bool is_for(const OperationNode& root, const RunOptions& options) noexcept {
    constexpr std::uint32_t most_depth = 8;  // visit() goes down by recursion
    return root.is_direct() && root.calls() <= 1 && root.depth() <= most_depth && !options.stop.stop_possible();
  }

  DirectEvaluation(OperationNode& root, RunOptions& options) : root_(root), options_(options), device_(root.device()) {
    // A call by itself holds a tensor that keeps the device to its end; in other trees a step may drop the last one.
    if (!device_ || root.calls() != 1 || root.depth() > 1 || options.stream) keep_device();
  }
  void evaluate() noexcept;

  // Whether the root has its value and the device has done all. Else there is a failure, or a command to wait for.
  bool is_done() const noexcept { return !failure_ && !command_; }
  const Ref<engine::Work>& command() const noexcept { return command_; }
  const std::exception_ptr& failure() const noexcept { return failure_; }

  bool has_room(std::size_t) override { return true; }  // it has nothing on its way
  TensorHandle make(const Shape& shape, DType dtype) override;
  void run(const KernelWork& work) override;
  engine::DeviceState& device() override { return *device_; }
  void expect_sound(const TensorHandle&) override {}

 private:
  void keep_device();
  void visit(OperationNode& node);
  [[gnu::noinline]] void run_any(const KernelWork& work);
  void start(const KernelWork& work, const BufferList& inputs, const Buffer& output,
             std::span<const std::int64_t> tile);

  // Direct nodes ask for none of these.
  [[noreturn]] static void refuse();
  TensorHandle upload(const Shape&, DType, std::span<const std::byte>, std::shared_ptr<const void>) override {
    refuse();
  }
  bool download(const TensorHandle&, std::span<std::byte>, OperationNode&) override { refuse(); }
  void add_child(OperationNode&, NodePtr) override { refuse(); }
  void after_device(OperationNode&) override { refuse(); }
  void hold(OperationNode&) override { refuse(); }
  void wake(OperationNode&, std::exception_ptr) override { refuse(); }
  void execute(std::function<void()>) override { refuse(); }
  void on_stop(std::function<void()>) override { refuse(); }
  RunOptions inner_options() override { refuse(); }
  bool runs_on(const engine::DeviceState&) override { refuse(); }
  std::shared_ptr<Evaluation> share() override { refuse(); }
  void add_inner(const Run&) override { refuse(); }
  void task_awaits(const OperationNode&, const Run&) override { refuse(); }
  void task_awaits(const OperationNode&, const Ref<engine::Work>&) override { refuse(); }
  void begin_children(OperationNode&) override { refuse(); }

  OperationNode& root_;
  RunOptions& options_;
  engine::DeviceState* device_;
  Ref<engine::DeviceState> kept_device_;
  Ref<engine::Work> command_;
  std::exception_ptr failure_;
};

}  // namespace tessera::detail
