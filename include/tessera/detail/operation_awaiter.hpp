#pragma once

#include <tessera/detail/operation_node.hpp>
#include <tessera/detail/operation_run.hpp>
#include <tessera/detail/operation_task.hpp>

#include <concepts>
#include <coroutine>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>

// How coroutines await operations. Not for user code.
namespace tessera::detail {

// An executor has execute(f), or post(f), or post(f, allocator) as executors of the Networking TS and of Asio
// before 1.24 do, or can be called with f.
template <class E, class F>
concept HasExecute = requires(E& executor, F f) { executor.execute(std::move(f)); };
template <class E, class F>
concept HasPost = requires(E& executor, F f) { executor.post(std::move(f)); };
template <class E, class F>
concept HasPostWith = requires(E& executor, F f) { executor.post(std::move(f), std::allocator<void>()); };
template <class E, class F>
concept TakesFunctions = HasExecute<E, F> || HasPost<E, F> || HasPostWith<E, F> || std::invocable<E&, F>;
template <class E>
struct IsReference : std::false_type {};
template <class E>
struct IsReference<std::reference_wrapper<E>> : std::true_type {};
// Non-copyable executors are passed as std::ref(executor).
template <class E, class F = void (*)()>
concept Executor = TakesFunctions<std::unwrap_reference_t<E>, F> && std::copy_constructible<E>;
template <class E, class F = void (*)()>
concept NonCopyableExecutor =
    !std::copy_constructible<E> && (TakesFunctions<E, F> || requires(E& e) { e.get_executor(); });

template <class E, class F>
void execute_on(E& executor, F function) {
  if constexpr (IsReference<E>::value) {
    execute_on(executor.get(), std::move(function));
  } else if constexpr (HasExecute<E, F>) {
    executor.execute(std::move(function));
  } else if constexpr (HasPost<E, F>) {
    executor.post(std::move(function));
  } else if constexpr (HasPostWith<E, F>) {
    executor.post(std::move(function), std::allocator<void>());
  } else {
    executor(std::move(function));
  }
}
struct Anywhere {};  // resume on the thread that finishes the run

// The common part of all awaiters. Starts the operation if it has not been started.
template <class T>
class OperationAwaiterBase {
 public:
  OperationAwaiterBase(const OperationAwaiterBase&) = delete;
  OperationAwaiterBase& operator=(const OperationAwaiterBase&) = delete;

  bool await_ready() const noexcept { return false; }
  T await_resume() {
    run_.throw_if_failed();
    if constexpr (!std::is_void_v<T>) return static_cast<TypedNode<T>&>(run_.root()).take();
  }

 protected:
  explicit OperationAwaiterBase(NodePtr root) noexcept : run_(std::move(root)) {}
  explicit OperationAwaiterBase(OperationRun run) noexcept : run_(std::move(run)) {}
  ~OperationAwaiterBase() = default;

  // Returns the context of the awaiting coroutine if that is a Task.
  template <class Promise>
  const TaskContext* start(std::coroutine_handle<Promise> waiting) {
    const TaskContext* task = nullptr;
    if constexpr (requires { waiting.promise().task_context(); }) task = waiting.promise().task_context();
    if (!run_) {
      RunOptions options;
      options.task = task;
      if (task) options.stop = task->stop;
      run_.begin(std::move(options));
    } else if (task && task->stop.stop_possible()) {
      on_stop_.emplace(task->stop, CancelRun{run_});
    }
    return task;
  }

  OperationRun run_;

