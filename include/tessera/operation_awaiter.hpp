#pragma once

#include <tessera/operation_node.hpp>

#include <concepts>
#include <coroutine>
#include <memory>
#include <mutex>
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
template <class E, class F = void (*)()>
concept Executor = HasExecute<E, F> || HasPost<E, F> || HasPostWith<E, F> || std::invocable<E&, F>;

template <class E, class F>
void execute_on(E& executor, F function) {
  if constexpr (HasExecute<E, F>) {
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
  explicit RunAwaiterBase(NodePtr root) noexcept : root_(std::move(root)) {}
  explicit RunAwaiterBase(Run run) noexcept : run_(std::move(run)) {}
  ~RunAwaiterBase() = default;

  // Gives the task that awaits it, if it is one.
  template <class Promise>
  const TaskContext* start(std::coroutine_handle<Promise> waiting) {
    const TaskContext* task = nullptr;
    if constexpr (requires { waiting.promise().task_context(); }) task = waiting.promise().task_context();
    if (root_) {
      RunOptions options;
      options.task = task;
      if (task) options.stop = task->stop;
      run_ = Run::start(std::move(root_), std::move(options));
    }
    return task;
  }

  NodePtr root_;
  Run run_;
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
      go();
    }
    // Of a coroutine that is about to be suspended. False if the executor called back at once: it just goes on then,
    // so that many of these in a loop need no stack.
    bool leave() {
      struct Leaving {
        const Hop* outer;
        ~Leaving() { leaving = outer; }
      } const restore{std::exchange(leaving, this)};
      go();
      return !is_there;
    }
    void go() {
      const std::scoped_lock lock(mutex);
      if (!waiting) return;
      Executor there = executor;
      execute_on(there, [hop = this->shared_from_this()] { hop->arrive(); });
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
