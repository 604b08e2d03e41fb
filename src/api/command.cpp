#include <tessera/command.hpp>

#include "core/text.hpp"
#include "engine/device_state.hpp"
#include "engine/execution.hpp"
#include "engine/observe/nested_callbacks.hpp"
#include "engine/self_wait.hpp"

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace tessera {

namespace engine = detail::engine;
using detail::Access;
using detail::Ref;
using engine::DeviceState;
using engine::Work;

std::string_view to_string(Status status) noexcept {
  switch (status) {
    case Status::pending:
      return "pending";
    case Status::running:
      return "running";
    case Status::completed:
      return "completed";
    case Status::failed:
      return "failed";
    case Status::cancelled:
      return "cancelled";
  }
  return "unknown";
}

namespace {

void expect_own_process(const Work& work) {
  if (!work.pool->is_own_process()) [[unlikely]]
    engine::throw_other_process("the command");
}

Work& work_of(const Ref<Work>& work, std::string_view call) {
  if (!work) throw Error(Errc::invalid_argument, core::text("[", call, "] on an empty command handle"));
  expect_own_process(*work);
  return *work;
}

// The callback of on_complete: deletes itself when it has been called.
class Callback final : public detail::Observer {
 public:
  // Counted by the device until it has returned. No device: the command has finished on the submitting thread.
  Callback(std::function<void(const Command&)> function, Ref<DeviceState> device)
      : function_(std::move(function)),
        device_(std::move(device)),
        generation_(device_ ? device_->callbacks.begin() : 0) {}
  ~Callback() {
    if (device_) device_->callbacks.end(generation_);
  }
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;

  void command_finished(Work& work) noexcept override {
    const std::unique_ptr<Callback> self(this);
    if (device_) device_->scheduler->before_user_code();
    call(function_, work);
    function_ = nullptr;  // destroy its captures before it counts as returned
  }
  static void call(const std::function<void(const Command&)>& function, Work& work) noexcept {
    try {
      function(Access::make<Command>(Ref<Work>(&work)));
    } catch (...) {
      engine::callback_failed(work.device_number, std::current_exception());
    }
  }

 private:
  std::function<void(const Command&)> function_;
  const Ref<DeviceState> device_;
  const unsigned generation_;
};

}  // namespace

namespace detail {

bool CommandAwaiter::await_ready() const { return work_of(work_, "co_await").is_settled(); }

bool CommandAwaiter::suspend(std::coroutine_handle<> waiting) noexcept {
  waiting_ = waiting;
  is_met_.store(true, std::memory_order_relaxed);
  if (work_->add_observer(*this)) return true;  // this awaiter may be gone already
  waiting_ = nullptr;
  return false;
}

bool CommandAwaiter::suspend(std::coroutine_handle<> waiting, std::stop_token token) {
  on_stop_.emplace(std::move(token), Stop{this});
  waiting_ = waiting;
  bool is_waiting = work_->add_observer(*this);
  if (is_waiting && is_stop_asked_ && work_->remove_observer(*this)) {
    is_stopped_ = true;
    is_waiting = false;
  }
  // From here on this awaiter may be gone, if the coroutine is left waiting.
  if (is_waiting && !is_met_.exchange(true, std::memory_order_acq_rel)) return true;
  waiting_ = nullptr;
  return false;
}

CommandAwaiter::~CommandAwaiter() {
  on_stop_.reset();
  if (waiting_) work_->remove_observer(*this);
}

void CommandAwaiter::await_resume() const {
  if (is_stopped_) throw Error(Errc::cancelled, "the task was stopped while it waited for a command");
  throw_if_failed(*work_);
}

void CommandAwaiter::command_finished(Work&) noexcept { resume(); }

// The command continues: others may wait for it.
void CommandAwaiter::stop() noexcept {
  is_stop_asked_ = true;
  if (!work_->remove_observer(*this)) return;
  is_stopped_ = true;
  resume();
}

void CommandAwaiter::resume() noexcept {
  if (!is_met_.exchange(true, std::memory_order_acq_rel)) return;
  work_->device->scheduler->before_user_code();
  std::exchange(waiting_, nullptr).resume();  // may destroy this awaiter
}

}  // namespace detail

CommandId Command::id() const {
  if (!ref_) throw Error(Errc::invalid_argument, "[id] on an empty command handle");
  return ref_->id;
}

Status Command::poll() const {
  Work& work = work_of(ref_, "poll");
  if (!work.is_settled()) work.device->scheduler->polled();
  const Status status = work.status();
  if (status == Status::failed) core::set_seen(*work.failure);
  return status;
}

// A small command has finished by now: the calls below would be 6 % of it.
void Command::wait() const {
  Work& work = work_of(ref_, "wait");
  if (!work.is_settled()) [[unlikely]]
    engine::wait(work, engine::Clock::time_point::max());
  if (work.failure) [[unlikely]]
    engine::throw_if_failed(work);
}

bool Command::wait_seconds(std::chrono::duration<double> timeout) const {
  Work& work = work_of(ref_, "wait");
  constexpr std::chrono::duration<double> forever = std::chrono::hours(24 * 365 * 100);
  auto until = engine::Clock::time_point::max();
  if (timeout < forever) {
    const auto rest = std::max(timeout, std::chrono::duration<double>::zero());
    until = engine::Clock::now() + std::chrono::ceil<engine::Clock::duration>(rest);
  }
  if (!engine::wait(work, until)) return false;
  engine::throw_if_failed(work);
  return true;
}

bool Command::cancel() const {
  Work& work = work_of(ref_, "cancel");
  if (engine::cancel(work, Errc::cancelled, "was cancelled")) return true;
  engine::ask_to_stop(work);
  return false;
}

void Command::on_complete(std::function<void(const Command&)> callback) const {
  Work& work = work_of(ref_, "on_complete");
  if (!callback) throw Error(Errc::invalid_argument, "[on_complete] got an empty function");
  if (work.is_settled() && engine::can_call_observers()) {
    const engine::ObserverScope scope;
    return Callback::call(callback, work);
  }
  auto observer = std::make_unique<Callback>(std::move(callback), work.device);
  if (!work.add_observer(*observer)) work.call_or_defer(*observer);
  [[maybe_unused]] const Callback* deletes_itself = observer.release();  // when it has been called
}

std::optional<Error> Command::error() const {
  const Work& work = work_of(ref_, "error");
  if (!is_terminal(work.status()) || !work.failure) return std::nullopt;
  core::set_seen(*work.failure);
  return Error(work.failure);
}

void wait_all(const CommandList& commands) {
  for (std::size_t i = 0; i < commands.size(); ++i) {
    if (!commands[i]) throw Error(Errc::invalid_argument, core::text("[wait_all] command ", i, " is an empty handle"));
    expect_own_process(*Access::get(commands[i]));
  }
  for (std::size_t i = 0; i < commands.size(); ++i)
    engine::wait(*Access::get(commands[i]), engine::Clock::time_point::max());
  for (std::size_t i = 0; i < commands.size(); ++i) {
    const core::FailurePtr& failure = Access::get(commands[i])->failure;
    if (failure) core::set_seen(*failure);
  }
  for (std::size_t i = 0; i < commands.size(); ++i) engine::throw_if_failed(*Access::get(commands[i]));
}

namespace {

// Wakes a thread that waits for any of several commands. Each command has one of these, which lives until it is removed
// or called.
class AnyFinished final : public detail::Observer {
 public:
  struct Signal {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_set = false;
  };
  explicit AnyFinished(std::shared_ptr<Signal> signal) : signal_(std::move(signal)) {}

  void command_finished(Work&) noexcept override {
    const std::unique_ptr<AnyFinished> self(this);
    {
      const std::scoped_lock lock(signal_->mutex);
      signal_->is_set = true;
    }
    signal_->changed.notify_one();
  }

 private:
  std::shared_ptr<Signal> signal_;
};

std::size_t first_settled(const CommandList& commands) {
  std::size_t index = 0;
  while (index < commands.size() && !Access::get(commands[index])->is_settled()) ++index;
  return index;
}

}  // namespace

std::size_t wait_any(const CommandList& commands) {
  if (commands.empty()) throw Error(Errc::invalid_argument, "[wait_any] got no commands");
  for (std::size_t i = 0; i < commands.size(); ++i) {
    if (!commands[i]) throw Error(Errc::invalid_argument, core::text("[wait_any] command ", i, " is an empty handle"));
    expect_own_process(*Access::get(commands[i]));
  }
  if (const std::size_t index = first_settled(commands); index != commands.size()) return index;

  std::size_t stuck = 0;
  while (stuck < commands.size() && engine::waits_for_self(*Access::get(commands[stuck]))) ++stuck;
  if (stuck == commands.size()) engine::expect_no_self_wait(*Access::get(commands[0]));

  const auto signal = std::make_shared<AnyFinished::Signal>();
  std::vector<AnyFinished*> observers(commands.size(), nullptr);
  bool is_settled = false;
  for (std::size_t i = 0; i < commands.size() && !is_settled; ++i) {
    auto observer = std::make_unique<AnyFinished>(signal);
    is_settled = !Access::get(commands[i])->add_observer(*observer);
    if (!is_settled) observers[i] = observer.release();
  }
  const engine::BlockingScope blocking;
  std::unique_lock lock(signal->mutex);
  while (!is_settled && !signal->is_set) {
    bool must_help = false;
    lock.unlock();
    for (std::size_t i = 0; i < commands.size(); ++i) {
      engine::Scheduler& scheduler = *Access::get(commands[i])->device->scheduler;
      must_help = must_help || scheduler.must_help();
      if (scheduler.must_help() && scheduler.run_one()) break;
    }
    lock.lock();
    const auto is_set = [&] { return signal->is_set; };
    if (must_help) {
      signal->changed.wait_for(lock, std::chrono::microseconds(50), is_set);
    } else {
      signal->changed.wait(lock, is_set);
    }
  }
  lock.unlock();
  for (std::size_t i = 0; i < commands.size(); ++i) {
    if (observers[i] && Access::get(commands[i])->remove_observer(*observers[i])) delete observers[i];
  }
  return first_settled(commands);
}

}  // namespace tessera
