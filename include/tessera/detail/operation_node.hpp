#pragma once

#include <tessera/detail/export.hpp>
#include <tessera/detail/handle.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

// The nodes that an operation is a tree of. Not for user code.
namespace tessera::detail {

class Evaluator;
class OperationNode;
namespace operation {
class EvaluationStack;
class InlineEvaluator;
}  // namespace operation

// Destroys a tree without recursion: it may be a million nodes deep.
struct TESSERA_API DisposeTree {
  void operator()(OperationNode* node) const noexcept;
};
using NodePtr = std::unique_ptr<OperationNode, DisposeTree>;

// One step of an operation, which computes one value. It owns its children and consumes their values.
class TESSERA_API OperationNode {
 public:
  OperationNode() = default;
  virtual ~OperationNode();
  OperationNode(const OperationNode&) = delete;
  OperationNode& operator=(const OperationNode&) = delete;

  // Trees are built and dropped by the thousand: nodes come from a free list of the thread.
  static void* operator new(std::size_t size);
  static void operator delete(void* memory, std::size_t size) noexcept;

  // Starts the evaluation of this node. The default evaluates the children, then calls step().
  virtual void begin(Evaluator& evaluator);
  // All children have their values: computes this node's. False if it has to wait or has added a child; step() is
  // called again then. Must be quick; never runs twice at once within a run.
  virtual bool step(Evaluator& evaluator) = 0;
  // What Evaluator::run_on_host_after_device() calls, on any thread; may take its time. An exception is the node's
  // failure.
  virtual void run_on_host() {}

  // The node will be evaluated several times: leaves must retain their values. Throws if that is impossible.
  virtual void make_repeatable() {}
  // Called before the node is evaluated again.
  virtual void reset() {}
  // Appends the trees that this node evaluates in runs of their own and that have not been handed over to one.
  virtual void append_inner_trees(std::vector<OperationNode*>&) {}

  void add_child(NodePtr child) noexcept;
  void move_children_to(OperationNode& other) noexcept;
  NodePtr take_child() noexcept;  // for a node with one child
  // Drops the children that step() has added.
  void drop_children_after(std::size_t count) noexcept;

  // The height of the tree below. The deepest child is evaluated first, so that as few values as possible are live at a
  // time.
  std::uint32_t depth() const noexcept { return depth_; }
  void set_depth(std::uint32_t depth) noexcept { depth_ = depth; }

  // Whether every node of the tree has its value after its first step, and how many kernels they call in total.
  bool is_inline() const noexcept { return is_inline_; }
  bool is_leaf() const noexcept { return is_inline_ && !first_child_; }
  void forbid_inline() noexcept { is_inline_ = false; }
  std::uint32_t kernel_calls() const noexcept { return kernel_calls_; }

  // The device of its tensors; null if unknown.
  engine::DeviceState* device() const noexcept { return device_; }
  void set_device(engine::DeviceState* device) noexcept { device_ = device; }

 protected:
  // For constructors, before children are added.
  void allow_inline(std::uint32_t kernel_calls) noexcept {
    is_inline_ = true;
    kernel_calls_ = kernel_calls;
  }

 private:
  friend class operation::EvaluationStack;
  friend class operation::InlineEvaluator;
  friend struct DisposeTree;
  friend TESSERA_API void for_each_in_tree(OperationNode& root, void (*visit)(OperationNode&));

  OperationNode* parent_ = nullptr;
  OperationNode* first_child_ = nullptr;
  OperationNode* last_child_ = nullptr;
  OperationNode* next_ = nullptr;  // the next sibling; or the next node to dispose of
  engine::DeviceState* device_ = nullptr;
  std::uint32_t pending_ = 0;  // children without a value
  std::uint32_t depth_ = 0;
  std::uint32_t kernel_calls_ = 0;
  bool is_inline_ = false;
  bool has_pending_leaves_ = false;
  bool has_value_ = false;  // of a leaf
};

// Visits a tree, and the inner trees of its nodes.
TESSERA_API void for_each_in_tree(OperationNode& root, void (*visit)(OperationNode&));

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
using TypedNodePtr = std::unique_ptr<TypedNode<T>, DisposeTree>;

}  // namespace tessera::detail
