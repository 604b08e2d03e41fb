#include <tessera/command.hpp>

#include "core/text.hpp"
#include "engine/device_state.hpp"
#include "engine/execution.hpp"

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

Work& work_of(const Ref<Work>& work, std::string_view call) {
  if (!work) throw Error(Errc::invalid_argument, core::text("[", call, "] on an empty command handle"));
  return *work;
}

// The callback of on_complete: deletes itself when it has been called.
class Callback final : public detail::Observer {
 public:
  // Counted by the device until it has returned.
  Callback(std::function<void(const Command&)> function, DeviceState& device)
      : function_(std::move(function)), device_(&device), generation_(device.callbacks.begin()) {}
  ~Callback() { device_->callbacks.end(generation_); }
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;

  void command_finished(Work& work) noexcept override {
    const std::unique_ptr<Callback> self(this);
    work.device->scheduler->before_user_code();
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
  std::function<void(const Command&)> take() noexcept { return std::move(function_); }

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

CommandId Command::id() const { return work_of(ref_, "id").id; }

Status Command::poll() const {
  Work& work = work_of(ref_, "poll");
  if (!work.is_settled()) work.device->scheduler->polled();
  return work.status();
}

void Command::wait() const { wait_seconds(std::chrono::duration<double>::max()); }

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
  if (!work.is_settled()) {
    auto observer = std::make_unique<Callback>(std::move(callback), *work.device);
    if (work.add_observer(*observer)) {
      [[maybe_unused]] const Callback* deletes_itself = observer.release();  // when the command has finished
      return;
    }
    callback = observer->take();
  }
  Callback::call(callback, work);
}

std::optional<Error> Command::error() const {
  const Work& work = work_of(ref_, "error");
  if (!is_terminal(work.status()) || !work.failure) return std::nullopt;
  return Error(work.failure);
}

void wait_all(const CommandList& commands) {
  for (std::size_t i = 0; i < commands.size(); ++i) {
    if (!commands[i]) throw Error(Errc::invalid_argument, core::text("[wait_all] command ", i, " is an empty handle"));
  }
  for (std::size_t i = 0; i < commands.size(); ++i)
    engine::wait(*Access::get(commands[i]), engine::Clock::time_point::max());
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
  }
  if (const std::size_t index = first_settled(commands); index != commands.size()) return index;

  const auto signal = std::make_shared<AnyFinished::Signal>();
  std::vector<AnyFinished*> observers(commands.size(), nullptr);
  bool is_settled = false;
  for (std::size_t i = 0; i < commands.size() && !is_settled; ++i) {
    auto observer = std::make_unique<AnyFinished>(signal);
    is_settled = !Access::get(commands[i])->add_observer(*observer);
    if (!is_settled) observers[i] = observer.release();
  }
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
