#include "operation/run.hpp"

#include <tessera/error.hpp>
#include <tessera/operation.hpp>

#include "engine/stream_state.hpp"
#include "engine/submission.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace tessera::detail {

// Tells a run that one of its commands is over.
class RunState::Watch final : public Observer {
 public:
  Watch(std::shared_ptr<RunState> run, std::uint64_t number) : run_(std::move(run)), number_(number) {}
  void command_finished(engine::Work&) noexcept override {
    const std::unique_ptr<Watch> self(this);
    run_->post({.node = nullptr, .failure = nullptr, .command = number_});
  }

 private:
  std::shared_ptr<RunState> run_;
  std::uint64_t number_;
};

Ref<engine::DeviceState> device_for(const OperationNode& root, const RunOptions& options) {
  if (options.stream) return Access::get(options.stream)->device;
  if (root.device()) return Ref<engine::DeviceState>(root.device());
  return Ref<engine::DeviceState>(Access::get(Device::best()));
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
  unseen_ = 0;
  is_starved_ = false;
  looks_again_ = false;
  has_value_ = false;
  failure_ = nullptr;
  failure_order_ = 0;
  shared_.clear();
  awaited_shared_.clear();
  asked_.reset();
  keeps_values_ = false;
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
  items_.emplace_back(root_.get(), true);
  pump(true);
}

// What has been evaluated already, and only has to be waited for.
void RunState::adopt(const Ref<engine::Work>& command, std::exception_ptr why) {
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

void RunState::pump_here(bool is_caller) {
  const std::shared_ptr<RunState> self = shared_from_this();
  std::vector<OperationNode*> works;
  while (true) {
    turn();
    std::unique_lock lock(mutex_);
    if (stopped_ && !failure_) {
      const bool keeps_values = keeps_values_;
      lock.unlock();
      if (keeps_values) recorder_.flush();
      fail(stopped_);
      continue;
    }
    if (!events_.empty()) {
      std::vector<Event> events;
      events.swap(events_);
      lock.unlock();
      is_starved_ = false;
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
  while (!items_.empty() && !failure_ && !is_starved_) {
    // Its members one by one, as they were written: a copy as a whole would wait for those writes to be over.
    OperationNode* node = items_.back().node;
    const bool is_begin = items_.back().is_begin;
    items_.pop_back();
    step(*node, is_begin);
  }
  collect();
}

void RunState::step(OperationNode& node, bool is_begin) {
  try {
    bool has_value = false;
    if (is_begin) {
      node.begin(*this);
    } else {
      has_value = (!node.has_leaves_ || step_leaves(node)) && node.step(*this);
    }
    if (is_starved_ && !failure_) items_.emplace_back(&node, is_begin);
    if (!has_value) return;
  } catch (...) {
    return fail(std::current_exception());
  }
  if (&node == root_.get()) {
    has_value_ = true;
  } else if (node.parent_ && --node.parent_->pending_ == 0) {
    items_.emplace_back(node.parent_, false);
  }
}

// Leaves have their turn just before the node: their values need not wait for the others'.
void RunState::begin_children(OperationNode& node) {
  const std::size_t first = items_.size();
  for (OperationNode* child = node.first_child_; child; child = child->next_) {
    if (child->is_leaf()) {
      node.has_leaves_ = true;
      child->has_value_ = false;
      continue;
    }
    child->parent_ = &node;
    items_.emplace_back(child, true);
  }
  node.pending_ = static_cast<std::uint32_t>(items_.size() - first);
  if (node.pending_ == 0) items_.emplace_back(&node, false);
  if (node.pending_ > 1) put_deepest_first(items_.begin() + static_cast<std::ptrdiff_t>(first));
}

// False if there is no room for one of them now: then this is called again.
bool RunState::step_leaves(OperationNode& node) {
  for (OperationNode* child = node.first_child_; child; child = child->next_) {
    if (!child->is_leaf() || child->has_value_) continue;
    if (!child->step(*this)) return false;
    child->has_value_ = true;
  }
  node.has_leaves_ = false;
  return true;
}

// The last one is the next one: the deepest; of equal ones the first.
void RunState::put_deepest_first(std::vector<Item>::iterator begun) {
  std::reverse(begun, items_.end());
  auto deepest = begun;
  for (auto item = begun; item != items_.end(); ++item) {
    if (item->node->depth() >= deepest->node->depth()) deepest = item;
  }
  std::rotate(deepest, deepest + 1, items_.end());
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
  working_ -= works_.size();
  works_.clear();
  is_starved_ = false;
  stop_inner(Errc::cancelled, "what the operation was part of has failed");
}

void RunState::take(Event& event) {
  if (event.node) {
    --held_;
    if (event.is_work) --working_;
    if (event.failure) return fail(std::move(event.failure));
    if (!failure_) items_.emplace_back(event.node, false);
    return;
  }
  if (event.command == 0) {
    looks_again_ = false;
    return;
  }
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
  if (failure_) recorder_.give_up(error_of(failure_).failure());
  bool can_wait = true;
  while (true) {
    new_commands_.clear();
    const Recorder::Flushed flushed = recorder_.flush(can_wait, collected_, new_commands_);
    collected_ = flushed.next_command;
    for (const Ref<engine::Work>& command : new_commands_) watch(command, false);
    new_commands_.clear();
    if (flushed.failure && !failure_) return fail(std::make_exception_ptr(Error(flushed.failure)));
    if (!flushed.is_short) return;
    if (failure_) return recorder_.give_up(error_of(failure_).failure());
    can_wait = is_moving();
    if (can_wait) {
      is_starved_ = true;
      return;
    }
  }
}

void RunState::watch(const Ref<engine::Work>& command, bool is_foreign) {
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
      ++working_;
    } else {
      items_.emplace_back(parked.node, false);
    }
    return true;
  });
}

