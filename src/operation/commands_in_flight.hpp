#pragma once

#include <tessera/detail/handle.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace tessera::detail::operation {

// The commands that a run waits for. Guarded by the run's mutex.
class CommandsInFlight {
 public:
  struct Command {
    std::uint64_t number;  // in the order in which the run began to wait for them
    Ref<engine::Work> work;
    bool is_foreign;  // of another run: its failure is not this run's
  };

  bool empty() const noexcept { return commands_.empty(); }
  std::size_t size() const noexcept { return commands_.size(); }
  std::span<const Command> all() const noexcept { return commands_; }
  bool contains(std::uint64_t number) const {
    return std::ranges::find(commands_, number, &Command::number) != commands_.end();
  }
  bool has_any_up_to(std::uint64_t number) const {
    return std::ranges::any_of(commands_, [&](const Command& command) { return command.number <= number; });
  }
  void add(Command command) { commands_.push_back(std::move(command)); }
  Command remove(std::uint64_t number) noexcept {
    const auto found = std::ranges::find(commands_, number, &Command::number);
    Command removed = std::move(*found);
    commands_.erase(found);
    return removed;
  }

 private:
  std::vector<Command> commands_;
};

}  // namespace tessera::detail::operation
