#pragma once

#include <tessera/detail/export.hpp>
#include <tessera/device.hpp>
#include <tessera/params.hpp>
#include <tessera/stream.hpp>
#include <tessera/tensor.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

// What operations are made of: for the templates of operation.hpp and task.hpp, not for programs.
namespace tessera {

namespace kernels {
struct Kernel;
}
namespace tile {
class Kernel;
}

namespace detail {

class Evaluation;
class OperationNode;
class RunState;

// Destroys a tree without recursion: it may be a million nodes deep.
struct TESSERA_API Dispose {
  void operator()(OperationNode* node) const noexcept;
};
using NodePtr = std::unique_ptr<OperationNode, Dispose>;

// One step of an operation: what is to be done, and then its value. It owns its children, whose values it takes.
class TESSERA_API OperationNode {
 public:
  OperationNode() = default;
  virtual ~OperationNode();
  OperationNode(const OperationNode&) = delete;
  OperationNode& operator=(const OperationNode&) = delete;

  // Trees are made and dropped by the thousand: nodes keep to memory of their own.
  static void* operator new(std::size_t size);
  static void operator delete(void* memory, std::size_t size) noexcept;

  // Its turn has come: by default its children's first, then step().
  virtual void begin(Evaluation& evaluation);
  // All children have their values: makes its own from them. False if it waits for something, or has a new child:
  // then it is called again. Quick, and never two of an evaluation at once.
  virtual bool step(Evaluation& evaluation) = 0;
  // What after_device() calls: may take its time, on any thread. What it throws is the node's failure.
  virtual void work() {}

  // It will be evaluated several times: leaves must keep their values. Throws if it cannot be.
  virtual void keep() {}
  // Before it is evaluated once more.
  virtual void reset() {}
  // Adds the trees that it runs by itself, if they are here.
  virtual void add_inner_to(std::vector<OperationNode*>&) {}

  void add_child(NodePtr child) noexcept;
  void give_children_to(OperationNode& other) noexcept;
  NodePtr take_child() noexcept;  // the only one
  // The children that step() has added go.
  void drop_children_after(std::size_t count) noexcept;

  // How deep the tree below it is: of several children the deepest is evaluated first, so that as few values as can be
  // are held at a time.
  std::uint32_t depth() const noexcept { return depth_; }
  void set_depth(std::uint32_t depth) noexcept { depth_ = depth; }

  // Whether all nodes of the tree make their values at their first step, and how many calls of kernels they make.
  bool is_direct() const noexcept { return is_direct_; }
  bool is_leaf() const noexcept { return is_direct_ && !first_child_; }
  void set_indirect() noexcept { is_direct_ = false; }
  std::uint32_t calls() const noexcept { return calls_; }

  // Where its tensors are, if that is known.
  engine::DeviceState* device() const noexcept { return device_; }
  void set_device(engine::DeviceState* device) noexcept { device_ = device; }

 protected:
  // By the constructors of such nodes, before they have children.
  void set_direct(std::uint32_t calls) noexcept {
    is_direct_ = true;
    calls_ = calls;
  }

 private:
  friend class DirectEvaluation;
  friend class RunState;
  friend struct Dispose;
  friend TESSERA_API void for_each_in_tree(OperationNode& root, void (*visit)(OperationNode&));

  OperationNode* parent_ = nullptr;
  OperationNode* first_child_ = nullptr;
  OperationNode* last_child_ = nullptr;
  OperationNode* next_ = nullptr;  // the parent's next child; or the next to be disposed of
  engine::DeviceState* device_ = nullptr;
  std::uint32_t pending_ = 0;  // children without a value
  std::uint32_t depth_ = 0;
  std::uint32_t calls_ = 0;
  bool is_direct_ = false;
  bool has_leaves_ = false;  // among its children, without a value
  bool has_value_ = false;   // as a leaf
};

// And in the trees that its nodes run by themselves.
TESSERA_API void for_each_in_tree(OperationNode& root, void (*visit)(OperationNode&));

// What a tile kernel is to the library: there is one for each, for ever.
TESSERA_API const kernels::Kernel& known(const tile::Kernel& kernel);

// A call of a kernel, by its name or as it is.
struct KernelWork {
  const kernels::Kernel* kernel = nullptr;
  std::string_view name = {};
  const TensorHandle* output = nullptr;
  std::span<const TensorHandle* const> inputs = {};
  Params* params = nullptr;            // by their names: moved from; or
  std::span<const Value> values = {};  // of all of the kernel's parameters, in their order
  const Shape* tile = nullptr;         // of the output's tiles; null: the compiler's choice
  const Shape* grid = nullptr;         // instead: how many tiles along each axis
};

struct TaskContext;

struct RunOptions {
  Stream stream = {};                 // empty: the policy's
  bool keeps_to_stream = false;       // the program has chosen it: nothing runs on another device
  std::stop_token stop = {};          // stops it
  const TaskContext* task = nullptr;  // that awaits it
  bool blocks = false;                // its caller waits, and may work for it
};

// A tree of nodes on its way. Shared; any thread.
class TESSERA_API Run {
 public:
  class TESSERA_API Observer {
   public:
    virtual void run_over() noexcept = 0;

