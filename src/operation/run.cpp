#include "operation/run.hpp"

#include <tessera/error.hpp>
#include <tessera/operation.hpp>

#include "core/text.hpp"
#include "operation/direct.hpp"
#include "runtime/stream_state.hpp"
#include "runtime/submit.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace tessera::detail {

// Tells a run that one of its commands is over.
class RunState::Watch final : public Observer {
 public:
  Watch(std::shared_ptr<RunState> run, std::uint64_t number) : run_(std::move(run)), number_(number) {}
  void command_over(Node&) noexcept override {
    const std::unique_ptr<Watch> self(this);
    run_->post({.node = nullptr, .failure = nullptr, .command = number_});
  }

 private:
  std::shared_ptr<RunState> run_;
  std::uint64_t number_;
};

Ref<DeviceState> device_for(const OperationNode& root, const RunOptions& options) {
  if (options.stream) return options.stream.state()->device;
  if (root.device()) return Ref<DeviceState>(root.device());
  return Ref<DeviceState>(Device::best().state());
}

Error error_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    return {Errc::call_failed, error.what()};
  } catch (...) {
    return {Errc::call_failed, "something that is no std::exception was thrown"};
  }
}

// A run that a thread comes to while it pumps others is pumped at once, inside of them, as long as these are few, and
// put off until they are done if they are many: operations inside of each other need no stack. A thread does not block
// while it has put something off.
class PutOff {
 public:
  static constexpr std::size_t most_nested = 16;

  static void pump(RunState& run, bool is_caller) {
    PutOff& mine = of_thread;
    if (mine.nested_ >= most_nested) {
      mine.runs_.push_back({run.shared_from_this(), is_caller});
      return;
    }
    ++mine.nested_;
    run.pump_here(is_caller);
    if (mine.nested_ == 1 && !mine.runs_.empty()) mine.pump_all();
    --mine.nested_;
  }
  // Before this thread waits.
  static void catch_up() {
    PutOff& mine = of_thread;
    if (mine.runs_.empty()) return;
    const std::size_t nested = std::exchange(mine.nested_, 1);
    mine.pump_all();
    mine.nested_ = nested;
  }
  // Before this thread runs code of the program's, which may take any time: others do it.
  static std::size_t enter_user_code() {
    PutOff& mine = of_thread;
    while (!mine.runs_.empty()) {
      const Entry next = mine.take();
      next.run->execute([run = next.run] { pump(*run, false); });
    }
    return std::exchange(mine.nested_, 0);
  }
  static void leave_user_code(std::size_t nested) noexcept { of_thread.nested_ = nested; }

 private:
  struct Entry {
    std::shared_ptr<RunState> run;
    bool is_caller;
  };
  Entry take() {
    Entry next = std::move(runs_.back());
    runs_.pop_back();
    return next;
  }
  void pump_all() {
    while (!runs_.empty()) {
      const Entry next = take();
      next.run->pump_here(next.is_caller);
    }
  }

  std::size_t nested_ = 0;
  std::vector<Entry> runs_;
  static thread_local PutOff of_thread;
};
thread_local PutOff PutOff::of_thread;

void catch_up() { PutOff::catch_up(); }
UserCode::UserCode() noexcept : nested_(PutOff::enter_user_code()) {}
UserCode::~UserCode() { PutOff::leave_user_code(nested_); }

namespace {

// Tasks may be resumed by this.
void call_stops(std::span<const std::function<void()>> stops) {
  if (stops.empty()) return;
  const UserCode scope;
  for (const std::function<void()>& stop : stops) stop();
}

}  // namespace

// Runs are many and short: the room that one has made is good for the next one of the thread.
struct RunState::Free {
  static constexpr std::size_t most = 8;
  std::vector<std::unique_ptr<RunState>> runs;
  Free() { here = this; }
  ~Free() { here = nullptr; }
  static inline thread_local Free* here = nullptr;  // null when the thread is at its end
};