// Until all commands so far are over.
void RunState::park(OperationNode& node, bool has_work) {
  collect();
  if (failure_ || is_starved_) return;
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
  engine::submit_host(*device_, {.label = "function",
                                 .storage = nullptr,
                                 .function = [scheduler = device_->scheduler, function = std::move(function)] {
                                   scheduler->before_user_code();
                                   function();
                                 }});
}

// If it still is to be done.
RunState::Event RunState::work(OperationNode& node) noexcept {
  Event done{.node = &node, .failure = nullptr, .command = 0, .is_work = true};
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
  const bool is_sound = !failure_ || (keeps_values_ && failure_ == stopped_);
  lock.unlock();
  on_stop_.reset();                                            // waits for a cancel() on its way
  for (const std::weak_ptr<SharedOperation>& one : shared_) {  // only this thread adds to it
    if (const std::shared_ptr<SharedOperation> shared = one.lock()) shared->end(failure_, is_sound);
  }
  std::vector<Run::Observer*> told;
  lock.lock();
  told.swap(observers_);
  const std::optional<engine::Timer::Key> deadline = std::exchange(deadline_, std::nullopt);
  is_over_.store(true, std::memory_order_release);
  lock.unlock();
  if (deadline) engine::Timer::instance().remove(*deadline);
  changed_.notify_all();
  for (Run::Observer* observer : told) observer->run_over();
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
  recorder_.check_room(bytes.size());
  Buffer buffer = Access::make<Buffer>(engine::allocate(*device_, shape, dtype, false));
  engine::Storage* storage = Access::get(buffer)->storage;
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

bool RunState::download(const TensorHandle& tensor, std::span<std::byte> to, OperationNode& node) {
  collect();
  if (failure_ || is_starved_) return false;
  const Buffer buffer = tensor.buffer();  // which the node keeps until it has its copy
  engine::Storage* storage = Access::get(buffer)->storage;
  recorder_.submit_host(
      {.label = "read", .storage = storage, .bytes = static_cast<std::int64_t>(to.size()), .function = [storage, to] {
         storage->device->driver->download(to, storage->block.address);
       }});
  park(node, false);
  return true;
}

void RunState::add_child(OperationNode& parent, NodePtr child) {
  OperationNode* added = child.get();
  parent.add_child(std::move(child));
  added->parent_ = &parent;
  parent.pending_ = 1;
  items_.emplace_back(added, true);
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
  engine::Storage& storage = *Access::get(contents.buffer)->storage;
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
void RunState::task_awaits(const OperationNode& node, const Ref<engine::Work>& command) {
  task_awaits(node, {{}, command});
}
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
  items_.emplace_back(&joint, true);
}

void RunState::waits_for(const std::shared_ptr<SharedOperation>& shared) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(awaited_shared_, [](const std::weak_ptr<SharedOperation>& one) { return one.expired(); });
  awaited_shared_.push_back(shared);
}

void RunState::step_again(OperationNode& node) { items_.emplace_back(&node, false); }

void RunState::after_commands(OperationNode& node, const std::vector<Ref<engine::Work>>& commands) {
  for (const Ref<engine::Work>& command : commands) watch(command, true);
  park(node, false);
}

std::vector<Ref<engine::Work>> RunState::submitted() {
  std::vector<Ref<engine::Work>> commands;
  recorder_.flush();
  recorder_.flush(true, 0, commands);
  return commands;
}

}  // namespace tessera::detail