   protected:
    Observer() = default;
    ~Observer() = default;
  };

  Run() noexcept = default;
  Run(Run&&) noexcept = default;
  Run& operator=(Run&&) noexcept = default;
  // A copy knows all but the root of a run that was over at its start.
  Run(const Run& other) noexcept : state_(other.state_), is_done_(other.is_done_) {}
  Run& operator=(const Run& other) noexcept { return *this = Run(other); }
  ~Run() = default;
  // One that has not begun, which is empty to all but begin().
  explicit Run(NodePtr root) noexcept : root_(std::move(root)) {}
  void begin(RunOptions&& options);
  static Run start(NodePtr root, RunOptions&& options) {
    Run run(std::move(root));
    run.begin(std::move(options));
    return run;
  }

  Status poll() const;
  bool is_over() const noexcept { return !state_ || is_state_over(); }
  void wait() const;
  bool wait_seconds(std::chrono::duration<double> timeout) const;
  bool cancel(Errc reason = Errc::cancelled, std::string_view why = "the operation was cancelled") const;

  // False if it is over: then the observer will not be told. remove: false if it has been told, or is being told.
  bool add_observer(Observer& observer) const;
  bool remove_observer(Observer& observer) const;
  void before_user_code() const noexcept;  // of an observer's

  // When it is over.
  const std::exception_ptr& failure() const noexcept;
  void throw_if_failed() const {
    if (state_) throw_if_state_failed();
  }
  OperationNode& root() const noexcept { return state_ ? root_of_state() : *root_; }
  NodePtr take_root() const noexcept;

  explicit operator bool() const noexcept { return state_ || is_done_; }
  const std::shared_ptr<RunState>& state() const noexcept { return state_; }

 private:
  bool is_state_over() const noexcept;
  void throw_if_state_failed() const;
  OperationNode& root_of_state() const noexcept;

  std::shared_ptr<RunState> state_;  // null if it was done at once
  mutable NodePtr root_;             // then, and before it begins
  bool is_done_ = false;
};

// As long as a thread of the library's runs code of the program's: nothing depends on this thread meanwhile.
class TESSERA_API UserCode {
 public:
  UserCode() noexcept;
  ~UserCode();
  UserCode(const UserCode&) = delete;
  UserCode& operator=(const UserCode&) = delete;

 private:
  std::size_t nested_;
};

// What nodes can ask for while they are evaluated.
class TESSERA_API Evaluation {
 public:
  virtual ~Evaluation() = default;

  // Whether a node may take so much memory more. If not, because of what is on its way and will give some back, the
  // begin() or step() that asks returns, and is called again when some of that is over.
  virtual bool has_room(std::size_t bytes) = 0;
  static constexpr std::size_t least_room = std::size_t{64} << 10;  // less is not worth a look

  // Device work: recorded, and submitted together when somebody needs it.
  virtual TensorHandle make(const Shape& shape, DType dtype) = 0;
  virtual void run(const KernelWork& work) = 0;
  // A tensor with a copy of these bytes, which `owner` keeps.
  virtual TensorHandle upload(const Shape& shape, DType dtype, std::span<const std::byte> bytes,
                              std::shared_ptr<const void> owner) = 0;
  // Copies a tensor out; the node's step is called again when it is there. False if there is no memory for the tensor
  // now: then it is called again to try once more.
  virtual bool download(const TensorHandle& tensor, std::span<std::byte> to, OperationNode& node) = 0;

  // A child more, evaluated now; then the parent's step is called again.
  virtual void add_child(OperationNode& parent, NodePtr child) = 0;
  // Calls the node's work() when all that was recorded so far is over, then its step again.
  virtual void after_device(OperationNode& node) = 0;
  // The node waits for something outside. wake, from any thread: its step is called again; if there is a failure, that
  // is the node's.
  virtual void hold(OperationNode& node) = 0;
  virtual void wake(OperationNode& node, std::exception_ptr failure = nullptr) = 0;
  // Calls a function of the program's, on a thread of the device's.
  virtual void execute(std::function<void()> function) = 0;
  // Calls it when the evaluation is stopped, or has failed, while this node waits; at once if it has been.
  virtual void on_stop(std::function<void()> function) = 0;

  // Throws why a tensor's memory is not what it should be, if nothing is on its way to it.
  virtual void expect_sound(const TensorHandle& tensor) = 0;

  // For operations inside of this one.
  virtual RunOptions inner_options() = 0;
  virtual engine::DeviceState& device() = 0;
  // Whether a part of the tree that is to run on this device is evaluated here, with all the rest.
  virtual bool runs_on(const engine::DeviceState& device) = 0;
  virtual std::shared_ptr<Evaluation> share() = 0;  // for whoever wakes
  // They are stopped with it.
  virtual void add_inner(const Run& run) = 0;
  // What the task of this node waits for, or nothing: whoever waits for the evaluation works for that. Any thread.
  virtual void task_awaits(const OperationNode& node, const Run& run) = 0;
  virtual void task_awaits(const OperationNode& node, const Ref<engine::Work>& command) = 0;