std::shared_ptr<RunState> RunState::create(NodePtr root, RunOptions options) {
  thread_local Free free;
  std::unique_ptr<RunState> state;
  if (Free::here && !free.runs.empty()) {
    state = std::move(free.runs.back());
    free.runs.pop_back();
  } else {
    state.reset(new RunState());
  }
  state->root_ = std::move(root);
  state->options_ = std::move(options);
  state->device_ = device_for(*state->root_, state->options_);
  return {state.release(), [](RunState* over) {
            over->close();
            if (Free::here && Free::here->runs.size() < Free::most) {
              Free::here->runs.emplace_back(over);
            } else {
              delete over;
            }
          }};
}

// Back to the beginning.
void RunState::close() noexcept {
  root_ = nullptr;
  recorder_.close();
  options_ = {};
  device_ = {};
  collected_ = 0;
  last_command_ = 0;
  has_value_ = false;
  failure_ = nullptr;
  failure_order_ = 0;
  shared_.clear();
  events_.clear();
  is_pumping_ = true;
  inner_.clear();
  inner_changes_ = 0;
  awaited_.clear();
  awaits_ = 0;
  stops_.clear();
  stopped_ = nullptr;
  is_stopping_.store(false, std::memory_order_relaxed);
  is_over_.store(false, std::memory_order_relaxed);
}

void RunState::start() {
  if (!options_.stream) options_.stream = stream_for(*device_, options_);
  recorder_.open(*device_, options_.stream, std::shared_ptr<Recorder>(shared_from_this(), &recorder_));
  if (options_.stop.stop_possible()) {
    if (options_.stop.stop_requested()) {
      stopped_ = std::make_exception_ptr(Error(Errc::cancelled, "the operation was stopped before it began"));
    } else {
      on_stop_.emplace(options_.stop, [this] { cancel(Errc::cancelled, "the operation was stopped"); });
    }
  }
  items_.push_back({root_.get(), true});
  pump(true);
}

// What has been evaluated already, and only has to be waited for.
void RunState::adopt(const Ref<Node>& command, std::exception_ptr why) {
  has_value_ = !why;
  if (why) fail(std::move(why));
  if (command) watch(command, false);
  pump(true);
}

void RunState::post(Event event) {
  {
    const std::scoped_lock lock(mutex_);
    events_.push_back(std::move(event));
    if (std::exchange(is_pumping_, true)) return;
  }
  pump(false);
}

void RunState::pump(bool is_caller) { PutOff::pump(*this, is_caller); }

void RunState::pump_here(bool is_caller) {
  const std::shared_ptr<RunState> self = shared_from_this();
  std::vector<OperationNode*> works;
  while (true) {
    turn();
    std::unique_lock lock(mutex_);
    if (stopped_ && !failure_) {
      lock.unlock();
      fail(stopped_);
      continue;
    }
    if (!events_.empty()) {
      std::vector<Event> events;
      events.swap(events_);
      lock.unlock();
      for (Event& event : events) take(event);
      continue;
    }
    if (try_end(lock)) return;
    works.swap(works_);
    is_pumping_ = false;
    lock.unlock();
    OperationNode* own = hand_out(works, is_caller);
    works.clear();
    if (!own) return;
    Event event = work(*own);
    lock.lock();
    events_.push_back(std::move(event));
    if (std::exchange(is_pumping_, true)) return;
  }
}

// Does what can be done now.
void RunState::turn() {
  while (!items_.empty() && !failure_) {
    const Item item = items_.back();
    items_.pop_back();
    step(item);
  }
  collect();
}

void RunState::step(const Item& item) {
  OperationNode& node = *item.node;
  try {
    if (item.is_begin) return node.begin(*this);
    if (!node.step(*this)) return;
  } catch (...) {
    return fail(std::current_exception());
  }
  if (&node == root_.get()) {
    has_value_ = true;
  } else if (node.parent_ && --node.parent_->pending_ == 0) {
    items_.push_back({node.parent_, false});
  }
}

