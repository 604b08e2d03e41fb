#pragma once

#include <tessera/detail/handle.hpp>
#include <tessera/detail/operation_node.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace tessera::detail::operation {

class RunState;

// The runs that nodes of a run have started. Guarded by the run's mutex.
class InnerRuns {
 public:
  // The second needs the first.
  void make_room_for_one();
  void add(const std::shared_ptr<RunState>& run) noexcept;
  bool contains(const std::shared_ptr<RunState>& run) const;
  // Those that still exist; those that have not finished.
  std::vector<std::shared_ptr<RunState>> all() const;
  std::vector<std::shared_ptr<RunState>> unfinished() const;
  // One by one; null if it no longer exists.
  std::size_t size() const noexcept { return runs_.size(); }
  std::shared_ptr<RunState> get(std::size_t index) const noexcept { return runs_[index].lock(); }
  // Increases with every add().
  std::uint64_t version() const noexcept { return version_; }
  void reset() noexcept;

 private:
  std::vector<std::weak_ptr<RunState>> runs_;
  std::uint64_t version_ = 0;
};

// A run or a command that a task awaits; or nothing.
struct Awaited {
  std::weak_ptr<RunState> run;
  Ref<engine::Work> command;
};

// What the tasks of a run await, by their nodes. Guarded by the run's mutex.
class TaskAwaits {
 public:
  // Leaves the previous entry in `awaited`, to be destroyed after the lock is released.
  void set(const OperationNode& node, Awaited& awaited);
  // The first one that has not finished. Moves references that must be dropped after the lock is released to `dropped`.
  bool find_unfinished(std::shared_ptr<RunState>& run, Ref<engine::Work>& command,
                       std::vector<std::shared_ptr<RunState>>& dropped) const;
  // Increases with every set().
  std::uint64_t version() const noexcept { return version_; }
  void reset() noexcept;

 private:
  std::unordered_map<const OperationNode*, Awaited> awaited_;
  std::uint64_t version_ = 0;
};

}  // namespace tessera::detail::operation
