#pragma once

#include <tessera/detail/export.hpp>
#include <tessera/detail/operation_evaluator.hpp>
#include <tessera/detail/operation_node.hpp>
#include <tessera/detail/operation_task.hpp>
#include <tessera/operation.hpp>

#include <atomic>
#include <coroutine>
#include <exception>
#include <memory>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>
#include <variant>

namespace tessera {

template <class T>
class Task;

namespace detail {

// Resumes a coroutine from another one, `from`, which is suspended or has finished. Tasks may await each other to any
// depth: beyond some nesting the coroutine is resumed only after the outer ones have returned. It is never deferred
// while user code that resumed a coroutine itself, and may wait for it, is on the stack.
TESSERA_API void resume_from(std::coroutine_handle<> from, std::coroutine_handle<> coroutine);

class TaskPromiseBase;

// A task that another task awaits and owns.
class AwaitedTask {
 public:
  virtual TaskPromiseBase& promise() const noexcept = 0;
  virtual void destroy() noexcept = 0;

 protected:
  AwaitedTask() = default;
  ~AwaitedTask() = default;
};

// The part of a task's promise that does not depend on its value type.
class TaskPromiseBase {
 public:
  std::suspend_always initial_suspend() const noexcept { return {}; }
  void unhandled_exception() noexcept { failure_ = std::current_exception(); }

  // For awaited operations and commands.
  void awaits(const Ref<engine::Work>& command) const {
    if (context_ && context_->listener) context_->listener->awaits(command);
  }
  const TaskContext* task_context() const noexcept { return context_; }
  std::stop_token stop_token() const noexcept { return context_ ? context_->stop : std::stop_token(); }
  void set_context(const TaskContext* context) noexcept { context_ = context; }
  void set_continuation(std::coroutine_handle<> continuation) noexcept { continuation_ = continuation; }
  // Called by the task when it finishes and by its starter when resume() has returned. The second caller continues the
  // awaiting coroutine, so that a loop over tasks that never wait needs no stack. (Symmetric transfer guarantees that
  // in optimized builds only.)
  bool arrives_second() noexcept { return has_arrival_.exchange(true, std::memory_order_acq_rel); }
  // The task that this one awaits, or null.
  void set_awaited(AwaitedTask* awaited) noexcept {
    awaited_ = awaited;
    if (awaited) awaited->promise().awaiting_ = this;
  }
  // Destroys the tasks that this one awaits, the innermost first, without recursion. Called before this one is
  // destroyed while it is suspended.
  void destroy_awaited() noexcept {
    TaskPromiseBase* innermost = this;
    while (innermost->awaited_) innermost = &innermost->awaited_->promise();
    while (innermost != this) {
      innermost = innermost->awaiting_;
      std::exchange(innermost->awaited_, nullptr)->destroy();
    }
  }
  // Called when the task finishes, if it has no continuation.
  void set_on_finish(void (*on_finish)(void*), void* argument) noexcept {
    on_finish_ = on_finish;
    on_finish_argument_ = argument;
  }

 protected:
  struct FinalAwaiter {
    bool await_ready() const noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> finished) const noexcept {
      TaskPromiseBase& promise = finished.promise();
      if (const std::coroutine_handle<> continuation = promise.continuation_) {
        if (promise.arrives_second()) resume_from(finished, continuation);  // may destroy the frame
        return std::noop_coroutine();
      }
      if (promise.on_finish_) promise.on_finish_(promise.on_finish_argument_);  // may destroy the frame
      return std::noop_coroutine();
    }
    void await_resume() const noexcept {}
  };

  std::exception_ptr failure_;

 private:
  const TaskContext* context_ = nullptr;
  std::coroutine_handle<> continuation_;
  AwaitedTask* awaited_ = nullptr;
  TaskPromiseBase* awaiting_ = nullptr;  // the task that awaits this one
  std::atomic<bool> has_arrival_{false};
  void (*on_finish_)(void*) = nullptr;
  void* on_finish_argument_ = nullptr;
};

template <class T>
class TaskPromise final : public TaskPromiseBase {
 public:
  Task<T> get_return_object() noexcept;
  FinalAwaiter final_suspend() const noexcept { return {}; }
  template <class Value = T>
    requires std::convertible_to<Value, T>
  void return_value(Value&& value) {
    value_.emplace(std::forward<Value>(value));
  }
  T result() {
    if (failure_) std::rethrow_exception(failure_);
    return std::move(*value_);
  }

