#pragma once

#include <tessera/detail/operation_evaluator.hpp>
#include <tessera/detail/operation_node.hpp>

#include <cstddef>
#include <vector>

namespace tessera::detail::operation {

// The nodes to begin or step next, depth first. A stack of its own, because trees may be a million nodes deep.
class EvaluationStack {
 public:
  struct Entry {
    OperationNode* node;
    bool is_begin;  // else it is stepped
  };

  bool empty() const noexcept { return entries_.empty(); }
  void clear() noexcept { entries_.clear(); }
  void push_begin(OperationNode& node) { entries_.emplace_back(&node, true); }
  void push_step(OperationNode& node) { entries_.emplace_back(&node, false); }
  Entry pop() {
    // Reads the members one by one, as they were written: one wide load would have to wait for both stores.
    const Entry next{entries_.back().node, entries_.back().is_begin};
    entries_.pop_back();
    return next;
  }

  // The children are evaluated, then the node is stepped. Leaves have no entry: step_leaves() evaluates them.
  void push_children(OperationNode& node);
  void push_new_child(OperationNode& parent, NodePtr child);
  // Evaluates the leaves below a node just before its step, so that their values are not held longer than necessary.
  // False if there is no memory for one of them now: called again then.
  static bool step_leaves(OperationNode& node, Evaluator& evaluator) {
    return !node.has_pending_leaves_ || step_pending_leaves(node, evaluator);
  }
  // A node other than the root has its value: its parent is stepped if that was the last child.
  void child_done(OperationNode& node) {
    if (node.parent_ && --node.parent_->pending_ == 0) push_step(*node.parent_);
  }

 private:
  static bool step_pending_leaves(OperationNode& node, Evaluator& evaluator);
  void move_deepest_to_top(std::vector<Entry>::iterator first);

  std::vector<Entry> entries_;
};

}  // namespace tessera::detail::operation
