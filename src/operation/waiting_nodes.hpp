#pragma once

#include <tessera/detail/operation_node.hpp>

#include "operation/commands_in_flight.hpp"
#include "operation/evaluation_stack.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera::detail::operation {

// The nodes of a run that wait: for commands, for their host function, or for an external event. Used by the pumping
// thread only, but for has_host_functions().
class WaitingNodes {
 public:
  bool empty() const noexcept { return suspended_ == 0 && parked_.empty() && host_ready_.empty(); }
  // At least the number of nodes that will resume.
  std::size_t size() const noexcept { return suspended_ + parked_.size(); }

  // Waits until all commands up to this number have finished; then the node's host function runs, or its step.
  void park(OperationNode& node, std::uint64_t up_to, bool has_host_function) {
    parked_.push_back({&node, up_to, has_host_function});
  }
  // Releases the nodes whose commands have finished. Under the run's mutex.
  void unpark(const CommandsInFlight& commands, EvaluationStack& stack) {
    std::erase_if(parked_, [&](const Parked& parked) {
      if (commands.has_any_up_to(parked.up_to)) return false;
      if (parked.has_host_function) {
        host_ready_.push_back(parked.node);
        ++suspended_;
        ++host_functions_;
      } else {
        stack.push_step(*parked.node);
      }
      return true;
    });
  }
  // Exchanges the nodes whose host functions can run now for an empty list, whose capacity is reused.
  void swap_host_ready(std::vector<OperationNode*>& nodes) noexcept { nodes.swap(host_ready_); }

  void suspend() noexcept { ++suspended_; }
  void resume(bool is_host_function) noexcept {
    --suspended_;
    if (is_host_function) --host_functions_;
  }
  // Nodes that are parked or have not started their host function no longer wait. The others will still resume.
  void drop_unstarted() noexcept {
    parked_.clear();
    suspended_ -= host_ready_.size();
    host_functions_ -= host_ready_.size();
    host_ready_.clear();
  }

  // Whether a host function is running or about to run. Any thread.
  bool has_host_functions() const noexcept { return host_functions_ > 0; }

 private:
  struct Parked {
    OperationNode* node;
    std::uint64_t up_to;
    bool has_host_function;
  };
  std::vector<Parked> parked_;
  std::vector<OperationNode*> host_ready_;  // these count as suspended too
  std::size_t suspended_ = 0;
  std::atomic<std::size_t> host_functions_{0};
};

}  // namespace tessera::detail::operation