 private:
  std::optional<T> value_;
};

template <>
class TaskPromise<void> final : public TaskPromiseBase {
 public:
  Task<void> get_return_object() noexcept;
  FinalAwaiter final_suspend() const noexcept { return {}; }
  void return_void() const noexcept {}
  void result() const {
    if (failure_) std::rethrow_exception(failure_);
  }
};

}  // namespace detail

// A coroutine that awaits operations, commands and other tasks, and returns a T. It starts when it is awaited, spawned
// or passed to sync_wait, and may continue on other threads. Whatever runs the task gets its value, or the exception
// that left it. Stopping a task cancels the operation that it awaits, which then throws in the task. Destroying a task
// that is suspended destroys the coroutine. Tasks may await each other to any depth.
//
//   Task<float> first(std::shared_ptr<const Tensor<float>> x) {
//     std::vector<float> values = co_await value(x).to_host();
//     co_return values[0];
//   }
//
// g++ 12 destroys the captures of a lambda in a co_await expression twice. With such a compiler, name the operation
// first:
//
//     auto operation = value(x).map([captured](auto x) { ... });
//     co_await std::move(operation);
template <class T = void>
class [[nodiscard("a task does nothing until it is awaited, spawned or passed to sync_wait")]] Task {
 public:
  using promise_type = detail::TaskPromise<T>;
  using value_type = T;

  class Awaiter final : private detail::AwaitedTask {
   public:
    explicit Awaiter(Task awaited) noexcept : task_(std::move(awaited)) {}

    bool await_ready() const noexcept { return false; }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> waiting) noexcept {
      auto& promise = task_.coroutine_.promise();
      if constexpr (requires { waiting.promise().task_context(); }) {
        promise.set_context(waiting.promise().task_context());
      }
      if constexpr (std::is_base_of_v<detail::TaskPromiseBase, Promise>) {
        awaiting_ = &waiting.promise();
        awaiting_->set_awaited(this);
      }
      promise.set_continuation(waiting);
      detail::resume_from(waiting, task_.coroutine_);
      return !promise.arrives_second();
    }
    T await_resume() {
      if (awaiting_) awaiting_->set_awaited(nullptr);
      return task_.coroutine_.promise().result();
    }

   private:
    detail::TaskPromiseBase& promise() const noexcept override { return task_.coroutine_.promise(); }
    void destroy() noexcept override { std::exchange(task_.coroutine_, nullptr).destroy(); }

    Task task_;
    detail::TaskPromiseBase* awaiting_ = nullptr;
  };

  Task(Task&& other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      destroy();
      coroutine_ = std::exchange(other.coroutine_, nullptr);
    }
    return *this;
  }
  ~Task() { destroy(); }

  // co_await task(): runs it now, with the stop token of the awaiting task. Returns its value or throws its exception.
  Awaiter operator co_await() && {
    handle();
    return Awaiter(std::move(*this));
  }
  template <class Value = T>
  std::suspend_always operator co_await() const& {
    static_assert(detail::never<Value>, "co_await consumes the task: write co_await std::move(task)");
    return {};
  }

  // Not for user code.
  explicit Task(std::coroutine_handle<promise_type> coroutine) noexcept : coroutine_(coroutine) {}
  std::coroutine_handle<promise_type> handle() const {
    if (!coroutine_) throw Error(Errc::invalid_argument, "the task was already consumed: it can run only once");
    return coroutine_;
  }

 private:
  void destroy() noexcept {
    if (!coroutine_) return;
    coroutine_.promise().destroy_awaited();
    coroutine_.destroy();
  }

  std::coroutine_handle<promise_type> coroutine_;
};

namespace detail {

template <class T>
Task<T> TaskPromise<T>::get_return_object() noexcept {
  return Task<T>(std::coroutine_handle<TaskPromise>::from_promise(*this));
}
inline Task<void> TaskPromise<void>::get_return_object() noexcept {
  return Task<void>(std::coroutine_handle<TaskPromise>::from_promise(*this));
}

// A task as a node. It starts on a device thread.
template <class T>
class TaskNode final : public TypedNode<T>, private AwaitListener {
 public:
  explicit TaskNode(Task<T> task) : task_(std::move(task)) {}
  bool step(Evaluator& evaluator) override {
    if (is_finished_) {
      take_result();
      return true;
    }
    context_ = {stop_.get_token(), next_task_id(), this};
    auto& promise = task_.handle().promise();
    promise.set_context(&context_);
    promise.set_on_finish([](void* node) { static_cast<TaskNode*>(node)->finished(); }, this);
    evaluator.on_stop([stop = stop_]() mutable { stop.request_stop(); });  // may outlive this node
    evaluator.suspend(*this);
    outer_ = evaluator.share();
    try {
      evaluator.execute_user_code([this] { begin_task(); });
    } catch (...) {
      std::exchange(outer_, nullptr)->resume(*this, std::current_exception());
    }
    return false;
  }
  void make_repeatable() override { throw Error(Errc::unsupported, "a task cannot be retried: it runs once"); }

