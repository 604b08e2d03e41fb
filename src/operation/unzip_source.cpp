#include <tessera/detail/operation_unzip.hpp>

#include "operation/run_state.hpp"

#include <algorithm>
#include <utility>

namespace tessera::detail {

using operation::RunState;

// The parent of the source, which learns when that has its value.
struct UnzipSource::Root final : OperationNode {
  explicit Root(UnzipSource& of) : source(of) {}
  bool step(Evaluator& evaluator) override {
    source.produced(static_cast<RunState&>(evaluator));
    return true;
  }
  UnzipSource& source;
};

UnzipSource::UnzipSource(NodePtr source) : root_(new Root(*this)) { root_->add_child(std::move(source)); }
UnzipSource::~UnzipSource() = default;

engine::DeviceState* UnzipSource::device() const noexcept { return root_->device(); }
std::uint32_t UnzipSource::depth() const noexcept { return root_->depth() + 1; }

std::unique_lock<std::mutex> UnzipSource::join(Evaluator& evaluator, OperationNode& part,
                                               const std::shared_ptr<UnzipSource>& self, bool& is_unused) {
  auto& run = static_cast<RunState&>(evaluator);
  run.make_room_for_event();  // here: below, suspend() must neither throw nor take the run's lock
  std::unique_lock lock(mutex_);
  if (state_ == State::fresh) {
    lock.unlock();
    if (claim(run, part, self, is_unused)) return {};
    lock.lock();
  }
  const bool is_producer = producer_.get() == &run;
  if (producer_ && !is_producer) add_user(std::static_pointer_cast<RunState>(run.share()));
  if (std::exchange(is_unused, false)) remove_unused();
  if (state_ == State::failed) std::rethrow_exception(failure_);
  if (state_ == State::ready) {
    if (is_producer || !producer_) return lock;
    // The commands that write the value may be in flight: this part waits for them, and learns whether they fail.
    const std::shared_ptr<RunState> producer = producer_;
    lock.unlock();
    std::vector<Ref<engine::Work>> commands = producer->submitted();
    std::erase_if(commands, [](const Ref<engine::Work>& command) { return command->is_settled(); });
    if (!commands.empty()) {
      run.step_after(part, commands);
    } else {
      lock.lock();
      if (state_ == State::ready) return lock;
      run.step_again(part);
    }
    return {};
  }
  // The producer is computing the value.
  make_room_for_waiting();
  waiting_.push_back({is_producer ? nullptr : std::static_pointer_cast<RunState>(run.share()), &part});
  if (is_producer) return {};
  run.suspend(part);
  lock.unlock();
  run.waits_for(self);
  return {};
}

// This run becomes the producer, unless another one was faster. A cancelled run leaves that to others.
bool UnzipSource::claim(RunState& run, OperationNode& part, const std::shared_ptr<UnzipSource>& self, bool& is_unused) {
  bool is_prepared = false, is_again = false;
  {
    const std::scoped_lock lock(run.mutex_, mutex_);
    if (state_ != State::fresh) return false;
    run.stop_.throw_if_cancelled();
    make_room_for_waiting();
    run.begin_source(self, *root_);
    is_prepared = !is_repeatable_;
    is_again = std::exchange(has_begun_, true);
    state_ = State::claimed;
    producer_ = std::static_pointer_cast<RunState>(run.share());
    waiting_.push_back({nullptr, &part});
    if (std::exchange(is_unused, false)) remove_unused();
  }
  if (!is_prepared) prepare(is_again);
  return true;
}

// Under the lock. Afterwards one part can begin to wait without an exception.
void UnzipSource::make_room_for_waiting() {
  if (waiting_.size() == waiting_.capacity()) waiting_.reserve(2 * waiting_.size() + 1);
}

// Under the lock. A part may join more than once.
void UnzipSource::add_user(const std::shared_ptr<RunState>& run) {
  const auto is_run = [&](const std::weak_ptr<RunState>& one) {
    return !one.owner_before(run) && !run.owner_before(one);
  };
  if (std::ranges::none_of(users_, is_run)) users_.emplace_back(run);
}

void UnzipSource::prepare(bool is_again) {
  if (is_again) {
    for_each_in_tree(*root_, [](OperationNode& node) { node.reset(); });
  } else {
    for_each_in_tree(*root_, [](OperationNode& node) { node.make_repeatable(); });
  }
}

void UnzipSource::make_repeatable() {
  const std::scoped_lock lock(mutex_);
  if (!has_begun_) is_repeatable_ = true;
}

void UnzipSource::reset() {
  const std::scoped_lock lock(mutex_);
  if (state_ != State::failed || !is_repeatable_) return;
  state_ = State::fresh;
  failure_ = nullptr;
}

std::shared_ptr<RunState> UnzipSource::leave(const RunState& run) noexcept {
  while (true) {
    WaitingPart leaving{};
    {
      const std::scoped_lock lock(mutex_);
      const auto found = std::ranges::find(waiting_, &run, [](const WaitingPart& one) { return one.run.get(); });
      if (found == waiting_.end()) return producer_;
      leaving = std::move(*found);
      waiting_.erase(found);
    }
    leaving.run->resume(*leaving.part, nullptr);
  }
}

UnzipSource::Demand UnzipSource::demand_on(const RunState& run, std::vector<std::shared_ptr<const void>>& seen) {
  const std::scoped_lock lock(mutex_);
  if (producer_.get() != &run) return Demand::none;
  const auto is_wanted_by = [&](const std::weak_ptr<RunState>& user) {
    const std::shared_ptr<RunState> other = user.lock();
    seen.push_back(other);
    return other && !other->is_stopping() && !other->is_finished() && !run.inner_.contains(other);
  };
  if (unused_.load(std::memory_order_relaxed) == 0 && std::ranges::none_of(users_, is_wanted_by)) return Demand::none;
  return state_ == State::claimed ? Demand::producing : Demand::produced;
}

void UnzipSource::produced(RunState& run) {
  std::vector<WaitingPart> waiting;
  {
    const std::scoped_lock lock(mutex_);
    state_ = State::ready;
    waiting.swap(waiting_);
  }
  run.cancel_if_deferred();
  for (const WaitingPart& one : waiting) {
    if (one.run) one.run->resume(*one.part, nullptr);
  }
  // Last: this may throw, and fails this run alone.
  for (const WaitingPart& one : waiting) {
    if (!one.run) run.step_again(*one.part);
  }
}

void UnzipSource::finish(const std::exception_ptr& failure, bool is_usable) noexcept {
  std::vector<WaitingPart> waiting;
  std::shared_ptr<RunState> producer;  // released after the lock
  {
    const std::scoped_lock lock(mutex_);
    producer.swap(producer_);
    users_.clear();
    if (state_ == State::ready && is_repeatable_ && !is_usable) state_ = State::fresh;
    if (state_ != State::claimed) return;
    state_ = State::failed;
    failure_ = failure;
    waiting.swap(waiting_);
  }
  for (const WaitingPart& one : waiting) {
    if (one.run) one.run->resume(*one.part, failure);
  }
}

}  // namespace tessera::detail
