#pragma once

#include <tessera/detail/export.hpp>
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

// Resumes a coroutine from another one, `from`, that is suspended or ended then. Tasks may await each other as deep as
// there is memory: beyond some nesting the coroutine is put off until those around it have returned. It never is while
// code of the program's runs that has resumed a coroutine by itself and may wait for it.
TESSERA_API void resume_from(std::coroutine_handle<> from, std::coroutine_handle<> coroutine);

class TaskPromiseBase;

// A task that another one awaits, and keeps.
class AwaitedTask {
 public:
  virtual TaskPromiseBase& promise() const noexcept = 0;
  virtual void destroy() noexcept = 0;

 protected:
  AwaitedTask() = default;
  ~AwaitedTask() = default;
};

// The half of a task's promise that does not know its value.
class TaskPromiseBase {
 public:
  std::suspend_always initial_suspend() const noexcept { return {}; }
  void unhandled_exception() noexcept { failure_ = std::current_exception(); }

  // What awaited operations and commands look at.
  void awaits(const Ref<engine::Work>& command) const {
    if (context_ && context_->driver) context_->driver->awaits(command);
  }
  const TaskContext* task_context() const noexcept { return context_; }
  std::stop_token stop_token() const noexcept { return context_ ? context_->stop : std::stop_token(); }
  void set_context(const TaskContext* context) noexcept { context_ = context; }
  void set_continuation(std::coroutine_handle<> continuation) noexcept { continuation_ = continuation; }
  // Called by the task at its end and by whoever has started it. The second of them lets the one that awaits go on, so
  // that a loop over tasks that never wait needs no stack. (Symmetric transfer promises that in optimized builds only.)
  bool comes_second() noexcept { return is_met_.exchange(true, std::memory_order_acq_rel); }
  // The task that this one awaits, or none.
  void set_awaited(AwaitedTask* awaited) noexcept {
    awaited_ = awaited;
    if (awaited) awaited->promise().awaiting_ = this;
  }
  // Before this one is destroyed where it waits: destroys what it awaits, the innermost first, without recursion.
  void destroy_awaited() noexcept {
    TaskPromiseBase* innermost = this;
    while (innermost->awaited_) innermost = &innermost->awaited_->promise();
    while (innermost != this) {
      innermost = innermost->awaiting_;
      std::exchange(innermost->awaited_, nullptr)->destroy();
    }
  }
  // Called at the end instead of a continuation.
  void set_at_end(void (*at_end)(void*), void* with) noexcept {
    at_end_ = at_end;
    with_ = with;
  }

