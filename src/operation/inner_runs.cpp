#include "operation/inner_runs.hpp"

#include "operation/run_state.hpp"

#include <algorithm>
#include <utility>

namespace tessera::detail::operation {

void InnerRuns::make_room_for_one() {
  std::erase_if(runs_, [](const std::weak_ptr<RunState>& one) { return one.expired(); });
  if (runs_.size() == runs_.capacity()) runs_.reserve(2 * runs_.size() + 1);
}

void InnerRuns::add(const std::shared_ptr<RunState>& run) noexcept {
  runs_.push_back(run);
  ++version_;
}

bool InnerRuns::contains(const std::shared_ptr<RunState>& run) const {
  return std::ranges::any_of(
      runs_, [&](const std::weak_ptr<RunState>& one) { return !one.owner_before(run) && !run.owner_before(one); });
}

std::vector<std::shared_ptr<RunState>> InnerRuns::all() const {
  std::vector<std::shared_ptr<RunState>> runs;
  for (const std::weak_ptr<RunState>& one : runs_) {
    if (std::shared_ptr<RunState> run = one.lock()) runs.push_back(std::move(run));
  }
  return runs;
}

std::vector<std::shared_ptr<RunState>> InnerRuns::unfinished() const {
  std::vector<std::shared_ptr<RunState>> runs = all();
  std::erase_if(runs, [](const std::shared_ptr<RunState>& run) { return run->is_finished(); });
  return runs;
}

void InnerRuns::reset() noexcept {
  runs_.clear();
  version_ = 0;
}

void TaskAwaits::set(const OperationNode& node, Awaited& awaited) {
  if (awaited.run.expired() && !awaited.command) {
    awaited_.erase(&node);
  } else {
    std::swap(awaited_[&node], awaited);
  }
  ++version_;
}

bool TaskAwaits::find_unfinished(std::shared_ptr<RunState>& run, Ref<engine::Work>& command,
                                 std::vector<std::shared_ptr<RunState>>& dropped) const {
  for (const auto& [node, awaited] : awaited_) {
    if (run) dropped.push_back(std::move(run));
    run = awaited.run.lock();
    command = awaited.command;
    if (run ? !run->is_finished() : command && !command->is_settled()) return true;
  }
  return false;
}

void TaskAwaits::reset() noexcept {
  awaited_.clear();
  version_ = 0;
}

}  // namespace tessera::detail::operation
