#pragma once

#include <tessera/detail/operation_node.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <utility>
#include <vector>

namespace tessera::detail::operation {

// Something that a run waits for has happened. An event without a node or a command only makes the run look again.
struct RunEvent {
  OperationNode* node = nullptr;  // to be stepped, or to fail
  std::exception_ptr failure;
  std::uint64_t command = 0;      // the number of a command that has finished
  bool is_host_function = false;  // the node's run_on_host() has returned
};

// The mailbox of a run. At most one thread pumps a run; who posts while nobody does becomes that thread. Guarded by the
// run's mutex, but for what only the pumping thread uses.
class RunEvents {
 public:
  bool empty() const noexcept { return posted_.empty() && !must_look_again_; }
  // Whether the caller has to pump now. There must be room for the event: who posts could not handle a failure.
  [[nodiscard]] bool post(RunEvent event) noexcept {
    if (event.node || event.command != 0) {
      posted_.push_back(std::move(event));
    } else {
      must_look_again_ = true;
    }
    return !std::exchange(is_pumped_, true);
  }

  // For the pumping thread: whether this many events have room, without the mutex; and makes it.
  bool has_room_for(std::size_t count) const noexcept { return count <= room_; }
  void make_room_for(std::size_t count) {
    const std::size_t room = std::max<std::size_t>({count, 2 * room_, 4});
    posted_.reserve(room);
    taken_.reserve(room);
    room_ = room;
  }
  // For the pumping thread, when it has handled those that it took before. Whether the run is to look again.
  bool take_all() noexcept {
    taken_.clear();
    posted_.swap(taken_);
    return std::exchange(must_look_again_, false);
  }
  // What it took; no mutex.
  std::vector<RunEvent>& taken() noexcept { return taken_; }

  void stop_pumping() noexcept { is_pumped_ = false; }
  void reset() noexcept {
    posted_.clear();
    taken_.clear();
    must_look_again_ = false;
    is_pumped_ = true;
  }

 private:
  std::vector<RunEvent> posted_;
  std::vector<RunEvent> taken_;
  std::size_t room_ = 0;  // of both
  bool must_look_again_ = false;
  bool is_pumped_ = true;  // by the thread that starts the run
};

}  // namespace tessera::detail::operation
