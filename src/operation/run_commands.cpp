// What a run has in flight: commands and host functions.
#include <tessera/error.hpp>

#include "operation/run_state.hpp"

#include <chrono>
#include <new>
#include <utility>

namespace tessera::detail::operation {

// Posts an event when a command of a run has finished. Deletes itself then.
class RunState::CommandWatcher final : public Observer {
 public:
  CommandWatcher(std::shared_ptr<RunState> run, std::uint64_t number) : run_(std::move(run)), number_(number) {}
  void command_finished(engine::Work&) noexcept override {
    const std::unique_ptr<CommandWatcher> self(this);
    run_->post({.node = nullptr, .failure = nullptr, .command = number_});
  }

 private:
  std::shared_ptr<RunState> run_;
  std::uint64_t number_;
};

// Submits what was recorded, or drops it after a failure, and watches the new commands.
void RunState::flush() {
  if (outcome_.failure) recorder_.drop_all(error_of(outcome_.failure).failure());
  bool can_wait = true;
  while (true) {
    const CallRecorder::FlushResult result = recorder_.flush(can_wait);
    while (watched_commands_ < result.commands) watch(recorder_.command(watched_commands_++));
    if (result.failure && !outcome_.failure) return fail(std::make_exception_ptr(Error(result.failure)));
    if (!result.is_short_of_memory) return;
    if (outcome_.failure) return recorder_.drop_all(error_of(outcome_.failure).failure());
    can_wait = is_progressing();
    if (can_wait) {
      pressure_.is_starved = true;
      return;
    }
  }
}

// Waits for a command of this run, on this thread if there is no memory to do so later.
void RunState::watch(const Ref<engine::Work>& command) noexcept {
  try {
    if (try_watch(command, false)) return;
  } catch (const std::bad_alloc&) {
    // One that waits for something else is dropped: that may wait for this thread.
    const bool is_dropped =
        engine::cancel(*command, Errc::out_of_memory, "was dropped: there is not enough host memory");
    // With a limit: to wait without one, the engine checks first whether that would last for ever, which takes memory.
    while (!is_dropped && !engine::wait(*command, engine::Clock::now() + std::chrono::hours(1))) {
    }
  }
  try {
    fail_with(*command, last_command_);
  } catch (...) {
    fail(std::current_exception(), last_command_);
  }
}

// Begins to wait for a command; false if it has finished.
bool RunState::try_watch(const Ref<engine::Work>& command, bool is_foreign) {
  const std::uint64_t number = ++last_command_;
  if (command->is_settled()) return false;
  auto watcher = std::make_unique<CommandWatcher>(shared_from_this(), number);
  make_room_for_event();
  {
    const std::scoped_lock lock(mutex_);
    commands_.add({number, command, is_foreign});
  }
  const bool is_watched = command->add_observer(*watcher);
  if (is_watched) {
    [[maybe_unused]] const CommandWatcher* deletes_itself = watcher.release();
  } else {
    const std::scoped_lock lock(mutex_);
    commands_.remove(number);
  }
  changed_.notify_all();
  return is_watched;
}

// Fails with a finished command, if that has failed. If the run was cancelled and has stopped the command, the run's
// own reason counts: that may be a deadline.
void RunState::fail_with(const engine::Work& command, std::uint64_t number) {
  if (!command.failure) return;
  core::set_seen(*command.failure);  // from here on it is the run's
  if (command.failure->code == Errc::cancelled) {
    const std::scoped_lock lock(mutex_);
    if (stop_.cause) return;
  }
  fail(std::make_exception_ptr(Error(command.failure)), number);
}

// The node waits until all commands so far have finished.
void RunState::park(OperationNode& node, bool has_host_function) {
  flush();
  if (outcome_.failure || pressure_.is_starved) return;
  make_room_for_event();
  waiting_.park(node, last_command_, has_host_function);
  unpark();
}

void RunState::unpark() {
  const std::scoped_lock lock(mutex_);
  waiting_.unpark(commands_, stack_);
}

void RunState::step_after(OperationNode& node, const std::vector<Ref<engine::Work>>& commands) {
  for (const Ref<engine::Work>& command : commands) try_watch(command, true);
  park(node, false);
}

std::vector<Ref<engine::Work>> RunState::submitted() {
  std::vector<Ref<engine::Work>> commands;
  recorder_.flush();
  const std::size_t count = recorder_.flush(true).commands;
  commands.reserve(count);
  while (commands.size() < count) commands.push_back(recorder_.command(commands.size()));
  return commands;
}

// Hands host functions over to device threads, but for one that this thread may call itself, which it returns.
OperationNode* RunState::start_host_functions(std::vector<OperationNode*>& nodes, bool is_caller) noexcept {
  if (nodes.empty()) return nullptr;
  // A caller that does not wait must not be held up by a host function.
  OperationNode* own = nullptr;
  if (!is_caller || options_.blocks) {
    own = nodes.back();
    nodes.pop_back();
  }
  for (OperationNode* node : nodes) {
    try {
      execute_user_code([self = shared_from_this(), node] { self->post(self->call_host_function(*node)); });
    } catch (...) {
      post({.node = node, .failure = std::current_exception(), .command = 0, .is_host_function = true});
    }
  }
  if (own) device_->scheduler->before_user_code();
  return own;
}

RunEvent RunState::call_host_function(OperationNode& node) noexcept {
  RunEvent done{.node = &node, .failure = nullptr, .command = 0, .is_host_function = true};
  if (is_stopping()) return done;
  const UserCodeScope scope;
  try {
    node.run_on_host();
  } catch (...) {
    done.failure = std::current_exception();
  }
  return done;
}

void RunState::execute_user_code(std::function<void()> function) {
  engine::submit_host(*device_, {.label = "function",
                                 .storage = nullptr,
                                 .function = [scheduler = device_->scheduler, function = std::move(function)] {
                                   scheduler->before_user_code();
                                   function();
                                 }});
}

}  // namespace tessera::detail::operation
