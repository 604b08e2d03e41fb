#pragma once

#include <tessera/detail/operation_node.hpp>

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
// run's mutex.
class RunEvents {
 public:
  bool empty() const noexcept { return events_.empty(); }
  // Whether the caller has to pump now.
  [[nodiscard]] bool post(RunEvent event) {
    events_.push_back(std::move(event));
    return !std::exchange(is_pumped_, true);
  }
  std::vector<RunEvent> take_all() { return std::exchange(events_, {}); }
  void stop_pumping() noexcept { is_pumped_ = false; }
  void reset() noexcept {
    events_.clear();
    is_pumped_ = true;
  }

 private:
  std::vector<RunEvent> events_;
  bool is_pumped_ = true;  // by the thread that starts the run
};

}  // namespace tessera::detail::operation
