#include <tessera/detail/operation_node.hpp>
#include <tessera/error.hpp>

#include "core/pooled.hpp"
#include "kernels/kernel.hpp"
#include "operation/run.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <utility>

namespace tessera::detail {

const kernels::Kernel& known(const tile::Kernel& kernel) { return kernels::of(kernel); }

namespace {

// Memory of nodes that this thread has dropped, by size.
struct FreeNodes {
  static constexpr std::size_t step = 64, sizes = 16;
  static constexpr std::size_t most_bytes = std::size_t{512} << 10;  // of each size: a graph of a thousand kernels
  struct Free {
    Free* next;
  };
  struct List {
    Free* first = nullptr;
    std::size_t count = 0;
  };
  std::array<List, sizes> lists;

  FreeNodes() { here = this; }
  ~FreeNodes() {
    here = nullptr;
    is_over = true;
    for (List& list : lists) {
      while (list.first) ::operator delete(std::exchange(list.first, list.first->next));
    }
  }
  // The list for nodes of this size; null if there is none, or the thread is at its end.
  static List* of(std::size_t size) {
    if (!core::pools_objects || size > step * sizes) return nullptr;
    FreeNodes* mine = here ? here : made_here();
    return mine ? &mine->lists[(size - 1) / step] : nullptr;
  }
  [[gnu::noinline]] static FreeNodes* made_here() {
    if (is_over) return nullptr;
    thread_local FreeNodes made;
    return &made;
  }
  static constexpr std::size_t room(std::size_t size) { return (size + step - 1) / step * step; }

  static inline thread_local FreeNodes* here = nullptr;
  static inline thread_local bool is_over = false;
};

}  // namespace

void* OperationNode::operator new(std::size_t size) {
  FreeNodes::List* list = FreeNodes::of(size);
  if (!list || !list->first) return ::operator new(FreeNodes::room(size));
  --list->count;
  return std::exchange(list->first, list->first->next);
}

void OperationNode::operator delete(void* memory, std::size_t size) noexcept {
  FreeNodes::List* list = FreeNodes::of(size);
  if (!list || list->count >= FreeNodes::most_bytes / FreeNodes::room(size)) return ::operator delete(memory);
  ++list->count;
  list->first = ::new (memory) FreeNodes::Free{list->first};
}

// A destructor that comes to another node puts it on the thread's list instead of going into it.
void Dispose::operator()(OperationNode* node) const noexcept {
  struct Waiting {
    OperationNode* first;
    bool is_disposing;
  };
  static thread_local Waiting of_thread{nullptr, false};
  Waiting& waiting = of_thread;
  node->next_ = std::exchange(waiting.first, node);
  if (std::exchange(waiting.is_disposing, true)) return;
  while (waiting.first) {
    OperationNode* next = waiting.first;
    waiting.first = next->next_;
    delete next;
  }
  waiting.is_disposing = false;
}

OperationNode::~OperationNode() {
  if (first_child_) drop_children_after(0);
}

void OperationNode::begin(Evaluation& evaluation) { evaluation.begin_children(*this); }

void OperationNode::add_child(NodePtr child) noexcept {
  OperationNode* added = child.release();
  if (!device_) device_ = added->device_;
  depth_ = std::max(depth_, added->depth_ + 1);
  calls_ += added->calls_;
  // What is on another device may have to be run there by itself.
  is_direct_ = is_direct_ && added->is_direct_ && (!added->device_ || added->device_ == device_);
  (first_child_ ? last_child_->next_ : first_child_) = added;
  last_child_ = added;
}

void OperationNode::give_children_to(OperationNode& other) noexcept {
  other.first_child_ = std::exchange(first_child_, nullptr);
  other.last_child_ = std::exchange(last_child_, nullptr);
  other.device_ = device_;
  other.depth_ = depth_;
  other.is_direct_ = false;
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
    dropped->first_child_ ? Dispose()(dropped) : delete dropped;
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
    node->add_inner_to(nodes);
  }
}

}  // namespace tessera::detail