 private:
  struct CancelRun {
    OperationRun run;
    void operator()() const noexcept { run.cancel(Errc::cancelled, "the task that awaits the operation was stopped"); }
  };
  std::optional<std::stop_callback<CancelRun>> on_stop_;  // for a run that was started before
};

// Always resumes on an executor, even if there was nothing to wait for.
template <class T, class Executor>
class OperationAwaiter final : public OperationAwaiterBase<T> {
 public:
  OperationAwaiter(NodePtr root, Executor executor)
      : OperationAwaiterBase<T>(std::move(root)), transfer_(std::make_shared<Transfer>(std::move(executor))) {}
  OperationAwaiter(OperationRun run, Executor executor)
      : OperationAwaiterBase<T>(std::move(run)), transfer_(std::make_shared<Transfer>(std::move(executor))) {}
  ~OperationAwaiter() {
    if (is_resumed_) return;
    if (this->run_ && this->run_.remove_observer(*transfer_)) {
      transfer_->self = nullptr;
      this->run_.cancel();
    }
    transfer_->abandon();
  }

  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> waiting) {
    const TaskContext* task = this->start(waiting);
    // Once the observer is added, this awaiter may be destroyed at any time.
    const std::shared_ptr<Transfer> transfer = transfer_;
    const OperationRun run = this->run_;
    transfer->waiting = waiting;
    if (run.is_finished()) return transfer->post_while_suspending();
    transfer->self = transfer;
    if (task && task->listener) task->listener->awaits(run);
    if (run.add_observer(*transfer)) return true;
    transfer->self = nullptr;
    return transfer->post_while_suspending();
  }
  T await_resume() {
    is_resumed_ = true;
    if (transfer_->failure) std::rethrow_exception(transfer_->failure);
    return OperationAwaiterBase<T>::await_resume();
  }

 private:
  // Moves the coroutine to the executor. The coroutine may be destroyed on the executor's thread meanwhile: it is not
  // resumed then, and the executor is not used again.
  struct Transfer final : RunObserver, std::enable_shared_from_this<Transfer> {
    explicit Transfer(Executor to) : executor(std::move(to)) {}

    void run_finished() noexcept override {
      const std::shared_ptr<Transfer> keep = std::move(self);
      const UserCodeScope scope;
      if (!post()) resume();
    }
    // Called from await_suspend(). False if the executor ran the function inside post(): the coroutine just continues
    // then, so that a loop of these needs no stack.
    bool post_while_suspending() {
      struct Restore {
        const Transfer* outer;
        ~Restore() { suspending = outer; }
      } const restore{std::exchange(suspending, this)};
      return post() && !has_arrived;
    }
    // False if the executor threw: the coroutine continues on this thread and rethrows that.
    bool post() {
      const std::scoped_lock lock(mutex);
      if (!waiting) return true;
      try {
        Executor target = executor;
        execute_on(target, [transfer = this->shared_from_this()] { transfer->resume(); });
      } catch (...) {
        if (!waiting) throw;  // the coroutine's exception, not the executor's
        failure = std::current_exception();
        return false;
      }
      return true;
    }
    void resume() {
      if (suspending == this) {
        has_arrived = true;
      } else if (waiting) {
        std::exchange(waiting, nullptr).resume();
      }
    }

    void abandon() {
      const std::scoped_lock lock(mutex);
      waiting = nullptr;
    }

    Executor executor;
    std::mutex mutex;                 // held during post()
    std::coroutine_handle<> waiting;  // null when resumed or destroyed
    std::shared_ptr<Transfer> self;   // while a run may call it
    bool has_arrived = false;
    std::exception_ptr failure;  // the executor's
    static inline thread_local const Transfer* suspending = nullptr;
  };

  std::shared_ptr<Transfer> transfer_;
  bool is_resumed_ = false;
};

// Resumes on the thread that finishes the run.
template <class T>
class OperationAwaiter<T, Anywhere> final : public OperationAwaiterBase<T>, private RunObserver {
 public:
  OperationAwaiter(NodePtr root, Anywhere) noexcept : OperationAwaiterBase<T>(std::move(root)) {}
  OperationAwaiter(OperationRun run, Anywhere) noexcept : OperationAwaiterBase<T>(std::move(run)) {}
  ~OperationAwaiter() {
    // The coroutine is destroyed while it waits: nobody needs the value any more.
    if (is_waiting_ && this->run_.remove_observer(*this)) this->run_.cancel();
  }

  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> waiting) {
    const TaskContext* task = this->start(waiting);
    if (this->run_.is_finished()) return false;
    const OperationRun run = this->run_;  // once the observer is added, this awaiter may be destroyed at any time
    waiting_ = waiting;
    is_waiting_ = true;
    if (task && task->listener) task->listener->awaits(run);
    if (run.add_observer(*this)) return true;
    is_waiting_ = false;
    return false;
  }

 private:
  void run_finished() noexcept override {
    is_waiting_ = false;
    this->run_.before_user_code();
    const UserCodeScope scope;
    waiting_.resume();  // may destroy this awaiter
  }

  std::coroutine_handle<> waiting_;
  bool is_waiting_ = false;
};

}  // namespace tessera::detail
