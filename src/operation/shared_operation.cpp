#include <tessera/detail/operation_node.hpp>

#include "operation/run.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tessera::detail {

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

engine::DeviceState* SharedOperation::device() const noexcept { return joint_->device(); }
std::uint32_t SharedOperation::depth() const noexcept { return joint_->depth() + 1; }

std::unique_lock<std::mutex> SharedOperation::join(Evaluation& evaluation, OperationNode& part,
                                                   const std::shared_ptr<SharedOperation>& self) {
  auto& run = static_cast<RunState&>(evaluation);
  std::unique_lock lock(mutex_);
  if (state_ == State::fresh) {
    lock.unlock();
    if (claim(run, part, self)) return {};
    lock.lock();
  }
  const bool is_mine = maker_.get() == &run;
  if (state_ == State::failed) std::rethrow_exception(failure_);
  if (state_ == State::ready) {
    if (is_mine || !maker_) return lock;
    const std::shared_ptr<RunState> maker = maker_;
    lock.unlock();
    std::vector<Ref<engine::Work>> commands = maker->submitted();
    std::erase_if(commands, [](const Ref<engine::Work>& command) { return command->is_settled(); });
    if (!commands.empty()) {
      run.after_commands(part, commands);
    } else {
      lock.lock();
      if (state_ == State::ready) return lock;
      run.step_again(part);
    }
    return {};
  }
  waiting_.push_back({nullptr, &part});
  if (is_mine) return {};
  const auto user = std::static_pointer_cast<RunState>(run.share());
  waiting_.back().run = user;
  users_.emplace_back(user);
  run.hold(part);
  lock.unlock();
  run.waits_for(self);
  return {};
}

// This run makes it from now on, unless another one has been faster. A run that is stopped leaves it to others.
bool SharedOperation::claim(RunState& run, OperationNode& part, const std::shared_ptr<SharedOperation>& self) {
  bool is_prepared = false, is_again = false;
  {
    const std::scoped_lock lock(run.mutex_, mutex_);
    if (state_ != State::fresh) return false;
    run.throw_if_stopped();
    is_prepared = !is_kept_;
    is_again = std::exchange(is_used_, true);
    state_ = State::claimed;
    maker_ = std::static_pointer_cast<RunState>(run.share());
    waiting_.push_back({nullptr, &part});
    run.make_shared_value(self, *joint_);
  }
  if (!is_prepared) prepare(is_again);
  return true;
}

void SharedOperation::prepare(bool is_again) {
  if (is_again) {
    for_each_in_tree(*joint_, [](OperationNode& node) { node.reset(); });
  } else {
    for_each_in_tree(*joint_, [](OperationNode& node) { node.keep(); });
  }
}

void SharedOperation::keep() {
  const std::scoped_lock lock(mutex_);
  if (!is_used_) is_kept_ = true;
}

void SharedOperation::reset() {
  const std::scoped_lock lock(mutex_);
  if (state_ != State::failed || !is_kept_) return;
  state_ = State::fresh;
  failure_ = nullptr;
}

std::shared_ptr<RunState> SharedOperation::leave(const RunState& run) {
  std::vector<Waiting> leaving;
  std::shared_ptr<RunState> maker;
  {
    const std::scoped_lock lock(mutex_);
    const auto is_of_run = [&](const Waiting& one) { return one.run.get() == &run; };
    std::ranges::copy_if(waiting_, std::back_inserter(leaving), is_of_run);
    std::erase_if(waiting_, is_of_run);
    maker = maker_;
  }
  for (const Waiting& one : leaving) one.run->wake(*one.part, nullptr);
  return maker;
}

SharedOperation::Making SharedOperation::makes_for_others(const RunState& run,
                                                          std::vector<std::shared_ptr<const void>>& seen) {
  const std::scoped_lock lock(mutex_);
  if (maker_.get() != &run) return Making::no;
  const auto is_wanted_by = [&](const std::weak_ptr<RunState>& user) {
    const std::shared_ptr<RunState> other = user.lock();
    seen.push_back(other);
    return other && !other->is_stopping() && !other->is_over() && !run.has_inside(other);
  };
  if (unused_.load(std::memory_order_relaxed) == 0 && std::ranges::none_of(users_, is_wanted_by)) return Making::no;
  return state_ == State::claimed ? Making::on_its_way : Making::made;
}

void SharedOperation::made(RunState& run) {
  std::vector<Waiting> waiting;
  {
    const std::scoped_lock lock(mutex_);
    state_ = State::ready;
    waiting.swap(waiting_);
  }
  run.stop_if_asked();
  for (const Waiting& one : waiting) {
    if (one.run) {
      one.run->wake(*one.part, nullptr);
    } else {
      run.step_again(*one.part);
    }
  }
}

void SharedOperation::end(const std::exception_ptr& failure, bool is_sound) noexcept {
  std::vector<Waiting> waiting;
  std::shared_ptr<RunState> maker;  // goes after the lock
  {
    const std::scoped_lock lock(mutex_);
    maker.swap(maker_);
    users_.clear();
    if (state_ == State::ready && is_kept_ && !is_sound) state_ = State::fresh;
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
