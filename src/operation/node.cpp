#include <tessera/error.hpp>
#include <tessera/operation_node.hpp>

#include "operation/run.hpp"

#include <algorithm>
#include <utility>

namespace tessera::detail {

// A destructor that comes to another node puts it on the thread's list instead of going into it.
void Dispose::operator()(OperationNode* node) const noexcept {
  thread_local OperationNode* waiting = nullptr;
  thread_local bool is_disposing = false;
  node->next_ = std::exchange(waiting, node);
  if (std::exchange(is_disposing, true)) return;
  while (waiting) {
    OperationNode* next = waiting;
    waiting = next->next_;
    delete next;
  }
  is_disposing = false;
}

OperationNode::~OperationNode() { drop_children_after(0); }

void OperationNode::begin(Evaluation& evaluation) { evaluation.begin_children(*this); }

void OperationNode::add_child(NodePtr child) noexcept {
  OperationNode* added = child.release();
  if (!device_) device_ = added->device_;
  depth_ = std::max(depth_, added->depth_ + 1);
  calls_ += added->calls_;
  is_direct_ = is_direct_ && added->is_direct_;
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
    Dispose()(dropped);
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
  }
}

// Between the source of a shared value and those that use it.
struct SharedOperation::Joint final : OperationNode {
  explicit Joint(SharedOperation& of) : shared(of) {}
  bool step(Evaluation& evaluation) override {
    shared.made(static_cast<RunState&>(evaluation));
    return true;
  }
  SharedOperation& shared;
};

SharedOperation::SharedOperation(NodePtr source) : joint_(new Joint(*this)) { joint_->add_child(std::move(source)); }
SharedOperation::~SharedOperation() = default;

DeviceState* SharedOperation::device() const noexcept { return joint_->device(); }
std::uint32_t SharedOperation::depth() const noexcept { return joint_->depth() + 1; }

bool SharedOperation::join(Evaluation& evaluation, OperationNode& part, const std::shared_ptr<SharedOperation>& self) {
  auto& run = static_cast<RunState&>(evaluation);
  std::unique_lock lock(mutex_);
  const bool is_mine = maker_.get() == &run;
  switch (state_) {
    case State::failed:
      std::rethrow_exception(failure_);
    case State::ready: {
      if (is_mine || !maker_) return true;
      const std::shared_ptr<RunState> maker = maker_;
      lock.unlock();
      std::vector<Ref<Node>> commands = maker->submitted();
      std::erase_if(commands, [](const Ref<Node>& command) { return command->is_settled(); });
      if (commands.empty()) return true;
      run.after_commands(part, commands);
      return false;
    }
    case State::fresh:
      state_ = State::claimed;
      maker_ = std::static_pointer_cast<RunState>(run.share());
      run.make_shared_value(self, *joint_);
      waiting_.push_back({nullptr, &part});
      return false;
    case State::claimed:
      if (!is_mine) run.hold(part);
      waiting_.push_back({is_mine ? nullptr : std::static_pointer_cast<RunState>(run.share()), &part});
      return false;
  }
  return false;
}

void SharedOperation::made(RunState& run) {
  std::vector<Waiting> waiting;
  {
    const std::scoped_lock lock(mutex_);
    state_ = State::ready;
    waiting.swap(waiting_);
  }
  for (const Waiting& one : waiting) {
    if (one.run) {
      one.run->wake(*one.part, nullptr);
    } else {
      run.step_again(*one.part);
    }
  }
}

void SharedOperation::end(const std::exception_ptr& failure) noexcept {
  std::vector<Waiting> waiting;
  std::shared_ptr<RunState> maker;  // goes after the lock
  {
    const std::scoped_lock lock(mutex_);
    maker.swap(maker_);
    if (state_ != State::claimed) return;
    state_ = State::failed;
    failure_ = failure;
    waiting.swap(waiting_);
  }
  for (const Waiting& one : waiting) {
    if (one.run) one.run->wake(*one.part, failure);
  }
}

}  // namespace tessera::detail
