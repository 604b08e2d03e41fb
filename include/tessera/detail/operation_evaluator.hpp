#pragma once

#include <tessera/detail/export.hpp>
#include <tessera/detail/operation_node.hpp>
#include <tessera/detail/operation_run.hpp>
#include <tessera/dtype.hpp>
#include <tessera/params.hpp>
#include <tessera/shape.hpp>
#include <tessera/tensor.hpp>

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

// What nodes use while they are evaluated. Not for user code.
namespace tessera {

namespace tile {
class Kernel;
}

namespace detail {

// A registered kernel. Opaque here; never destroyed.
struct KnownKernel;
TESSERA_API const KnownKernel& known_kernel(const tile::Kernel& kernel);

// The arguments of a kernel call.
struct KernelInvocation {
  const KnownKernel* kernel = nullptr;  // or
  std::string_view name = {};
  const TensorHandle* output = nullptr;
  std::span<const TensorHandle* const> inputs = {};
  Params* params = nullptr;            // by name, moved from; or
  std::span<const Value> values = {};  // one for each parameter, in order
  const Shape* tile = nullptr;         // of the output; null: the compiler chooses
  const Shape* grid = nullptr;         // instead: the number of tiles along each axis
};

class TESSERA_API Evaluator {
 public:
  virtual ~Evaluator() = default;

  // Whether a node may allocate this many bytes now. If not, memory will be released by work in flight: begin() or
  // step() returns at once, and is called again later.
  virtual bool has_memory_for(std::size_t bytes) = 0;
  static constexpr std::size_t min_memory_check = std::size_t{64} << 10;  // less is not worth a look

  // Device work. It is recorded, and submitted together when something needs the results.
  virtual TensorHandle make(const Shape& shape, DType dtype) = 0;
  virtual void run(const KernelInvocation& call) = 0;
  // A tensor with a copy of these bytes, which `owner` keeps alive.
  virtual TensorHandle upload(const Shape& shape, DType dtype, std::span<const std::byte> bytes,
                              std::shared_ptr<const void> owner) = 0;
  // Copies a tensor to the host, then calls the node's step(). `allocate` returns memory for the copy, and is called by
  // the thread that copies: clearing a large vector takes milliseconds. False if there is no memory for the tensor now:
  // step() is called later to try again.
  virtual bool download(const TensorHandle& tensor, std::function<std::span<std::byte>()> allocate,
                        OperationNode& node) = 0;

  // Adds a child and evaluates it, then calls the parent's step() again.
  virtual void add_child(OperationNode& parent, NodePtr child) = 0;
  // Calls the node's run_on_host() once everything recorded so far has finished, then its step().
  virtual void run_on_host_after_device(OperationNode& node) = 0;
  // The node waits for an external event. resume(), from any thread, makes its step() run again, or fails the node.
  virtual void suspend(OperationNode& node) = 0;
  virtual void resume(OperationNode& node, std::exception_ptr failure = nullptr) noexcept = 0;
  // Calls a user function on a device thread.
  virtual void execute_user_code(std::function<void()> function) = 0;
  // Calls a function if the run is cancelled or fails while this node waits; at once if that has happened.
  virtual void on_stop(std::function<void()> function) = 0;

  // Throws if the tensor is poisoned, unless work in flight may still heal it.
  virtual void throw_if_poisoned(const TensorHandle& tensor) = 0;

  // For nodes that start runs of their own. Inner runs are cancelled together with this one. After inner_options() one
  // run can be added, and its node suspended, without an exception: a run that has begun must not get lost.
  virtual RunOptions inner_options() = 0;
  virtual engine::DeviceState& device() = 0;
  virtual void add_inner_run(const OperationRun& run) noexcept = 0;
  // Whether a subtree for this device is evaluated in this run.
  virtual bool evaluates_on(const engine::DeviceState& device) = 0;
  virtual std::shared_ptr<Evaluator> share() = 0;
  // What the task of this node awaits now, or nothing: threads that wait for this run help with it. Any thread.
  virtual void task_awaits(const OperationNode& node, const OperationRun& run) = 0;
  virtual void task_awaits(const OperationNode& node, const Ref<engine::Work>& command) = 0;

 protected:
  friend class OperationNode;
  virtual void begin_children(OperationNode& node) = 0;
};

}  // namespace detail
}  // namespace tessera