 private:
  void begin_task() {
    if (!stop_.stop_requested()) return task_.handle().resume();
    const std::shared_ptr<Evaluator> outer = std::move(outer_);
    try {
      throw Error(Errc::cancelled, "the task was stopped before it began");
    } catch (...) {  // or std::bad_alloc
      outer->resume(*this, std::current_exception());
    }
  }
  void awaits(const OperationRun& run) override { outer_->task_awaits(*this, run); }
  void awaits(const Ref<engine::Work>& command) override { outer_->task_awaits(*this, command); }
  void finished() {
    is_finished_ = true;
    const std::shared_ptr<Evaluator> outer = std::move(outer_);
    outer->task_awaits(*this, Ref<engine::Work>());
    outer->resume(*this);
  }
  void take_result() {
    if constexpr (std::is_void_v<T>) {
      task_.handle().promise().result();
      this->value.emplace();
    } else {
      this->value.emplace(task_.handle().promise().result());
    }
  }

  Task<T> task_;
  std::stop_source stop_;
  TaskContext context_;
  std::shared_ptr<Evaluator> outer_;
  bool is_finished_ = false;
};

}  // namespace detail

// A task as an operation, for when_all and everything else; zip and kernels take tasks directly. The task starts on a
// device thread. Its exception is the operation's failure; cancelling the operation stops the task.
//
//   auto [a, b] = zip(as_operation(load("a")), as_operation(load("b"))).sync();
template <class T>
DeviceOperation<T> as_operation(Task<T>&& task) {
  task.handle();
  return DeviceOperation<T>(detail::TypedNodePtr<T>(new detail::TaskNode<T>(std::move(task))));
}

namespace detail {

template <class T>
struct AsOperation<Task<T>> {
  using Value = Stored<T>;
  static void set(OperationArgument<Value>& argument, OperationNode& parent, Task<T>&& task) {
    AsOperation<DeviceOperation<T>>::set(argument, parent, as_operation(std::move(task)));
  }
};
template <class T>
struct AsOperation<Task<T>&> {
  using Value = Stored<T>;
  static void set(OperationArgument<Value>&, OperationNode&, Task<T>&) {
    static_assert(never<T>, "a task can be used once: pass std::move(task)");
  }
};

}  // namespace detail

// Starts a task on a device thread and returns at once. cancel() and the stop token stop the task: the operation that
// it awaits is cancelled, and throws in the task.
template <class T>
Spawned<T> spawn(Task<T>&& task, std::stop_token stop = {}) {
  return as_operation(std::move(task)).spawn(std::move(stop));
}

// Runs a task, on this thread until it first suspends, and blocks until it finishes. Returns its value or throws its
// exception. The stop token stops the task: the operation that it awaits is cancelled, and throws in the task.
//
//   float x = sync_wait(first(tensor));
template <class T>
T sync_wait(Task<T>&& given, std::stop_token stop = {}) {
  given.handle();
  const Task<T> task = std::move(given);
  detail::TaskWaiter waiter;
  const detail::TaskContext context{std::move(stop), detail::next_task_id(), &waiter};
  auto& promise = task.handle().promise();
  promise.set_context(&context);
  promise.set_on_finish([](void* with) { static_cast<detail::TaskWaiter*>(with)->finish(); }, &waiter);
  task.handle().resume();
  waiter.wait();
  return promise.result();
}
// The same for an operation.
template <class T>
T sync_wait(DeviceOperation<T>&& operation, std::stop_token stop = {}) {
  if (!stop.stop_possible()) return std::move(operation).sync();
  return std::move(operation).spawn(std::move(stop)).wait();
}

template <class T>
DeviceOperation<T> as_operation(Task<T>&) {
  static_assert(detail::never<T>, "as_operation() consumes the task: write as_operation(std::move(task))");
}
template <class T>
Spawned<T> spawn(Task<T>&, const std::stop_token& = {}) {
  static_assert(detail::never<T>, "spawn() consumes the task: write spawn(std::move(task))");
}
template <class T>
T sync_wait(Task<T>&, const std::stop_token& = {}) {
  static_assert(detail::never<T>, "sync_wait() consumes the task: write sync_wait(std::move(task))");
}
template <class T>
T sync_wait(DeviceOperation<T>&, const std::stop_token& = {}) {
  static_assert(detail::never<T>, "sync_wait() consumes the operation: write sync_wait(std::move(operation))");
}

}  // namespace tessera