 protected:
  struct FinalAwaiter {
    bool await_ready() const noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> ended) const noexcept {
      TaskPromiseBase& promise = ended.promise();
      if (const std::coroutine_handle<> continuation = promise.continuation_) {
        if (promise.comes_second()) resume_from(ended, continuation);  // the frame may be gone now
        return std::noop_coroutine();
      }
      if (promise.at_end_) promise.at_end_(promise.with_);  // the frame may be gone now
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
  std::atomic<bool> is_met_{false};
  void (*at_end_)(void*) = nullptr;
  void* with_ = nullptr;
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

// A coroutine that awaits operations, commands and other tasks. It begins when it is awaited, spawned or waited for
// with sync_wait, and may go on on other threads than it began on. Destroying one that has begun and has not ended
// destroys the coroutine where it waits. Tasks may await each other as deep as there is memory.
//
//   Task<float> first(std::shared_ptr<const Tensor<float>> x) {
//     std::vector<float> values = co_await value(x).to_host();
//     co_return values[0];
//   }
//
// g++ 12 destroys what a lambda has captured twice if the lambda stands in a co_await expression. With such a compiler
// make the operation first:
//
//     auto operation = value(x).map([kept](…) { … });
//     co_await std::move(operation);
template <class T = void>
class [[nodiscard("a task does nothing until it is awaited, spawned or waited for")]] Task {
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
      return !promise.comes_second();
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

  // co_await task(): runs it now, with the stop token and the stream of the task that awaits it.
  Awaiter operator co_await() && {
    handle();
    return Awaiter(std::move(*this));
  }
  template <class Value = T>
  std::suspend_always operator co_await() const& {
    static_assert(detail::never<Value>, "a task runs once: write co_await std::move(task)");
    return {};
  }

  // For the library.
  explicit Task(std::coroutine_handle<promise_type> coroutine) noexcept : coroutine_(coroutine) {}
  std::coroutine_handle<promise_type> handle() const {
    if (!coroutine_) throw Error(Errc::invalid_argument, "the task has been used already: it runs once");
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

// A task as a node: runs on a thread of the device's.
template <class T>
class TaskNode final : public TypedNode<T>, private TaskDriver {
 public:
  explicit TaskNode(Task<T> task) : task_(std::move(task)) {}
  bool step(Evaluation& evaluation) override {
    if (is_over_) {
      take_result();
      return true;
    }
    outer_ = evaluation.share();
    context_ = {stop_.get_token(), next_task_id(), this};
    auto& promise = task_.handle().promise();
    promise.set_context(&context_);
    promise.set_at_end([](void* node) { static_cast<TaskNode*>(node)->ended(); }, this);
    evaluation.on_stop([stop = stop_]() mutable { stop.request_stop(); });  // this node may be gone by then
    evaluation.hold(*this);
    evaluation.execute([this] { begin_task(); });
    return false;
  }
  void keep() override { throw Error(Errc::unsupported, "a task cannot be retried: it runs once"); }

 private:
  // If it still is to be done.
  void begin_task() {
    if (!stop_.stop_requested()) return task_.handle().resume();
    const std::shared_ptr<Evaluation> outer = std::move(outer_);
    outer->wake(*this, std::make_exception_ptr(Error(Errc::cancelled, "the task was stopped before it began")));
  }
  void awaits(const Run& run) override { outer_->task_awaits(*this, run); }
  void awaits(const Ref<engine::Work>& command) override { outer_->task_awaits(*this, command); }
  void ended() {
    is_over_ = true;
    const std::shared_ptr<Evaluation> outer = std::move(outer_);
    outer->task_awaits(*this, Ref<engine::Work>());
    outer->wake(*this);
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
  std::shared_ptr<Evaluation> outer_;
  bool is_over_ = false;
};

}  // namespace detail

// A task as an operation, for when_all and all else; zip and kernels take tasks as they are. It begins on a thread of
// the device's.
template <class T>
DeviceOperation<T> as_operation(Task<T>&& task) {
  task.handle();
  return DeviceOperation<T>(detail::TypedNodePtr<T>(new detail::TaskNode<T>(std::move(task))));
}

namespace detail {

template <class T>
struct AsOperation<Task<T>> {
  using Value = Stored<T>;
  static void set(Item<Value>& item, OperationNode& parent, Task<T>&& task) {
    AsOperation<DeviceOperation<T>>::set(item, parent, as_operation(std::move(task)));
  }
};
template <class T>
struct AsOperation<Task<T>&> {
  using Value = Stored<T>;
  static void set(Item<Value>&, OperationNode&, Task<T>&) {
    static_assert(never<T>, "a task runs once: write std::move(task)");
  }
};

}  // namespace detail

// Starts a task on a thread of the device's and returns at once. cancel(), or the stop token, cancels the operation
// that it awaits, which then throws in the task.
template <class T>
Spawned<T> spawn(Task<T>&& task, std::stop_token stop = {}) {
  return as_operation(std::move(task)).spawn(std::move(stop));
}

// Runs a task, on this thread until it first waits, and blocks until it is over; gives its value, throws what it threw.
// The stop token cancels the operation that the task awaits.
template <class T>
T sync_wait(Task<T>&& given, std::stop_token stop = {}) {
  given.handle();
  const Task<T> task = std::move(given);
  detail::SyncDriver driver;
  const detail::TaskContext context{std::move(stop), detail::next_task_id(), &driver};
  auto& promise = task.handle().promise();
  promise.set_context(&context);
  promise.set_at_end([](void* with) { static_cast<detail::SyncDriver*>(with)->finish(); }, &driver);
  task.handle().resume();
  driver.wait();
  return promise.result();
}
// An operation may be waited for too.
template <class T>
T sync_wait(DeviceOperation<T>&& operation, std::stop_token stop = {}) {
  if (!stop.stop_possible()) return std::move(operation).sync();
  return std::move(operation).spawn(std::move(stop)).wait();
}

template <class T>
DeviceOperation<T> as_operation(Task<T>&) {
  static_assert(detail::never<T>, "a task runs once: write as_operation(std::move(task))");
}
template <class T>
Spawned<T> spawn(Task<T>&, const std::stop_token& = {}) {
  static_assert(detail::never<T>, "a task runs once: write spawn(std::move(task))");
}
template <class T>
T sync_wait(Task<T>&, const std::stop_token& = {}) {
  static_assert(detail::never<T>, "a task runs once: write sync_wait(std::move(task))");
}
template <class T>
T sync_wait(DeviceOperation<T>&, const std::stop_token& = {}) {
  static_assert(detail::never<T>, "an operation is used up: write sync_wait(std::move(operation))");
}

}  // namespace tessera
