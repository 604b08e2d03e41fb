#pragma once

#include <tessera/detail/operation_evaluator.hpp>
#include <tessera/detail/operation_run.hpp>
#include <tessera/detail/operation_unzip.hpp>

#include "engine/execution.hpp"
#include "engine/schedule/timer.hpp"
#include "engine/submission.hpp"
#include "operation/call_recorder.hpp"
#include "operation/commands_in_flight.hpp"
#include "operation/evaluation_stack.hpp"
#include "operation/inner_runs.hpp"
#include "operation/memory_pressure.hpp"
#include "operation/run_events.hpp"
#include "operation/run_outcome.hpp"
#include "operation/stop_state.hpp"
#include "operation/unzip_sources.hpp"
#include "operation/waiting_nodes.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::detail::operation {

// The evaluation of a tree. One thread at a time *pumps* the run: it begins and steps nodes, depth first, and records
// their device work. Whatever finishes elsewhere (a command, a host function, an inner run) posts an event, which the
// pumping thread handles; if there is none, the poster becomes the pumping thread. So no lock is held while nodes are
// stepped, and no thread waits for another.
//
// A run has finished when its root has a value or something has failed, and nothing of it is in flight: no command and
// no host function. Only then are observers notified. Whatever goes wrong, even for want of memory, is the run's
// failure: neither pumping nor posting throws, or the run would never finish.
class RunState final : public Evaluator, public std::enable_shared_from_this<RunState> {
 public:
  // If this throws, the caller still has the root.
  static std::shared_ptr<RunState> create(NodePtr&& root, RunOptions&& options);
  void start() noexcept;
  // Instead of start(), for a tree that was evaluated inline: waits for its command, or reports its failure.
  void adopt(const Ref<engine::Work>& command, std::exception_ptr why) noexcept;

  // For OperationRun.
  Status poll();
  bool is_finished() const noexcept { return outcome_.is_finished.load(std::memory_order_acquire); }
  bool wait(engine::Clock::time_point until);
  bool cancel(Errc reason, std::string_view why) noexcept;
  void cancel_after(std::chrono::nanoseconds time);
  bool add_observer(RunObserver& observer) noexcept;
  bool remove_observer(RunObserver& observer) noexcept;
  // Looks at the failure, which the device's next synchronize() throws otherwise.
  const std::exception_ptr& failure() noexcept {
    if (outcome_.failure) outcome_.is_seen.store(true, std::memory_order_relaxed);
    return outcome_.failure;
  }
  NodePtr& root() noexcept { return root_; }

  // Evaluator.
  bool has_memory_for(std::size_t bytes) override;
  TensorHandle make(const Shape& shape, DType dtype) override { return recorder_.make(shape, dtype); }
  void run(const KernelInvocation& call) override { recorder_.add(call); }
  TensorHandle upload(const Shape& shape, DType dtype, std::span<const std::byte> bytes,
                      std::shared_ptr<const void> owner) override;
  bool download(const TensorHandle& tensor, std::function<std::span<std::byte>()> allocate,
                OperationNode& node) override;
  void add_child(OperationNode& parent, NodePtr child) override { stack_.push_new_child(parent, std::move(child)); }
  void run_on_host_after_device(OperationNode& node) override { park(node, true); }
  void suspend(OperationNode& node) override;
  void resume(OperationNode& node, std::exception_ptr failure) noexcept override;
  void execute_user_code(std::function<void()> function) override;
  void on_stop(std::function<void()> function) override;
  void throw_if_poisoned(const TensorHandle& tensor) override;
  RunOptions inner_options() override;
  engine::DeviceState& device() override { return *device_; }
  void add_inner_run(const OperationRun& run) noexcept override;
  bool evaluates_on(const engine::DeviceState& device) override {
    return &device == device_.get() || options_.is_stream_fixed;
  }
  std::shared_ptr<Evaluator> share() override { return shared_from_this(); }
  void task_awaits(const OperationNode& node, const OperationRun& run) override;
  void task_awaits(const OperationNode& node, const Ref<engine::Work>& command) override;

  // For UnzipSource. All but is_stopping() and submitted() are called by the pumping thread.
  void step_again(OperationNode& node) { stack_.push_step(node); }
  void waits_for(const std::shared_ptr<UnzipSource>& source);
  // Steps the node once these commands of another run have finished, whatever their outcome.
  void step_after(OperationNode& node, const std::vector<Ref<engine::Work>>& commands);
  // Carries out a cancel() that was deferred because other runs needed values.
  void cancel_if_deferred() noexcept;
  bool is_stopping() const noexcept { return stop_.is_stopping.load(std::memory_order_acquire); }
  // Submits everything recorded and returns all commands so far.
  std::vector<Ref<engine::Work>> submitted();

 private:
  friend class detail::UnzipSource;
  friend class NestedRuns;
  class CommandWatcher;  // NOLINT(cppcoreguidelines-virtual-class-destructor): it is final
  struct FreeList;

