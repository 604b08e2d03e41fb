#pragma once

#include <tessera/detail/operation_node.hpp>

#include "engine/device_state.hpp"
#include "engine/execution.hpp"
#include "engine/schedule/timer.hpp"
#include "engine/submission.hpp"
#include "operation/recorder.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tessera::detail {

// The evaluation of a tree. One thread at a time *pumps*: begins nodes and steps them, depth first, and records what
// they want of the device. Whatever ends elsewhere (a command, work of the host's, an inner run) posts an event; the
// thread that pumps takes it, or the poster becomes that thread. So no lock is held while nodes work, and nobody waits
// for anybody.
//
// It is over when the root has its value, or something has failed, and nothing of it is on its way any more: no
// command, no function of the program's. Only then is anybody told.
class RunState final : public Evaluation, public std::enable_shared_from_this<RunState> {
 public:
  static std::shared_ptr<RunState> create(NodePtr root, RunOptions options);

  void start();
  void adopt(const Ref<engine::Work>& command, std::exception_ptr why);

  // What Run offers.
  Status poll();
  bool is_over() const noexcept { return is_over_.load(std::memory_order_acquire); }
  bool wait(engine::Clock::time_point until);
  bool cancel(Errc reason, std::string_view why);
  void cancel_after(std::chrono::nanoseconds time);
  bool add_observer(Run::Observer& observer);
  bool remove_observer(Run::Observer& observer);
  const std::exception_ptr& failure() const noexcept { return failure_; }
  NodePtr& root() noexcept { return root_; }

  // Evaluation.
  bool has_room(std::size_t bytes) override;
  TensorHandle make(const Shape& shape, DType dtype) override;
  void run(const KernelWork& work) override;
  TensorHandle upload(const Shape& shape, DType dtype, std::span<const std::byte> bytes,
                      std::shared_ptr<const void> owner) override;
  bool download(const TensorHandle& tensor, std::span<std::byte> to, OperationNode& node) override;
  void add_child(OperationNode& parent, NodePtr child) override;
  void after_device(OperationNode& node) override;
  void hold(OperationNode& node) override;
  void wake(OperationNode& node, std::exception_ptr failure) override;
  void execute(std::function<void()> function) override;
  void on_stop(std::function<void()> function) override;
  void expect_sound(const TensorHandle& tensor) override;
  RunOptions inner_options() override;
  engine::DeviceState& device() override { return *device_; }
  bool runs_on(const engine::DeviceState& device) override {
    return &device == device_.get() || options_.keeps_to_stream;
  }
  std::shared_ptr<Evaluation> share() override { return shared_from_this(); }
  void add_inner(const Run& run) override;
  void task_awaits(const OperationNode& node, const Run& run) override;
  void task_awaits(const OperationNode& node, const Ref<engine::Work>& command) override;

  // For SharedOperation. The pumping thread steps its parts; waits for what another run makes; stops, if it was to be
  // when nobody else waits for what it makes.
  void step_again(OperationNode& node);
  void waits_for(const std::shared_ptr<SharedOperation>& shared);
  void stop_if_asked();
  bool is_stopping() const noexcept { return is_stopping_.load(std::memory_order_acquire); }
  // The pumping thread: the node's step is called again when these commands are over, however they ended.
  void after_commands(OperationNode& node, const std::vector<Ref<engine::Work>>& commands);
  // Any thread: all that was recorded is submitted; the commands so far.
  std::vector<Ref<engine::Work>> submitted();

 private:
  struct Item {
    OperationNode* node;
    bool is_begin;
  };
  struct Event {
    OperationNode* node = nullptr;  // to be stepped, or to fail
    std::exception_ptr failure;
    std::uint64_t command = 0;  // the number of one that is over
    bool is_work = false;       // the node's work() is over
  };
  // A node that waits for commands: all up to a number, or foreign ones.
  struct Parked {
    OperationNode* node;
    std::uint64_t up_to;
    bool has_work;  // work() comes first
  };
  // What a task in it waits for: one of them.
  struct Awaited {
    std::weak_ptr<RunState> run;
    Ref<engine::Work> command;
  };
  struct Stop {
    Errc reason;
    std::string why;
  };
  friend class SharedOperation;
  class Watch;  // NOLINT(cppcoreguidelines-virtual-class-destructor): it is final
  struct Free;
  friend class PutOff;

  RunState() = default;
  void close() noexcept;
  void begin_children(OperationNode& node) override;
  bool step_leaves(OperationNode& node);
  void put_deepest_first(std::vector<Item>::iterator begun);

