#pragma once

#include <tessera/command.hpp>
#include <tessera/detail/export.hpp>
#include <tessera/detail/operation_node.hpp>
#include <tessera/error.hpp>
#include <tessera/stream.hpp>

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <stop_token>
#include <string_view>
#include <utility>

// The evaluation of an operation. Not for user code.
namespace tessera::detail {

struct TaskContext;
namespace operation {
class RunState;
struct RunOutcome;
}  // namespace operation

struct RunOptions {
  Stream stream = {};                 // empty: the stream policy chooses
  bool is_stream_fixed = false;       // the caller chose the stream: nothing may run on another device
  std::stop_token stop = {};          // cancels the run
  const TaskContext* task = nullptr;  // the task that awaits the run
  bool blocks = false;                // the caller waits for the run, and may run host functions
};

// Notified once, when a run has finished.
class TESSERA_API RunObserver {
 public:
  virtual void run_finished() noexcept = 0;

 protected:
  RunObserver() = default;
  ~RunObserver() = default;

 private:
  friend struct operation::RunOutcome;
  RunObserver* next_ = nullptr;  // of the same run
};

// A handle to the evaluation of a tree. Copies refer to the same run; any thread.
class TESSERA_API OperationRun {
 public:
  OperationRun() noexcept = default;
  OperationRun(OperationRun&&) noexcept = default;
  OperationRun& operator=(OperationRun&&) noexcept = default;
  // A copy has no access to the root of a run that finished inside begin().
  OperationRun(const OperationRun& other) noexcept : state_(other.state_), is_done_(other.is_done_) {}
  OperationRun& operator=(const OperationRun& other) noexcept { return *this = OperationRun(other); }
  ~OperationRun() = default;
  // A run that has not begun; everything but begin() treats it as an empty handle.
  explicit OperationRun(NodePtr root) noexcept : root_(std::move(root)) {}
  void begin(RunOptions&& options);
  static OperationRun start(NodePtr root, RunOptions&& options) {
    OperationRun run(std::move(root));
    run.begin(std::move(options));
    return run;
  }

  Status poll() const;
  bool is_finished() const noexcept { return !state_ || is_state_finished(); }
  void wait() const;
  bool wait_seconds(std::chrono::duration<double> timeout) const;
  bool cancel(Errc reason = Errc::cancelled, std::string_view why = "the operation was cancelled") const;

  // add: false if the run has finished; the observer is not notified then. remove: false if the observer has been
  // notified, or is being notified now.
  bool add_observer(RunObserver& observer) const noexcept;
  bool remove_observer(RunObserver& observer) const noexcept;
  // Called by an observer before it runs user code.
  void before_user_code() const noexcept;

  // Of a finished run.
  const std::exception_ptr& failure() const noexcept;
  void throw_if_failed() const {
    if (state_) throw_if_state_failed();
  }
  OperationNode& root() const noexcept { return state_ ? root_of_state() : *root_; }
  NodePtr take_root() const noexcept;

  explicit operator bool() const noexcept { return state_ || is_done_; }
  const std::shared_ptr<operation::RunState>& state() const noexcept { return state_; }

 private:
  bool is_state_finished() const noexcept;
  void throw_if_state_failed() const;
  OperationNode& root_of_state() const noexcept;

  std::shared_ptr<operation::RunState> state_;  // null if the run finished inside begin()
  mutable NodePtr root_;                        // in that case, and before begin()
  bool is_done_ = false;
};

// Marks that a library thread is running user code: no run may depend on this thread meanwhile.
class TESSERA_API UserCodeScope {
 public:
  UserCodeScope() noexcept;
  ~UserCodeScope();
  UserCodeScope(const UserCodeScope&) = delete;
  UserCodeScope& operator=(const UserCodeScope&) = delete;

 private:
  std::size_t nesting_;
};

// Cancels the run with Errc::deadline_exceeded if it has not finished after this time.
TESSERA_API void cancel_after(const OperationRun& run, std::chrono::nanoseconds time);
// An exception as an Error: Errc::out_of_memory for std::bad_alloc, Errc::call_failed for any other type.
TESSERA_API Error error_of(const std::exception_ptr& failure) noexcept;

}  // namespace tessera::detail