void RunState::begin_children(OperationNode& node) {
  const std::size_t first = items_.size();
  for (OperationNode* child = node.first_child_; child; child = child->next_) {
    child->parent_ = &node;
    items_.push_back({child, true});
  }
  node.pending_ = static_cast<std::uint32_t>(items_.size() - first);
  const auto begun = items_.begin() + static_cast<std::ptrdiff_t>(first);
  std::reverse(begun, items_.end());
  // The deepest first; of equal ones the first.
  const auto is_shallower = [](const Item& a, const Item& b) { return a.node->depth() < b.node->depth(); };
  auto deepest = begun;
  for (auto item = begun; item != items_.end(); ++item) {
    if (!is_shallower(*item, *deepest)) deepest = item;
  }
  if (node.pending_ > 1) std::rotate(deepest, deepest + 1, items_.end());
  if (node.pending_ == 0) items_.push_back({&node, false});
}

// The earliest failure counts: what comes after it may be its consequence.
void RunState::fail(std::exception_ptr why, std::uint64_t order) {
  if (order == 0) order = last_command_ + 1;
  if (failure_ && failure_order_ <= order) return;
  failure_ = std::move(why);
  failure_order_ = order;
  is_stopping_.store(true, std::memory_order_release);
  items_.clear();
  parked_.clear();
  held_ -= works_.size();
  works_.clear();
  stop_inner(Errc::cancelled, "what the operation was part of has failed");
}

// Operations inside of this one, and tasks.
void RunState::stop_inner(Errc reason, std::string_view why) {
  std::vector<std::weak_ptr<RunState>> inner;
  std::vector<std::function<void()>> stops;
  {
    const std::scoped_lock lock(mutex_);
    inner = inner_;
    stops.swap(stops_);
  }
  for (const std::weak_ptr<RunState>& run : inner) {
    if (const std::shared_ptr<RunState> shared = run.lock()) shared->cancel(reason, why);
  }
  call_stops(stops);
}

void RunState::take(Event& event) {
  if (event.node) {
    --held_;
    if (event.failure) return fail(std::move(event.failure));
    if (!failure_) items_.push_back({event.node, false});
    return;
  }
  if (event.command == 0) return;
  Outstanding over{};
  {
    const std::scoped_lock lock(mutex_);
    const auto found = std::ranges::find(outstanding_, event.command, &Outstanding::number);
    over = std::move(*found);
    outstanding_.erase(found);
  }
  changed_.notify_all();
  if (!over.is_foreign && over.command->failure) {
    fail(std::make_exception_ptr(Error(over.command->failure)), over.number);
  }
  unpark();
}

// What was recorded is submitted, or given up, and its commands are watched from now on.
void RunState::collect() {
  core::FailurePtr wrong;
  new_commands_.clear();
  collected_ = recorder_.flush(failure_ ? error_of(failure_).failure() : nullptr, collected_, new_commands_, wrong);
  for (const Ref<Node>& command : new_commands_) watch(command, false);
  new_commands_.clear();
  if (wrong && !failure_) fail(std::make_exception_ptr(Error(wrong)));
}

void RunState::watch(const Ref<Node>& command, bool is_foreign) {
  const std::uint64_t number = ++last_command_;
  if (!command->is_settled()) {
    {
      const std::scoped_lock lock(mutex_);
      outstanding_.push_back({number, command, is_foreign});
    }
    auto* watch = new Watch(shared_from_this(), number);
    if (command->add_observer(*watch)) {  // it deletes itself
      changed_.notify_all();
      return;
    }
    delete watch;
    const std::scoped_lock lock(mutex_);
    std::erase_if(outstanding_, [&](const Outstanding& one) { return one.number == number; });
  }
  if (!is_foreign && command->failure) fail(std::make_exception_ptr(Error(command->failure)), number);
}

bool RunState::is_waiting_for(std::uint64_t up_to) const {
  return std::ranges::any_of(outstanding_, [&](const Outstanding& one) { return one.number <= up_to; });
}

void RunState::unpark() {
  const std::scoped_lock lock(mutex_);
  std::erase_if(parked_, [&](const Parked& parked) {
    if (is_waiting_for(parked.up_to)) return false;
    if (parked.has_work) {
      works_.push_back(parked.node);
      ++held_;
    } else {
      items_.push_back({parked.node, false});
    }
    return true;
  });
}