  RunState() = default;
  void tell_unseen_failure() noexcept;
  void reset() noexcept;

  // Pumping (run_state.cpp, nested_runs.cpp). `is_caller`: on the thread that starts the run.
  void post(RunEvent event) noexcept;
  void pump(bool is_caller) noexcept;
  void pump_now(bool is_caller) noexcept;
  void step_all() noexcept;
  void step(OperationNode& node, bool is_begin) noexcept;
  void begin_children(OperationNode& node) override { stack_.push_children(node); }
  void handle(RunEvent& event) noexcept;
  void make_room_for_event();
  void fail(std::exception_ptr why, std::uint64_t order = 0) noexcept;
  bool try_finish(std::unique_lock<std::mutex>& lock) noexcept;

  // Commands and host functions (run_commands.cpp).
  void flush();
  void watch(const Ref<engine::Work>& command) noexcept;
  bool try_watch(const Ref<engine::Work>& command, bool is_foreign);
  void fail_with(const engine::Work& command, std::uint64_t number);
  void park(OperationNode& node, bool has_host_function);
  void unpark();
  OperationNode* start_host_functions(std::vector<OperationNode*>& nodes, bool is_caller) noexcept;
  RunEvent call_host_function(OperationNode& node) noexcept;

  // Memory (memory_pressure.cpp).
  bool is_progressing();
  void look_again_soon();

  // Cancellation (run_cancellation.cpp).
  bool cancel_all(Errc reason, std::string_view why);
  bool cancel_without_memory() noexcept;
  bool mark_cancelled(Errc reason, std::string_view why, std::vector<std::shared_ptr<RunState>>& inner,
                      std::vector<std::shared_ptr<RunState>>& producers);
  void cancel_inner(Errc reason, std::string_view why) noexcept;
  UnzipSource::Demand demand(std::vector<std::shared_ptr<const void>>& seen) const;
  // Under the lock, by the pumping thread.
  void begin_source(const std::shared_ptr<UnzipSource>& source, OperationNode& root);

  // Waiting (run_waiting.cpp).
  void set_awaited(const OperationNode& node, Awaited awaited);
  bool find_awaited(std::shared_ptr<RunState>* run, Ref<engine::Work>* command, std::uint64_t* version);
  enum class Waited : std::uint8_t { for_nothing, for_progress, until_timeout };
  bool wait_once(engine::Clock::time_point until);
  Waited wait_for_command(engine::Clock::time_point until);
  Waited wait_for_awaited(engine::Clock::time_point until, std::uint64_t* version);
  bool wait_for_change(engine::Clock::time_point until, bool is_polling, std::uint64_t inner_version,
                       std::uint64_t awaits_version);
  std::shared_ptr<engine::Scheduler> scheduler_to_help();
  std::vector<std::shared_ptr<RunState>> unfinished_inner();
  template <class F>
  bool visit_inner(F&& visit);

  NodePtr root_;
  RunOptions options_;
  Ref<engine::DeviceState> device_;
  CallRecorder recorder_;

  // Used by the pumping thread only.
  EvaluationStack stack_;
  WaitingNodes waiting_;
  MemoryPressure pressure_;
  std::size_t watched_commands_ = 0;  // commands of the recorder that were passed to watch()
  std::uint64_t last_command_ = 0;    // the number of the last one that was passed to watch()
  RunOutcome outcome_;

  std::mutex mutex_;                 // guards everything below
  std::condition_variable changed_;  // what the run waits for has changed, or it has finished
  RunEvents events_;
  CommandsInFlight commands_;
  InnerRuns inner_;
  TaskAwaits awaits_;
  UnzipSources sources_;
  StopState stop_;
};

// Visits this run and all runs inside it, outer ones first, until the visitor returns true. Without recursion: a
// million runs may be nested.
template <class F>
bool RunState::visit_inner(F&& visit) {
  if (visit(*this)) return true;
  std::vector<std::shared_ptr<RunState>> left = unfinished_inner();
  while (!left.empty()) {
    const std::shared_ptr<RunState> run = std::move(left.back());
    left.pop_back();
    if (visit(*run)) return true;
    for (std::shared_ptr<RunState>& inner : run->unfinished_inner()) left.push_back(std::move(inner));
  }
  return false;
}

// How long a thread helps with a command that a task awaits before it checks whether the task still awaits it.
constexpr std::chrono::milliseconds max_help_time{5};
// Pumps the runs that this thread has deferred. Called before it blocks.
void pump_deferred_runs();
// Where an operation runs.
Ref<engine::DeviceState> device_for(const OperationNode& root, const RunOptions& options);
// The stream of an operation that was started without one (stream_policy.cpp).
Stream stream_for(engine::DeviceState& device, const RunOptions& options);
// Whether the user has set a stream policy. If not, nobody can see the streams, and a single call needs none.
bool has_stream_policy() noexcept;

}  // namespace tessera::detail::operation
