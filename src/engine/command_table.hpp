#pragma once

#include "engine/work.hpp"

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

namespace tessera::detail::engine {

// A command's number stays known for this many commands after it finished.
inline constexpr CommandId command_window = 65'536;

// The commands of a device by number. A command that completes needs no bookkeeping: a recent number that is neither
// pending nor remembered has completed. Only failures, and commands that finished long after their submission, are
// remembered. Everything under the device's order lock.
class CommandTable {
 public:
  explicit CommandTable(WorkPool& works) : works_(works) {}

  // How a command finished.
  struct Ended {
    Status status;
    core::FailurePtr failure;
  };

  // The number of the next command; and the number that was assigned last.
  CommandId next() {
    if (++last_ % (command_window / 2) == 0) [[unlikely]]
      mark_late();
    return last_;
  }
  CommandId last() const noexcept { return last_; }
  // `work` is the command that was numbered last.
  void add(Work& work);
  // If there is no memory for it, the number will count as unknown or completed; handles know better.
  void remember(CommandId id, Status status, const core::FailurePtr& failure) noexcept;

  // The command's work item; or null and how the command finished, if it has no item any more. Errc::unknown_command
  // for a number that was never assigned or is forgotten; `device` is for the message.
  Ref<Work> find(CommandId id, const std::string& device, Ended* ended) const;

 private:
  // Of the last this many commands, one that is neither pending nor remembered has completed. Twice the window, because
  // a command that finishes more than a window after its submission is remembered.
  static constexpr CommandId slots = 2 * command_window;

  struct Outcome {
    Ended ended;
    CommandId at;  // the latest command when it finished
  };
  bool is_known(CommandId id, const Outcome& outcome) const noexcept;
  void mark_late();

  WorkPool& works_;
  CommandId last_ = 0;
  std::vector<Work*> recent_;  // the latest commands with work items, by id modulo slots
  // Outcomes of commands that failed, were cancelled or finished late.
  std::unordered_map<CommandId, Outcome> outcomes_;
  std::size_t forget_at_ = 1024;
  std::unordered_map<CommandId, Work*> outdated_;  // pending commands whose slot in recent_ was reused
  std::size_t tidy_at_ = 1024;
};

}  // namespace tessera::detail::engine
