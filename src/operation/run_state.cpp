#include "operation/run_state.hpp"

#include <tessera/error.hpp>

#include "core/per_thread.hpp"
#include "engine/stream_state.hpp"

#include <array>
#include <string>
#include <utility>

namespace tessera::detail::operation {

Ref<engine::DeviceState> device_for(const OperationNode& root, const RunOptions& options) {
  if (options.stream) return Access::get(options.stream)->device;
  if (root.device()) return Ref<engine::DeviceState>(root.device());
  return Ref<engine::DeviceState>(Access::get(Device::best()));
}

// Runs are many and short: each thread reuses the last ones, with the memory they have allocated.
struct RunState::FreeList {
  std::array<std::unique_ptr<RunState>, 8> runs;
  std::size_t count = 0;
};

std::shared_ptr<RunState> RunState::create(NodePtr&& root, RunOptions&& options) {
  Ref<engine::DeviceState> device = device_for(*root, options);
  FreeList* free = core::PerThread<FreeList>::here();
  RunState* reused = free && free->count > 0 ? free->runs[--free->count].release() : nullptr;
  const std::shared_ptr<RunState> state(reused ? reused : new RunState(), [](RunState* finished) {
    finished->tell_unseen_failure();
    finished->reset();
    FreeList* list = core::PerThread<FreeList>::here();
    if (list && list->count < list->runs.size()) {
      list->runs[list->count++].reset(finished);
    } else {
      delete finished;
    }
  });
  state->root_ = std::move(root);
  state->options_ = std::move(options);
  state->device_ = std::move(device);
  return state;
}

// The run was dropped without a look at how it ended.
void RunState::tell_unseen_failure() noexcept {
  if (!outcome_.failure || outcome_.is_seen.load(std::memory_order_relaxed)) return;
  const Error error = error_of(outcome_.failure);
  device_->unseen_failures.add(core::describe_failure(error.code(), [&] { return std::string(error.what()); }));
}

// Everything else is in its initial state when a run has finished.
void RunState::reset() noexcept {
  root_ = nullptr;
  recorder_.close();
  options_ = {};
  device_ = {};
  pressure_.reset();
  watched_commands_ = 0;
  last_command_ = 0;
  outcome_.reset();
  events_.reset();
  inner_.reset();
  awaits_.reset();
  sources_.reset();
  stop_.reset();
}

void RunState::start() noexcept {
  try {
    if (!options_.stream) options_.stream = stream_for(*device_, options_);
    recorder_.open(*device_, options_.stream, std::shared_ptr<CallRecorder>(shared_from_this(), &recorder_));
    stack_.push_begin(*root_);
    if (options_.stop.stop_requested()) {
      throw Error(Errc::cancelled, "the operation was stopped before it started");
    }
    if (options_.stop.stop_possible()) {
      stop_.token_callback.emplace(options_.stop, [this] { cancel(Errc::cancelled, "the operation was stopped"); });
    }
  } catch (...) {
    fail(std::current_exception());
  }
  pump(true);
}

void RunState::adopt(const Ref<engine::Work>& command, std::exception_ptr why) noexcept {
  outcome_.has_value = !why;
  if (why) fail(std::move(why));
  if (command) watch(command);
  pump(true);
}

void RunState::post(RunEvent event) noexcept {
  {
    const std::scoped_lock lock(mutex_);
    if (!events_.post(std::move(event))) return;
  }
  pump(false);
}

void RunState::pump_now(bool is_caller) noexcept {
  const std::shared_ptr<RunState> self = shared_from_this();
  std::vector<OperationNode*> host_functions;
  while (true) {
    step_all();
    std::unique_lock lock(mutex_);
    if (stop_.cause && !outcome_.failure) {
      const bool keeps_values = stop_.keeps_values;
      lock.unlock();
      if (keeps_values) recorder_.flush();
      fail(stop_.cause);
      continue;
    }
    if (!events_.empty()) {
      if (events_.take_all()) pressure_.has_timer = false;
      lock.unlock();
      pressure_.is_starved = false;
      for (RunEvent& event : events_.taken()) handle(event);
      continue;
    }
    if (try_finish(lock)) return;
    waiting_.swap_host_ready(host_functions);
    events_.stop_pumping();
    lock.unlock();
    OperationNode* own = start_host_functions(host_functions, is_caller);
    host_functions.clear();
    if (!own) return;
    RunEvent event = call_host_function(*own);
    lock.lock();
    if (!events_.post(std::move(event))) return;
  }
}

// Begins and steps nodes until there is nothing left to do without waiting, and submits what they recorded.
void RunState::step_all() noexcept {
  while (!stack_.empty() && !outcome_.failure && !pressure_.is_starved) {
    const EvaluationStack::Entry next = stack_.pop();
    step(*next.node, next.is_begin);
  }
  try {
    flush();
  } catch (...) {
    fail(std::current_exception());
    flush();  // drops everything, which cannot fail
  }
}

void RunState::step(OperationNode& node, bool is_begin) noexcept {
  try {
    bool has_value = false;
    if (is_begin) {
      node.begin(*this);
    } else {
      has_value = EvaluationStack::step_leaves(node, *this) && node.step(*this);
    }
    if (pressure_.is_starved && !outcome_.failure) {
      is_begin ? stack_.push_begin(node) : stack_.push_step(node);
    }
    if (!has_value) return;
    if (&node == root_.get()) {
      outcome_.has_value = true;
    } else {
      stack_.child_done(node);
    }
  } catch (...) {
    fail(std::current_exception());
  }
}

// `order`: the number of the command that failed; 0 for anything else, which comes after all commands so far.
void RunState::fail(std::exception_ptr why, std::uint64_t order) noexcept {
  if (!outcome_.fail(std::move(why), order == 0 ? last_command_ + 1 : order)) return;
  stop_.is_stopping.store(true, std::memory_order_release);
  stack_.clear();
  waiting_.drop_unstarted();
  pressure_.is_starved = false;
  cancel_inner(Errc::cancelled, "the operation that contains this one has failed");
}

void RunState::handle(RunEvent& event) noexcept {
  try {
    if (event.node) {
      waiting_.resume(event.is_host_function);
      if (event.failure) return fail(std::move(event.failure));
      if (!outcome_.failure) stack_.push_step(*event.node);
      return;
    }
    CommandsInFlight::Command finished{};
    {
      const std::scoped_lock lock(mutex_);
      finished = commands_.remove(event.command);
    }
    changed_.notify_all();
    if (!finished.is_foreign) fail_with(*finished.work, finished.number);
    unpark();
  } catch (...) {
    fail(std::current_exception());
  }
}

// Called before something is waited for that will post an event: posting cannot fail then.
void RunState::make_room_for_event() {
  const std::size_t count = commands_.size() + waiting_.size() + 1;
  if (events_.has_room_for(count)) return;
  const std::scoped_lock lock(mutex_);
  events_.make_room_for(count);
}

// Under the lock, which is released if the run has finished.
bool RunState::try_finish(std::unique_lock<std::mutex>& lock) noexcept {
  if (!commands_.empty() || !waiting_.empty() || !outcome_.is_decided()) return false;
  const bool is_usable = !outcome_.failure || (stop_.keeps_values && outcome_.failure == stop_.cause);
  lock.unlock();
  stop_.token_callback.reset();  // waits for a cancel() that is running
  for (const std::weak_ptr<UnzipSource>& one : sources_.produced) {
    if (const std::shared_ptr<UnzipSource> source = one.lock()) source->finish(outcome_.failure, is_usable);
  }
  lock.lock();
  RunObserver* const observers = outcome_.take_observers();
  const std::optional<engine::Timer::Key> deadline = std::exchange(stop_.deadline, std::nullopt);
  outcome_.is_finished.store(true, std::memory_order_release);
  lock.unlock();
  if (deadline) engine::Timer::instance().remove(*deadline);
  changed_.notify_all();
  RunOutcome::notify(observers);
  return true;
}

bool RunState::add_observer(RunObserver& observer) noexcept {
  const std::scoped_lock lock(mutex_);
  if (is_finished()) return false;
  outcome_.add_observer(observer);
  return true;
}

bool RunState::remove_observer(RunObserver& observer) noexcept {
  const std::scoped_lock lock(mutex_);
  return outcome_.remove_observer(observer);
}

}  // namespace tessera::detail::operation