// Until all commands so far are over.
void RunState::park(OperationNode& node, bool has_work) {
  collect();
  if (failure_) return;
  parked_.push_back({&node, last_command_, has_work});
  unpark();
}

// Functions of the program's: all but the one that is this thread's own, which it gives.
OperationNode* RunState::hand_out(std::vector<OperationNode*>& works, bool is_caller) {
  if (works.empty()) return nullptr;
  // A caller that does not wait must not be held up by them; and two of them run at once.
  OperationNode* own = nullptr;
  if (!is_caller || options_.blocks) {
    own = works.back();
    works.pop_back();
  }
  for (OperationNode* node : works) {
    execute([self = shared_from_this(), node] { self->post(self->work(*node)); });
  }
  if (own) device_->scheduler->before_user_code();
  return own;
}

void RunState::execute(std::function<void()> function) {
  device_->submit_host({.label = "function",
                        .storage = nullptr,
                        .function = [scheduler = device_->scheduler, function = std::move(function)] {
                          scheduler->before_user_code();
                          function();
                        }});
}

void RunState::on_stop(std::function<void()> function) {
  {
    const std::scoped_lock lock(mutex_);
    if (!stopped_) {
      stops_.push_back(std::move(function));
      return;
    }
  }
  function();
}

// If it still is to be done.
RunState::Event RunState::work(OperationNode& node) noexcept {
  Event done{.node = &node, .failure = nullptr, .command = 0};
  if (is_stopping_.load(std::memory_order_acquire)) return done;
  const UserCode scope;
  try {
    node.work();
  } catch (...) {
    done.failure = std::current_exception();
  }
  return done;
}

// Under the lock, which it gives up if it is over.
bool RunState::try_end(std::unique_lock<std::mutex>& lock) {
  const bool is_quiet = outstanding_.empty() && held_ == 0 && parked_.empty() && works_.empty();
  if (!is_quiet || !(has_value_ || failure_)) return false;
  lock.unlock();
  on_stop_.reset();  // waits for a cancel() on its way
  for (const std::weak_ptr<SharedOperation>& one : shared_) {
    if (const std::shared_ptr<SharedOperation> shared = one.lock()) shared->end(failure_);
  }
  shared_.clear();
  std::vector<Run::Observer*> told;
  lock.lock();
  told.swap(observers_);
  const std::optional<Timer::Key> deadline = std::exchange(deadline_, std::nullopt);
  is_over_.store(true, std::memory_order_release);
  lock.unlock();
  if (deadline) Timer::instance().remove(*deadline);
  changed_.notify_all();
  for (Run::Observer* observer : told) observer->run_over();
  return true;
}

// With all inside of it, and without recursion.
bool RunState::cancel(Errc reason, std::string_view why) {
  std::vector<std::shared_ptr<RunState>> stopped = {shared_from_this()}, inner;
  if (!mark_stopped(reason, why, inner)) return false;
  while (!inner.empty()) {
    const std::shared_ptr<RunState> next = std::move(inner.back());
    inner.pop_back();
    if (next->mark_stopped(reason, why, inner)) stopped.push_back(next);
  }
  for (; !stopped.empty(); stopped.pop_back()) stopped.back()->post({});  // the innermost first
  return true;
}

// It is stopped from now on, and its commands and tasks are; not what it gives, its inner runs. False if it was before.
bool RunState::mark_stopped(Errc reason, std::string_view why, std::vector<std::shared_ptr<RunState>>& inner) {
  std::vector<Ref<Node>> commands;
  std::vector<std::function<void()>> stops;
  {
    const std::scoped_lock lock(mutex_);
    if (is_over() || stopped_) return false;
    stopped_ = std::make_exception_ptr(Error(reason, std::string(why)));
    is_stopping_.store(true, std::memory_order_release);
    for (const Outstanding& one : outstanding_) {
      if (!one.is_foreign) commands.push_back(one.command);
    }
    for (const std::weak_ptr<RunState>& one : inner_) {
      if (std::shared_ptr<RunState> run = one.lock()) inner.push_back(std::move(run));
    }
    stops.swap(stops_);
  }
  for (const Ref<Node>& command : commands) {
    if (!detail::cancel(*command, reason, why)) detail::ask_to_stop(*command);
  }
  call_stops(stops);
  return true;
}

