#include "engine/command_table.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace tessera::detail::engine {

Ref<Work> CommandTable::find(CommandId id, const std::string& device, Ended* ended) const {
  if (id == 0 || id > last_) throw Error(Errc::unknown_command, core::text("there is no command ", id, " on ", device));
  // No item is reused while the lock is held, so one with this id is the command's.
  Work* work = nullptr;
  if (const std::size_t index = id % slots; index < recent_.size() && recent_[index] && recent_[index]->id == id) {
    work = recent_[index];
  } else if (const auto old = outdated_.find(id); old != outdated_.end()) {
    work = old->second;
  }
  if (work && work->id == id) {
    if (Ref<Work> shared = WorkPool::try_share(*work)) return shared;
  }
  if (const auto found = outcomes_.find(id); found != outcomes_.end() && is_known(id, found->second)) {
    *ended = found->second.ended;
  } else if (last_ - id < slots) {
    *ended = {Status::completed, nullptr};
  } else {
    throw Error(Errc::unknown_command,
                core::text("command ", id, " finished more than ", command_window, " commands ago"));
  }
  return {};
}

// For as long as an unknown command would count as completed, and for a window after it finished.
bool CommandTable::is_known(CommandId id, const Outcome& outcome) const noexcept {
  return last_ - outcome.at <= command_window || last_ - id < slots;
}

void CommandTable::remember(CommandId id, Status status, const core::FailurePtr& failure) noexcept {
  // Forgets outcomes outside the window whenever the map has doubled: amortized constant time per outcome.
  if (outcomes_.size() >= forget_at_) {
    std::erase_if(outcomes_, [this](const auto& entry) { return !is_known(entry.first, entry.second); });
    forget_at_ = std::max<std::size_t>(1024, outcomes_.size() * 2);
  }
  try {
    outcomes_[id] = {{status, failure}, last_};
  } catch (const std::bad_alloc&) {
  }
}

// Every half window: the outcomes of commands that are still pending will have to be remembered.
void CommandTable::mark_late() {
  for (const Ref<Work>& work : works_.pending_commands()) {
    // A command that finishes right now is in the map only if it failed.
    if (last_ - work->id >= command_window / 2 && !work->mark_late()) {
      outcomes_.try_emplace(work->id, Outcome{{Status::completed, nullptr}, last_});
    }
  }
}

void CommandTable::add(Work& work) {
  work.id = last_;
  const std::size_t index = work.id % slots;
  if (index >= recent_.size()) recent_.resize(std::min<std::size_t>(slots, index * 2 + 64));
  Work* before = std::exchange(recent_[index], &work);
  if (!before || before->id % slots != index || before->is_settled()) return;
  if (outdated_.size() >= tidy_at_) {
    std::erase_if(outdated_, [](const auto& old) { return old.second->id != old.first || old.second->is_settled(); });
    tidy_at_ = std::max<std::size_t>(1024, outdated_.size() * 2);
  }
  outdated_[before->id] = before;
}

}  // namespace tessera::detail::engine
