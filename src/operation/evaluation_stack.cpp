#include "operation/evaluation_stack.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace tessera::detail::operation {

void EvaluationStack::push_children(OperationNode& node) {
  const std::size_t first = entries_.size();
  for (OperationNode* child = node.first_child_; child; child = child->next_) {
    if (child->is_leaf()) {
      node.has_pending_leaves_ = true;
      child->has_value_ = false;
      continue;
    }
    child->parent_ = &node;
    push_begin(*child);
  }
  node.pending_ = static_cast<std::uint32_t>(entries_.size() - first);
  if (node.pending_ == 0) push_step(node);
  if (node.pending_ > 1) move_deepest_to_top(entries_.begin() + static_cast<std::ptrdiff_t>(first));
}

void EvaluationStack::push_new_child(OperationNode& parent, NodePtr child) {
  OperationNode* added = child.get();
  parent.add_child(std::move(child));
  added->parent_ = &parent;
  parent.pending_ = 1;
  push_begin(*added);
}

bool EvaluationStack::step_pending_leaves(OperationNode& node, Evaluator& evaluator) {
  for (OperationNode* child = node.first_child_; child; child = child->next_) {
    if (!child->is_leaf() || child->has_value_) continue;
    if (!child->step(evaluator)) return false;
    child->has_value_ = true;
  }
  node.has_pending_leaves_ = false;
  return true;
}

// The deepest child comes first, then the others in order; the first of several equally deep ones.
void EvaluationStack::move_deepest_to_top(std::vector<Entry>::iterator first) {
  std::reverse(first, entries_.end());
  auto deepest = first;
  for (auto entry = first; entry != entries_.end(); ++entry) {
    if (entry->node->depth() >= deepest->node->depth()) deepest = entry;
  }
  std::rotate(deepest, deepest + 1, entries_.end());
}

}  // namespace tessera::detail::operation