bool RunState::add_observer(Run::Observer& observer) {
  const std::scoped_lock lock(mutex_);
  if (is_over()) return false;
  observers_.push_back(&observer);
  return true;
}

bool RunState::remove_observer(Run::Observer& observer) {
  const std::scoped_lock lock(mutex_);
  return std::erase(observers_, &observer) != 0;
}

TensorHandle RunState::make(const Shape& shape, DType dtype) { return recorder_.make(shape, dtype); }
void RunState::run(const KernelWork& work) { recorder_.add(work); }

TensorHandle RunState::upload(const Shape& shape, DType dtype, std::span<const std::byte> bytes,
                              std::shared_ptr<const void> owner) {
  Buffer buffer = allocate(*device_, shape, dtype, false);
  Storage* storage = buffer.view()->storage;
  recorder_.submit_host({.label = "write",
                         .storage = storage,
                         .writes = true,
                         .heals = true,
                         .bytes = static_cast<std::int64_t>(bytes.size()),
                         .function = [storage, bytes, owner = std::move(owner)] {
                           storage->device->driver->upload(storage->block.address, bytes);
                         }});
  return {buffer, dtype};
}

void RunState::download(const TensorHandle& tensor, std::span<std::byte> to, OperationNode& node) {
  const Buffer buffer = tensor.buffer();
  Storage* storage = buffer.view()->storage;
  recorder_.submit_host(
      {.label = "read",
       .storage = storage,
       .bytes = static_cast<std::int64_t>(to.size()),
       .function = [storage, to, keep = buffer] { storage->device->driver->download(to, storage->block.address); }});
  park(node, false);
}

void RunState::add_child(OperationNode& parent, NodePtr child) {
  OperationNode* added = child.get();
  parent.add_child(std::move(child));
  added->parent_ = &parent;
  parent.pending_ = 1;
  items_.push_back({added, true});
}

void RunState::after_device(OperationNode& node) { park(node, true); }

void RunState::hold(OperationNode&) { ++held_; }

void RunState::wake(OperationNode& node, std::exception_ptr failure) {
  post({.node = &node, .failure = std::move(failure), .command = 0});
}

void RunState::expect_sound(const TensorHandle& tensor) {
  if (!tensor.state()) return;
  const TensorState::Contents contents = tensor.state()->memory().contents();
  if (contents.failure) throw Error(contents.failure);
  if (!contents.buffer) return;
  Storage& storage = *contents.buffer.view()->storage;
  core::FailurePtr poison;
  {
    const std::scoped_lock lock(storage.device->order);
    if (storage.hazards.can_read_now()) poison = storage.poison;
  }
  if (poison) throw Error(poison);
}

RunOptions RunState::inner_options() {
  RunOptions inner = options_;
  inner.stop = {};  // it stops them itself
  inner.blocks = false;
  inner.task = nullptr;
  return inner;
}

void RunState::add_inner(const Run& run) {
  {
    const std::scoped_lock lock(mutex_);
    std::erase_if(inner_, [](const std::weak_ptr<RunState>& one) { return one.expired(); });
    inner_.push_back(run.state());
    ++inner_changes_;
    if (!stopped_) {
      changed_.notify_all();
      return;
    }
  }
  run.cancel();
}

void RunState::task_awaits(const OperationNode& node, const Run& run) { task_awaits(node, {run.state(), {}}); }
void RunState::task_awaits(const OperationNode& node, const Ref<Node>& command) { task_awaits(node, {{}, command}); }
void RunState::task_awaits(const OperationNode& node, Awaited awaited) {
  {
    const std::scoped_lock lock(mutex_);
    if (awaited.run.expired() && !awaited.command) {
      awaited_.erase(&node);
    } else {
      std::swap(awaited_[&node], awaited);
    }
    ++awaits_;
  }
  changed_.notify_all();
}

