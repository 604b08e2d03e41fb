#pragma once

#include <tessera/detail/operation_node.hpp>

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

// How coroutines wait for operations: for operation.hpp, not for programs.
namespace tessera::detail {

// Where a coroutine goes on: an executor has execute(f), or post(f), or post(f, allocator) as those of the Networking
// TS and of Asio before 1.24 do, or is called with f.
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
// Those that cannot be copied are given as std::ref(executor).
template <class E, class F = void (*)()>
concept Executor = TakesFunctions<std::unwrap_reference_t<E>, F> && std::copy_constructible<E>;
template <class E, class F = void (*)()>
concept ExecutorToRefer = !std::copy_constructible<E> && (TakesFunctions<E, F> || requires(E& e) { e.get_executor(); });

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
struct Anywhere {};  // on the thread that ends the operation

// What co_await uses, for every door. Starts what is not started.
template <class T>
class RunAwaiterBase {
 public:
  RunAwaiterBase(const RunAwaiterBase&) = delete;
  RunAwaiterBase& operator=(const RunAwaiterBase&) = delete;

  bool await_ready() const noexcept { return false; }
  T await_resume() {
    run_.throw_if_failed();
    if constexpr (!std::is_void_v<T>) return static_cast<TypedNode<T>&>(run_.root()).take();
  }

 protected:
  explicit RunAwaiterBase(NodePtr root) noexcept : run_(std::move(root)) {}
  explicit RunAwaiterBase(Run run) noexcept : run_(std::move(run)) {}
  ~RunAwaiterBase() = default;

  // Gives the task that awaits it, if it is one.
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

  Run run_;

 private:
  struct CancelRun {
    Run run;
    void operator()() const noexcept { run.cancel(Errc::cancelled, "the task that waits for it was stopped"); }
  };
  std::optional<std::stop_callback<CancelRun>> on_stop_;  // of what had been started before
};

// Goes on at an executor, in any case: also if there was nothing to wait for.
template <class T, class Executor>
class RunAwaiter final : public RunAwaiterBase<T> {
 public:
  RunAwaiter(NodePtr root, Executor executor)
      : RunAwaiterBase<T>(std::move(root)), hop_(std::make_shared<Hop>(std::move(executor))) {}
  RunAwaiter(Run run, Executor executor)
      : RunAwaiterBase<T>(std::move(run)), hop_(std::make_shared<Hop>(std::move(executor))) {}
  ~RunAwaiter() {
    if (is_resumed_) return;
    if (this->run_ && this->run_.remove_observer(*hop_)) {
      hop_->self = nullptr;
      this->run_.cancel();
    }
    hop_->give_up();
  }

  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> waiting) {
    const TaskContext* task = this->start(waiting);
    const std::shared_ptr<Hop> hop = hop_;  // this awaiter may be gone when the observer is there
    const Run run = this->run_;
    hop->waiting = waiting;
    if (run.is_over()) return hop->leave();
    hop->self = hop;
    if (task && task->driver) task->driver->awaits(run);
    if (run.add_observer(*hop)) return true;
    hop->self = nullptr;
    return hop->leave();
  }
  T await_resume() {
    is_resumed_ = true;
    if (hop_->failure) std::rethrow_exception(hop_->failure);
    return RunAwaiterBase<T>::await_resume();
  }

 private:
  // The way there. The coroutine may be destroyed, on the executor's thread, while this is on its way: it is not
  // resumed then, and the executor is not used any more.
  struct Hop final : Run::Observer, std::enable_shared_from_this<Hop> {
    explicit Hop(Executor on) : executor(std::move(on)) {}

    void run_over() noexcept override {
      const std::shared_ptr<Hop> keep = std::move(self);
      const UserCode scope;
      if (!go()) arrive();
    }
    // Of a coroutine that is about to be suspended. False if the executor called back at once: it just goes on then,
    // so that many of these in a loop need no stack.
    bool leave() {
      struct Leaving {
        const Hop* outer;
        ~Leaving() { leaving = outer; }
      } const restore{std::exchange(leaving, this)};
      return go() && !is_there;
    }
    // False if the executor does not take it: the coroutine goes on here then, and gets what that threw.
    bool go() {
      const std::scoped_lock lock(mutex);
      if (!waiting) return true;
      try {
        Executor there = executor;
        execute_on(there, [hop = this->shared_from_this()] { hop->arrive(); });
      } catch (...) {
        if (!waiting) throw;  // it was the coroutine's
        failure = std::current_exception();
        return false;
      }
      return true;
    }
    void arrive() {
      if (leaving == this) {
        is_there = true;
      } else if (waiting) {
        std::exchange(waiting, nullptr).resume();
      }
    }

    void give_up() {
      const std::scoped_lock lock(mutex);
      waiting = nullptr;
    }

    Executor executor;
    std::mutex mutex;                 // held while the executor is told
    std::coroutine_handle<> waiting;  // null when it is gone
    std::shared_ptr<Hop> self;        // as long as a run may call it
    bool is_there = false;
    std::exception_ptr failure;  // the executor's
    static inline thread_local const Hop* leaving = nullptr;
  };

  std::shared_ptr<Hop> hop_;
  bool is_resumed_ = false;
};

// Goes on on the thread that ends the run.
template <class T>
class RunAwaiter<T, Anywhere> final : public RunAwaiterBase<T>, private Run::Observer {
 public:
  RunAwaiter(NodePtr root, Anywhere) noexcept : RunAwaiterBase<T>(std::move(root)) {}
  RunAwaiter(Run run, Anywhere) noexcept : RunAwaiterBase<T>(std::move(run)) {}
  ~RunAwaiter() {
    // A coroutine may be destroyed while it waits: nobody wants the value any more.
    if (is_waiting_ && this->run_.remove_observer(*this)) this->run_.cancel();
  }

  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> waiting) {
    const TaskContext* task = this->start(waiting);
    if (this->run_.is_over()) return false;
    const Run run = this->run_;  // this awaiter may be gone when the observer is there
    waiting_ = waiting;
    is_waiting_ = true;
    if (task && task->driver) task->driver->awaits(run);
    if (run.add_observer(*this)) return true;
    is_waiting_ = false;
    return false;
  }

 private:
  void run_over() noexcept override {
    is_waiting_ = false;
    this->run_.before_user_code();
    const UserCode scope;
    waiting_.resume();  // may end the life of this awaiter
  }

  std::coroutine_handle<> waiting_;
  bool is_waiting_ = false;
};

}  // namespace tessera::detail
