#pragma once

#include <tessera/operation_node.hpp>

#include "operation/recorder.hpp"
#include "runtime/device_state.hpp"
#include "runtime/timer.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
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
  void adopt(const Ref<Node>& command, std::exception_ptr why);

  // What Run offers.
  Status poll();
  bool is_over() const noexcept { return is_over_.load(std::memory_order_acquire); }
  bool wait(Clock::time_point until);
  bool cancel(Errc reason, std::string_view why);
  void cancel_after(std::chrono::nanoseconds time);
  bool add_observer(Run::Observer& observer);
  bool remove_observer(Run::Observer& observer);
  const std::exception_ptr& failure() const noexcept { return failure_; }
  NodePtr& root() noexcept { return root_; }

  // Evaluation.
  TensorHandle make(const Shape& shape, DType dtype) override;
  void run(const KernelWork& work) override;
  TensorHandle upload(const Shape& shape, DType dtype, std::span<const std::byte> bytes,
                      std::shared_ptr<const void> owner) override;
  void download(const TensorHandle& tensor, std::span<std::byte> to, OperationNode& node) override;
  void add_child(OperationNode& parent, NodePtr child) override;
  void after_device(OperationNode& node) override;
  void hold(OperationNode& node) override;
  void wake(OperationNode& node, std::exception_ptr failure) override;
  void execute(std::function<void()> function) override;
  void on_stop(std::function<void()> function) override;
  void expect_sound(const TensorHandle& tensor) override;
  RunOptions inner_options() override;
  DeviceState& device() override { return *device_; }
  std::shared_ptr<Evaluation> share() override { return shared_from_this(); }
  void add_inner(const Run& run) override;
  void task_awaits(const OperationNode& node, const Run& run) override;
  void task_awaits(const OperationNode& node, const Ref<Node>& command) override;

  // For SharedOperation. The pumping thread: begins its source; steps its parts.
  void make_shared_value(const std::shared_ptr<SharedOperation>& shared, OperationNode& joint);
  void step_again(OperationNode& node);
  // The pumping thread: the node's step is called again when these commands are over, however they ended.
  void after_commands(OperationNode& node, const std::vector<Ref<Node>>& commands);
  // Any thread: all that was recorded is submitted; the commands so far.
  std::vector<Ref<Node>> submitted();

 private:
  struct Item {
    OperationNode* node;
    bool is_begin;
  };
  struct Event {
    OperationNode* node = nullptr;  // to be stepped, or to fail
    std::exception_ptr failure;
    std::uint64_t command = 0;  // the number of one that is over
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
    Ref<Node> command;
  };
  class Watch;  // NOLINT(cppcoreguidelines-virtual-class-destructor): it is final
  struct Free;
  friend class PutOff;

  RunState() = default;
  void close() noexcept;
  void begin_children(OperationNode& node) override;

  void post(Event event);
  void pump(bool is_caller);
  void pump_here(bool is_caller);
  void turn();
  void step(const Item& item);
  void fail(std::exception_ptr why, std::uint64_t order = 0);
  void stop_inner(Errc reason, std::string_view why);
  void take(Event& event);
  void collect();
  void watch(const Ref<Node>& command, bool is_foreign);
  void unpark();
  void park(OperationNode& node, bool has_work);
  bool is_waiting_for(std::uint64_t up_to) const;
  OperationNode* hand_out(std::vector<OperationNode*>& works, bool is_caller);
  Event work(OperationNode& node) noexcept;
  bool mark_stopped(Errc reason, std::string_view why, std::vector<std::shared_ptr<RunState>>& inner);
  std::vector<std::shared_ptr<RunState>> unfinished_inner();
  template <class F>
  bool visit_inner(F&& visit);
  bool try_end(std::unique_lock<std::mutex>& lock);
  std::shared_ptr<Scheduler> helpless_scheduler();
  void task_awaits(const OperationNode& node, Awaited awaited);
  bool find_awaited(std::shared_ptr<RunState>* run, Ref<Node>* command, std::uint64_t* change);
  Ref<Node> find_command(std::uint64_t* number, std::shared_ptr<RunState>* owner);

  NodePtr root_;
  RunOptions options_;
  Ref<DeviceState> device_;
  Recorder recorder_;

  // The pumping thread's.
  std::vector<Item> items_;
  std::vector<Parked> parked_;
  std::vector<OperationNode*> works_;  // to be done when the pumping is over
  std::vector<Ref<Node>> new_commands_;
  std::size_t collected_ = 0;  // commands of the recorder that are watched
  std::uint64_t last_command_ = 0;
  std::size_t held_ = 0;  // nodes that wait for something outside
  bool has_value_ = false;
  std::exception_ptr failure_;
  std::uint64_t failure_order_ = 0;
  std::vector<std::weak_ptr<SharedOperation>> shared_;  // that it makes

  std::mutex mutex_;  // of the rest
  std::condition_variable changed_;
  std::vector<Event> events_;
  bool is_pumping_ = true;
  struct Outstanding {
    std::uint64_t number;
    Ref<Node> command;
    bool is_foreign;
  };
  std::vector<Outstanding> outstanding_;
  std::vector<std::weak_ptr<RunState>> inner_;
  std::uint64_t inner_changes_ = 0;
  std::unordered_map<const OperationNode*, Awaited> awaited_;  // by tasks
  std::uint64_t awaits_ = 0;                                   // how often that has changed
  std::vector<std::function<void()>> stops_;
  std::exception_ptr stopped_;            // by cancel()
  std::atomic<bool> is_stopping_{false};  // it was stopped or has failed: functions that have not begun do not begin
  std::vector<Run::Observer*> observers_;
  std::optional<Timer::Key> deadline_;
  std::atomic<bool> is_over_{false};
  std::optional<std::stop_callback<std::function<void()>>> on_stop_;
};

// How long a thread waits for a command that a task waits for, before it looks whether the task still does.
constexpr std::chrono::milliseconds longest_wait{5};
// Before this thread waits: it pumps the runs that it has put off.
void catch_up();
// Where an operation runs.
Ref<DeviceState> device_for(const OperationNode& root, const RunOptions& options);
// The stream of an operation that names none (streams.cpp).
Stream stream_for(DeviceState& device, const RunOptions& options);
// Whether the program has chosen how. Else nobody can see the streams, and a call by itself can do without.
bool has_stream_policy() noexcept;

}  // namespace tessera::detail