 protected:
  friend class OperationNode;
  virtual void begin_children(OperationNode& node) = 0;
};

// A value that several operations share the making of: what unzip leaves. Made once, by the first that is evaluated.
// Those in the same evaluation go on at once; those elsewhere wait until what makes it is over. An evaluation that is
// stopped while it makes it stops when it is made, if it is wanted elsewhere.
class TESSERA_API SharedOperation {
 public:
  explicit SharedOperation(NodePtr source);
  ~SharedOperation();
  SharedOperation(const SharedOperation&) = delete;
  SharedOperation& operator=(const SharedOperation&) = delete;

  // Called by a part's step: if the source has its value, a lock under which that can be taken. Else the part waits,
  // and its step is called again. `self` keeps this object.
  [[nodiscard]] std::unique_lock<std::mutex> join(Evaluation& evaluation, OperationNode& part,
                                                  const std::shared_ptr<SharedOperation>& self);
  engine::DeviceState* device() const noexcept;
  std::uint32_t depth() const noexcept;

  // Parts that have not been evaluated yet: somebody may want them.
  void add_unused() noexcept { unused_.fetch_add(1, std::memory_order_relaxed); }
  void remove_unused() noexcept { unused_.fetch_sub(1, std::memory_order_relaxed); }

  // It will be made again if that fails, unless it has begun already: what it is made from must be kept.
  void keep();
  // If it has failed, and can be: the next part that is evaluated makes it again.
  void reset();

 private:
  friend class RunState;
  struct Joint;
  struct Waiting {
    std::shared_ptr<RunState> run;
    OperationNode* part;
  };
  enum class State : std::uint8_t { fresh, claimed, ready, failed };

  bool claim(RunState& run, OperationNode& part, const std::shared_ptr<SharedOperation>& self);
  void prepare(bool is_again);
  // Called by the run that makes it: the source has its value; and it has failed, or the run is over.
  void made(RunState& run);
  void end(const std::exception_ptr& failure, bool is_sound) noexcept;
  // Whether this run makes it, or has made it and is not over, for others than itself. Under the run's lock, after
  // which what it has looked at may go.
  enum class Making : std::uint8_t { no, made, on_its_way };
  Making makes_for_others(const RunState& run, std::vector<std::shared_ptr<const void>>& seen);
  // A run that is stopped waits for it no longer. Gives the one that makes it.
  std::shared_ptr<RunState> leave(const RunState& run);

  NodePtr joint_;                         // stands between the source and the parts
  std::atomic<std::uint32_t> unused_{0};  // parts
  std::mutex mutex_;                      // after that of the run that makes it
  State state_ = State::fresh;
  bool is_kept_ = false;
  bool is_used_ = false;                        // it was made, or tried to be: to be reset before it is again
  std::shared_ptr<RunState> maker_;             // until it is over
  std::vector<std::weak_ptr<RunState>> users_;  // other runs that have waited for it
  std::exception_ptr failure_;
  std::vector<Waiting> waiting_;
};

// Cancels the run after this time, if it is not over, with Errc::deadline_exceeded.
TESSERA_API void cancel_after(const Run& run, std::chrono::nanoseconds time);
// What was thrown, as an Error: Errc::call_failed for what is none.
TESSERA_API Error error_of(const std::exception_ptr& failure);

// Told what a task waits for, so that those who wait for the task can work for that.
class TESSERA_API TaskDriver {
 public:
  virtual void awaits(const Run& run) = 0;
  virtual void awaits(const Ref<engine::Work>& command) = 0;

 protected:
  TaskDriver() = default;
  ~TaskDriver() = default;
};

// What a Task and all that it awaits have in common.
struct TaskContext {
  std::stop_token stop = {};
  std::uint64_t id = 0;  // tells tasks apart
  TaskDriver* driver = nullptr;
};
TESSERA_API std::uint64_t next_task_id() noexcept;

// A thread that waits for a task, and does what the task waits for.
class TESSERA_API SyncDriver final : public TaskDriver {
 public:
  SyncDriver();
  ~SyncDriver();
  void awaits(const Run& run) override;
  void awaits(const Ref<engine::Work>& command) override;
  void finish() noexcept;
  // Blocks until finish().
  void wait();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Run run_;  // or
  Ref<engine::Work> command_;
  std::uint64_t changes_ = 0;
  bool is_over_ = false;
};

// void as a value.
template <class T>
using Stored = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

template <class T>
class TypedNode : public OperationNode {
 public:
  std::optional<Stored<T>> value;

  Stored<T> take() {
    Stored<T> taken = std::move(*value);
    value.reset();
    return taken;
  }
  void reset() override { value.reset(); }
};
template <class T>
using TypedNodePtr = std::unique_ptr<TypedNode<T>, Dispose>;

}  // namespace detail
}  // namespace tessera