  void post(Event event);
  void pump(bool is_caller);
  void pump_here(bool is_caller);
  void turn();
  void step(OperationNode& node, bool is_begin);
  void fail(std::exception_ptr why, std::uint64_t order = 0);
  void stop_inner(Errc reason, std::string_view why);
  void take(Event& event);
  void collect();
  bool is_moving();
  void look_again();
  void watch(const Ref<engine::Work>& command, bool is_foreign);
  void unpark();
  void park(OperationNode& node, bool has_work);
  bool is_waiting_for(std::uint64_t up_to) const;
  OperationNode* hand_out(std::vector<OperationNode*>& works, bool is_caller);
  Event work(OperationNode& node) noexcept;
  bool mark_stopped(Errc reason, std::string_view why, std::vector<std::shared_ptr<RunState>>& inner,
                    std::vector<std::shared_ptr<RunState>>& makers);
  SharedOperation::Making makes_for_others(std::vector<std::shared_ptr<const void>>& seen) const;
  // Under the lock: a source is begun, by the pumping thread.
  void make_shared_value(const std::shared_ptr<SharedOperation>& shared, OperationNode& joint);
  void throw_if_stopped() const;
  bool has_inside(const std::shared_ptr<RunState>& run) const;
  std::vector<std::shared_ptr<RunState>> unfinished_inner();
  template <class F>
  bool visit_inner(F&& visit);
  bool try_end(std::unique_lock<std::mutex>& lock);
  std::shared_ptr<engine::Scheduler> helpless_scheduler();
  void task_awaits(const OperationNode& node, Awaited awaited);
  bool find_awaited(std::shared_ptr<RunState>* run, Ref<engine::Work>* command, std::uint64_t* change);
  Ref<engine::Work> find_command(std::uint64_t* number, std::shared_ptr<RunState>* owner);

  NodePtr root_;
  RunOptions options_;
  Ref<engine::DeviceState> device_;
  Recorder recorder_;

  // The pumping thread's.
  std::vector<Item> items_;
  std::vector<Parked> parked_;
  std::vector<OperationNode*> works_;  // to be done when the pumping is over
  std::vector<Ref<engine::Work>> new_commands_;
  std::size_t collected_ = 0;  // commands of the recorder that are watched
  std::uint64_t last_command_ = 0;
  std::size_t held_ = 0;    // nodes that wait for something outside
  std::size_t unseen_ = 0;  // bytes that nodes have taken since the last look at the device's memory
  // There is no memory for what comes next, and something is on its way that will give some back: nothing is begun or
  // stepped until then.
  bool is_starved_ = false;
  bool looks_again_ = false;  // a timer is set
  bool has_value_ = false;
  std::exception_ptr failure_;
  std::uint64_t failure_order_ = 0;

  std::mutex mutex_;  // of the rest
  std::condition_variable changed_;
  std::vector<Event> events_;
  bool is_pumping_ = true;
  struct Outstanding {
    std::uint64_t number;
    Ref<engine::Work> command;
    bool is_foreign;
  };
  std::vector<Outstanding> outstanding_;
  std::vector<std::weak_ptr<RunState>> inner_;
  std::uint64_t inner_changes_ = 0;
  std::unordered_map<const OperationNode*, Awaited> awaited_;  // by tasks
  std::uint64_t awaits_ = 0;                                   // how often that has changed
  std::vector<std::function<void()>> stops_;
  std::vector<std::weak_ptr<SharedOperation>> shared_;          // that it makes
  std::vector<std::weak_ptr<SharedOperation>> awaited_shared_;  // that others make
  std::optional<Stop> asked_;                                   // to stop, as soon as what it makes for others is made
  std::exception_ptr stopped_;                                  // by cancel()
  bool keeps_values_ = false;                                   // then: others want what it has made
  std::atomic<std::size_t> working_{0};                         // functions of the program's that run or are about to
  std::atomic<bool> is_stopping_{false};  // it was stopped or has failed: functions that have not begun do not begin
  std::vector<Run::Observer*> observers_;
  std::optional<engine::Timer::Key> deadline_;
  std::atomic<bool> is_over_{false};
  std::optional<std::stop_callback<std::function<void()>>> on_stop_;
};

// This run and those inside of it, each before those inside of it, until the visitor returns true. They may be a
// million, one in the other.
template <class F>
bool RunState::visit_inner(F&& visit) {
  if (visit(*this)) return true;
  std::vector<std::shared_ptr<RunState>> left = unfinished_inner();
  while (!left.empty()) {
    const std::shared_ptr<RunState> run = std::move(left.back());
    left.pop_back();
    if (visit(*run)) return true;
    for (std::shared_ptr<RunState>& inner : run->unfinished_inner()) left.push_back(std::move(inner));
  }
  return false;
}

// How long a thread waits for a command that a task waits for, before it looks whether the task still does.
constexpr std::chrono::milliseconds longest_wait{5};
// Before this thread waits: it pumps the runs that it has put off.
void catch_up();
// Where an operation runs.
Ref<engine::DeviceState> device_for(const OperationNode& root, const RunOptions& options);
// The stream of an operation that names none (streams.cpp).
Stream stream_for(engine::DeviceState& device, const RunOptions& options);
// Whether the program has chosen how. Else nobody can see the streams, and a call by itself can do without.
bool has_stream_policy() noexcept;

}  // namespace tessera::detail