void RunState::make_shared_value(const std::shared_ptr<SharedOperation>& shared, OperationNode& joint) {
  if (shared_.size() == shared_.capacity()) {
    std::erase_if(shared_, [](const std::weak_ptr<SharedOperation>& one) { return one.expired(); });
  }
  shared_.push_back(shared);
  items_.push_back({&joint, true});
}

void RunState::step_again(OperationNode& node) { items_.push_back({&node, false}); }

void RunState::after_commands(OperationNode& node, const std::vector<Ref<Node>>& commands) {
  for (const Ref<Node>& command : commands) watch(command, true);
  park(node, false);
}

std::vector<Ref<Node>> RunState::submitted() {
  std::vector<Ref<Node>> commands;
  core::FailurePtr failure;
  recorder_.flush(nullptr, 0, commands, failure);
  return commands;
}

void RunState::cancel_after(std::chrono::nanoseconds time) {
  const std::scoped_lock lock(mutex_);
  if (is_over()) return;
  deadline_ = Timer::instance().at(from_now(time), [state = weak_from_this(), time] {
    const std::shared_ptr<RunState> shared = state.lock();
    if (!shared) return;
    const double milliseconds = std::chrono::duration<double, std::milli>(time).count();
    shared->cancel(Errc::deadline_exceeded, core::text("the operation was not done within ", milliseconds, " ms"));
  });
}

void cancel_after(const Run& run, std::chrono::nanoseconds time) {
  if (run.state()) run.state()->cancel_after(time);
}

// The public half.

Run Run::start(NodePtr root, RunOptions&& options) {
  Run run;
  if (DirectEvaluation::is_for(*root, options)) {
    DirectEvaluation direct(*root, options);
    direct.evaluate();
    if (direct.is_done()) {
      run.root_ = std::move(root);
      run.is_done_ = true;
    } else {
      run.state_ = RunState::create(std::move(root), std::move(options));
      run.state_->adopt(direct.command(), direct.failure());
    }
    return run;
  }
  run.state_ = RunState::create(std::move(root), std::move(options));
  run.state_->start();
  return run;
}

namespace {

RunState* state_of(const Run& run, std::string_view call) {
  if (!run) throw Error(Errc::invalid_argument, core::text("[", call, "] on an empty handle of an operation"));
  return run.state().get();
}

}  // namespace

Status Run::poll() const {
  RunState* state = state_of(*this, "poll");
  return state ? state->poll() : Status::completed;
}
bool Run::is_over() const noexcept { return !state_ || state_->is_over(); }
void Run::wait() const {
  if (RunState* state = state_of(*this, "wait")) state->wait(Clock::time_point::max());
}
bool Run::wait_seconds(std::chrono::duration<double> timeout) const {
  constexpr std::chrono::duration<double> for_ever = std::chrono::hours(24 * 365 * 100);
  RunState* state = state_of(*this, "wait_for");
  if (!state) return true;
  auto until = Clock::time_point::max();
  if (timeout < for_ever) {
    const auto rest = std::max(timeout, std::chrono::duration<double>::zero());
    until = Clock::now() + std::chrono::ceil<Clock::duration>(rest);
  }
  return state->wait(until);
}
bool Run::cancel(Errc reason, std::string_view why) const {
  RunState* state = state_of(*this, "cancel");
  return state && state->cancel(reason, why);
}
bool Run::add_observer(Observer& observer) const { return state_ && state_->add_observer(observer); }
bool Run::remove_observer(Observer& observer) const { return state_ && state_->remove_observer(observer); }
void Run::before_user_code() const noexcept {
  if (state_) state_->device().scheduler->before_user_code();
}
const std::exception_ptr& Run::failure() const noexcept {
  static const std::exception_ptr none;
  return state_ ? state_->failure() : none;
}
void Run::throw_if_failed() const {
  if (state_ && state_->failure()) std::rethrow_exception(state_->failure());
}
OperationNode& Run::root() const noexcept { return state_ ? *state_->root() : *root_; }
NodePtr Run::take_root() const noexcept { return state_ ? std::move(state_->root()) : std::move(root_); }

}  // namespace tessera::detail
