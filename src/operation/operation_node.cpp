#include <tessera/detail/operation_node.hpp>

#include <tessera/detail/operation_evaluator.hpp>

#include "core/per_thread.hpp"
#include "core/pooled.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <utility>
#include <vector>

namespace tessera::detail {

namespace {

// The memory of nodes that this thread has destroyed, by size.
struct FreeNodes {
  static constexpr std::size_t step = 64, sizes = 16;
  static constexpr std::size_t max_bytes = std::size_t{512} << 10;  // of each size: a graph of a thousand kernels
  struct Free {
    Free* next;
  };
  struct List {
    Free* first = nullptr;
    std::size_t count = 0;
  };
  std::array<List, sizes> lists;

  ~FreeNodes() {
    for (List& list : lists) {
      while (list.first) ::operator delete(std::exchange(list.first, list.first->next));
    }
  }
  // The list for nodes of this size; null for large nodes, or if the thread is exiting.
  static List* of(std::size_t size) {
    if (!core::pools_objects || size > step * sizes) return nullptr;
    FreeNodes* mine = core::PerThread<FreeNodes>::here();
    return mine ? &mine->lists[(size - 1) / step] : nullptr;
  }
  static constexpr std::size_t rounded(std::size_t size) { return (size + step - 1) / step * step; }
};

}  // namespace

void* OperationNode::operator new(std::size_t size) {
  FreeNodes::List* list = FreeNodes::of(size);
  if (!list || !list->first) return ::operator new(FreeNodes::rounded(size));
  --list->count;
  return std::exchange(list->first, list->first->next);
}

void OperationNode::operator delete(void* memory, std::size_t size) noexcept {
  FreeNodes::List* list = FreeNodes::of(size);
  if (!list || list->count >= FreeNodes::max_bytes / FreeNodes::rounded(size)) return ::operator delete(memory);
  ++list->count;
  list->first = ::new (memory) FreeNodes::Free{list->first};
}

// A destructor that disposes of further nodes adds them to the thread's list instead of recursing.
void DisposeTree::operator()(OperationNode* node) const noexcept {
  struct Pending {
    OperationNode* first;
    bool is_disposing;
  };
  static thread_local Pending of_thread{nullptr, false};
  Pending& pending = of_thread;
  node->next_ = std::exchange(pending.first, node);
  if (std::exchange(pending.is_disposing, true)) return;
  while (pending.first) {
    OperationNode* next = pending.first;
    pending.first = next->next_;
    delete next;
  }
  pending.is_disposing = false;
}

OperationNode::~OperationNode() {
  if (first_child_) drop_children_after(0);
}

void OperationNode::begin(Evaluator& evaluator) { evaluator.begin_children(*this); }

void OperationNode::add_child(NodePtr child) noexcept {
  OperationNode* added = child.release();
  if (!device_) device_ = added->device_;
  depth_ = std::max(depth_, added->depth_ + 1);
  kernel_calls_ += added->kernel_calls_;
  // A child for another device may need a run of its own there.
  is_inline_ = is_inline_ && added->is_inline_ && (!added->device_ || added->device_ == device_);
  (first_child_ ? last_child_->next_ : first_child_) = added;
  last_child_ = added;
}

void OperationNode::move_children_to(OperationNode& other) noexcept {
  other.first_child_ = std::exchange(first_child_, nullptr);
  other.last_child_ = std::exchange(last_child_, nullptr);
  other.device_ = device_;
  other.depth_ = depth_;
  other.is_inline_ = false;
}

NodePtr OperationNode::take_child() noexcept {
  last_child_ = nullptr;
  return NodePtr(std::exchange(first_child_, nullptr));
}

void OperationNode::drop_children_after(std::size_t count) noexcept {
  OperationNode** link = &first_child_;
  last_child_ = nullptr;
  for (; count > 0 && *link; --count) {
    last_child_ = *link;
    link = &(*link)->next_;
  }
  OperationNode* dropped = std::exchange(*link, nullptr);
  while (dropped) {
    OperationNode* next = std::exchange(dropped->next_, nullptr);
    dropped->first_child_ ? DisposeTree()(dropped) : delete dropped;
    dropped = next;
  }
}

void for_each_in_tree(OperationNode& root, void (*visit)(OperationNode&)) {
  std::vector<OperationNode*> nodes = {&root};
  while (!nodes.empty()) {
    OperationNode* node = nodes.back();
    nodes.pop_back();
    visit(*node);
    for (OperationNode* child = node->first_child_; child; child = child->next_) nodes.push_back(child);
    node->append_inner_trees(nodes);
  }
}

}  // namespace tessera::detail
