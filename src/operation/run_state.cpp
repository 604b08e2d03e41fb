#include "operation/run_state.hpp"

#include <tessera/error.hpp>

#include "engine/stream_state.hpp"

#include <utility>

namespace tessera::detail::operation {

Ref<engine::DeviceState> device_for(const OperationNode& root, const RunOptions& options) {
  if (options.stream) return Access::get(options.stream)->device;
  if (root.device()) return Ref<engine::DeviceState>(root.device());
  return Ref<engine::DeviceState>(Access::get(Device::best()));
}

// Runs are many and short: each thread reuses the last ones, with the memory they have allocated.
struct RunState::FreeList {
  static constexpr std::size_t max_runs = 8;
  std::vector<std::unique_ptr<RunState>> runs;
  FreeList() { here = this; }
  ~FreeList() { here = nullptr; }
  static inline thread_local FreeList* here = nullptr;  // null when the thread exits
};

std::shared_ptr<RunState> RunState::create(NodePtr root, RunOptions options) {
  thread_local FreeList free;
  std::unique_ptr<RunState> state;
  if (FreeList::here && !free.runs.empty()) {
    state = std::move(free.runs.back());
    free.runs.pop_back();
  } else {
    state.reset(new RunState());
  }
  state->root_ = std::move(root);
  state->options_ = std::move(options);
  state->device_ = device_for(*state->root_, state->options_);
  return {state.release(), [](RunState* finished) {
            finished->tell_unseen_failure();
            finished->reset();
            if (FreeList::here && FreeList::here->runs.size() < FreeList::max_runs) {
              FreeList::here->runs.emplace_back(finished);
            } else {
              delete finished;
            }
          }};
}

// The run was dropped without a look at how it ended.
void RunState::tell_unseen_failure() noexcept {
  if (!outcome_.failure || outcome_.is_seen.load(std::memory_order_relaxed)) return;
  const Error error = error_of(outcome_.failure);
  device_->unseen_failures.add(core::make_failure(error.code(), error.what()));
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

void RunState::start() {
  if (!options_.stream) options_.stream = stream_for(*device_, options_);
  recorder_.open(*device_, options_.stream, std::shared_ptr<CallRecorder>(shared_from_this(), &recorder_));
  if (options_.stop.stop_possible()) {
    if (options_.stop.stop_requested()) {
      stop_.cause = std::make_exception_ptr(Error(Errc::cancelled, "the operation was stopped before it started"));
    } else {
      stop_.token_callback.emplace(options_.stop, [this] { cancel(Errc::cancelled, "the operation was stopped"); });
    }
  }
  stack_.push_begin(*root_);
  pump(true);
}

void RunState::adopt(const Ref<engine::Work>& command, std::exception_ptr why) {
  outcome_.has_value = !why;
  if (why) fail(std::move(why));
  if (command) watch(command, false);
  pump(true);
}

void RunState::post(RunEvent event) {
  {
    const std::scoped_lock lock(mutex_);
    if (!events_.post(std::move(event))) return;
  }
  pump(false);
}

void RunState::pump_now(bool is_caller) {
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
      std::vector<RunEvent> events = events_.take_all();
      lock.unlock();
      pressure_.is_starved = false;
      for (RunEvent& event : events) handle(event);
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
void RunState::step_all() {
  while (!stack_.empty() && !outcome_.failure && !pressure_.is_starved) {
    const EvaluationStack::Entry next = stack_.pop();
    step(*next.node, next.is_begin);
  }
  flush();
}

void RunState::step(OperationNode& node, bool is_begin) {
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
  } catch (...) {
    return fail(std::current_exception());
  }
  if (&node == root_.get()) {
    outcome_.has_value = true;
  } else {
    stack_.child_done(node);
  }
}

// `order`: the number of the command that failed; 0 for anything else, which comes after all commands so far.
void RunState::fail(std::exception_ptr why, std::uint64_t order) {
  if (!outcome_.fail(std::move(why), order == 0 ? last_command_ + 1 : order)) return;
  stop_.is_stopping.store(true, std::memory_order_release);
  stack_.clear();
  waiting_.drop_unstarted();
  pressure_.is_starved = false;
  cancel_inner(Errc::cancelled, "the operation that contains this one has failed");
}

void RunState::handle(RunEvent& event) {
  if (event.node) {
    waiting_.resume(event.is_host_function);
    if (event.failure) return fail(std::move(event.failure));
    if (!outcome_.failure) stack_.push_step(*event.node);
    return;
  }
  if (event.command == 0) {
    pressure_.has_timer = false;
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
}

// Under the lock, which is released if the run has finished.
bool RunState::try_finish(std::unique_lock<std::mutex>& lock) {
  if (!commands_.empty() || !waiting_.empty() || !outcome_.is_decided()) return false;
  const bool is_usable = !outcome_.failure || (stop_.keeps_values && outcome_.failure == stop_.cause);
  lock.unlock();
  stop_.token_callback.reset();  // waits for a cancel() that is running
  for (const std::weak_ptr<UnzipSource>& one : sources_.produced) {
    if (const std::shared_ptr<UnzipSource> source = one.lock()) source->finish(outcome_.failure, is_usable);
  }
  lock.lock();
  const std::vector<RunObserver*> observers = std::exchange(outcome_.observers, {});
  const std::optional<engine::Timer::Key> deadline = std::exchange(stop_.deadline, std::nullopt);
  outcome_.is_finished.store(true, std::memory_order_release);
  lock.unlock();
  if (deadline) engine::Timer::instance().remove(*deadline);
  changed_.notify_all();
  for (RunObserver* observer : observers) observer->run_finished();
  return true;
}

bool RunState::add_observer(RunObserver& observer) {
  const std::scoped_lock lock(mutex_);
  if (is_finished()) return false;
  outcome_.observers.push_back(&observer);
  return true;
}

bool RunState::remove_observer(RunObserver& observer) {
  const std::scoped_lock lock(mutex_);
  return std::erase(outcome_.observers, &observer) != 0;
}

}  // namespace tessera::detail::operation
