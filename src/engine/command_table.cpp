// Commands by number, and all of a device's commands at once.
#include <tessera/error.hpp>

#include "core/text.hpp"
#include "engine/device_state.hpp"
#include "pipeline/pipeline_state.hpp"

#include <algorithm>
#include <thread>
#include <utility>

namespace tessera::detail::engine {

Ref<Work> DeviceState::find(CommandId id, Ended* ended) {
  const std::scoped_lock lock(order);
  if (id == 0 || id > last_id) {
    throw Error(Errc::unknown_command, core::text("there is no command ", id, " on ", name()));
  }
  // A node cannot be given a new life while the lock is held, so an id that matches is the command's.
  Work* node = nullptr;
  if (const std::size_t index = id % slots; index < recent.size() && recent[index] && recent[index]->id == id) {
    node = recent[index];
  } else if (const auto old = outdated.find(id); old != outdated.end()) {
    node = old->second;
  }
  if (node && node->id == id) {
    if (Ref<Work> shared = WorkPool::try_share(*node)) return shared;
  }
  if (const auto found = outcomes.find(id); found != outcomes.end() && is_known(id, found->second)) {
    *ended = found->second.ended;
  } else if (last_id - id < slots) {
    *ended = {Status::completed, nullptr};
  } else {
    throw Error(Errc::unknown_command,
                core::text("command ", id, " ended more than ", command_window, " commands ago"));
  }
  return {};
}

// As long as a command that is not remembered would count as completed, and for a window after the end.
bool DeviceState::is_known(CommandId id, const Outcome& outcome) const noexcept {
  return last_id - outcome.at <= command_window || last_id - id < slots;
}

void DeviceState::remember(CommandId id, Status status, const core::FailurePtr& failure) {
  const std::scoped_lock lock(order);
  remember_locked(id, status, failure);
}

void DeviceState::remember_locked(CommandId id, Status status, const core::FailurePtr& failure) {
  // Forgets what is out of the window when the map has doubled: constant work an outcome.
  if (outcomes.size() >= forget_at) {
    std::erase_if(outcomes, [this](const auto& entry) { return !is_known(entry.first, entry.second); });
    forget_at = std::max<std::size_t>(1024, outcomes.size() * 2);
  }
  outcomes[id] = {{status, failure}, last_id};
}

void DeviceState::next_id() {
  ++last_id;
  if (last_id % (command_window / 2) != 0) [[likely]]
    return;
  for (const Ref<Work>& node : nodes.pending_commands()) {
    // One that ends this moment is not in the map if it completed; had it failed, it would be.
    if (last_id - node->id >= command_window / 2 && !node->mark_late()) {
      outcomes.try_emplace(node->id, Outcome{{Status::completed, nullptr}, last_id});
    }
  }
}

void DeviceState::number_command(Work& node) {
  node.id = last_id;
  const std::size_t index = node.id % slots;
  if (index >= recent.size()) recent.resize(std::min<std::size_t>(slots, index * 2 + 64));
  Work* before = std::exchange(recent[index], &node);
  if (!before || before->id % slots != index || before->is_settled()) return;
  if (outdated.size() >= tidy_at) {
    std::erase_if(outdated, [](const auto& old) { return old.second->id != old.first || old.second->is_settled(); });
    tidy_at = std::max<std::size_t>(1024, outdated.size() * 2);
  }
  outdated[before->id] = before;
}

void CallbackCount::wait() {
  const std::scoped_lock lock(mutex_);
  std::atomic<std::uint32_t>& before = counts_[generation_.fetch_add(1) % 2];
  for (std::uint32_t left = before.load(); left != 0; left = before.load()) before.wait(left);
}

// One after the other: when a node's turn comes, those before it that could go are gone.
void DeviceState::let_early_nodes_go() {
  if (early_nodes.load(std::memory_order_relaxed) == 0) return;
  std::vector<Ref<Work>> settled;
  {
    const std::scoped_lock lock(order);
    settled = nodes.early_nodes();
  }
  for (const Ref<Work>& node : settled) {
    while (node->is_early() && !node->is_blocked()) {
      if (scheduler->take_back(*node)) {
        execute(*node);
      } else {
        std::this_thread::yield();  // another thread has it
      }
    }
  }
}

void DeviceState::synchronize() {
  expect_own_process();
  expect_not_in_call(*this, "synchronize");
  std::vector<Ref<Work>> pending;
  {
    const std::scoped_lock lock(order);
    pending = nodes.pending_commands();
  }
  for (const Ref<Work>& node : pending) wait(*node, Clock::time_point::max());
  // A callback cannot wait for what its thread still has to do, and a thread that runs callbacks must not sleep until
  // they have run.
  if (!is_in_observer()) let_early_nodes_go();
  if (!is_in_observer() && !scheduler->must_help()) callbacks.wait();

  std::exception_ptr exception;
  {
    const std::scoped_lock lock(order);
    if (!callback_failures.empty()) {
      exception = callback_failures.front();
      callback_failures.erase(callback_failures.begin());
    }
  }
  if (exception) std::rethrow_exception(exception);
}

void callback_failed(unsigned device_number, std::exception_ptr exception) noexcept {
  LiveDevices& live = LiveDevices::instance();
  const std::scoped_lock registry_lock(live.mutex);
  const auto found = live.devices.find(device_number);
  if (found == live.devices.end()) return;  // nobody can call its synchronize() any more
  DeviceState& device = *found->second;
  const std::scoped_lock lock(device.order);
  constexpr std::size_t most = 16;  // enough to see what is wrong; more would grow without end
  if (device.callback_failures.size() < most) device.callback_failures.push_back(std::move(exception));
}

}  // namespace tessera::detail::engine
