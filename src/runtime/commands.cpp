// Commands by number, and all of a device's commands at once.
#include <tessera/error.hpp>

#include "core/text.hpp"
#include "runtime/device_state.hpp"

#include <algorithm>

namespace tessera::detail {

Ref<Node> DeviceState::find(CommandId id, Ended* ended) {
  const std::scoped_lock lock(order);
  if (id == 0 || id > last_id) {
    throw Error(Errc::unknown_command, core::text("there is no command ", id, " on ", driver->info().name));
  }
  // A node cannot be given a new life while the lock is held, so an id that matches is the command's.
  Node* node = nullptr;
  if (const std::size_t index = id % command_window; index < recent.size() && recent[index].id == id) {
    node = recent[index].node;
  } else if (const auto old = outdated.find(id); old != outdated.end()) {
    node = old->second;
  }
  if (node && node->id == id) {
    if (Ref<Node> shared = NodePool::try_share(*node)) return shared;
  }
  if (const auto found = outcomes.find(id); found != outcomes.end() && last_id - found->second.at < command_window) {
    *ended = found->second.ended;
  } else if (last_id - id < command_window) {
    *ended = {Status::completed, nullptr};
  } else {
    throw Error(Errc::unknown_command,
                core::text("command ", id, " ended more than ", command_window, " commands ago"));
  }
  return {};
}

void DeviceState::remember(CommandId id, Status status, const core::FailurePtr& failure) {
  const std::scoped_lock lock(order);
  remember_locked(id, status, failure);
}

void DeviceState::remember_locked(CommandId id, Status status, const core::FailurePtr& failure) {
  // Forgets what is out of the window when the map has doubled: constant work an outcome.
  if (outcomes.size() >= forget_at) {
    std::erase_if(outcomes, [this](const auto& entry) { return last_id - entry.second.at >= command_window; });
    forget_at = std::max<std::size_t>(1024, outcomes.size() * 2);
  }
  outcomes[id] = {{status, failure}, last_id};
}

void DeviceState::number_command(Node& node) {
  node.id = last_id;
  const std::size_t index = node.id % command_window;
  if (index >= recent.size()) recent.resize(std::min<std::size_t>(command_window, index * 2 + 64));
  Slot& slot = recent[index];
  if (slot.node && slot.node->id == slot.id && !slot.node->is_settled()) keep_outdated(slot);
  slot = {&node, node.id};
}

void DeviceState::keep_outdated(const Slot& slot) {
  if (outdated.size() >= tidy_at) {
    std::erase_if(outdated, [](const auto& old) { return old.second->id != old.first || old.second->is_settled(); });
    tidy_at = std::max<std::size_t>(1024, outdated.size() * 2);
  }
  if (slot.node->mark_outdated()) {
    // It ended this moment. Had it failed, that would have been remembered before.
    outcomes.try_emplace(slot.id, Outcome{{Status::completed, nullptr}, last_id});
  } else {
    outdated[slot.id] = slot.node;  // when it ends, settle() remembers how
  }
}

void DeviceState::synchronize() {
  std::vector<Ref<Node>> pending;
  {
    const std::scoped_lock lock(order);
    pending = nodes.commands();
  }
  for (const Ref<Node>& node : pending) wait(*node, Clock::time_point::max());

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

void DeviceState::callback_failed(std::exception_ptr exception) noexcept {
  const std::scoped_lock lock(order);
  constexpr std::size_t most = 16;  // enough to see what is wrong; more would grow without end
  if (callback_failures.size() < most) callback_failures.push_back(std::move(exception));
}

}  // namespace tessera::detail
