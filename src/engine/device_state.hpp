#pragma once

#include <tessera/device.hpp>

#include "driver/driver.hpp"
#include "engine/device_queue.hpp"
#include "engine/memory/memory_pool.hpp"
#include "engine/memory/storage.hpp"
#include "engine/schedule/scheduler.hpp"
#include "engine/work.hpp"
#include "plan/call_cache.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tessera::detail::engine {

struct PipelineState;

// How often fork() came between the first process and this one: a device's threads are only where it was opened.
extern std::atomic<unsigned> fork_count;

// The callbacks that have not returned. Whoever waits for those that there are is not kept by those that come
// meanwhile: they are counted in two generations that take turns.
class CallbackCount {
 public:
  // For one that is to come; its generation, for end().
  unsigned begin() noexcept {
    const unsigned generation = generation_.load() % 2;
    ++counts_[generation];
    return generation;
  }
  void end(unsigned generation) noexcept {
    if (--counts_[generation] == 0) counts_[generation].notify_all();
  }
  void wait();

 private:
  std::mutex mutex_;  // of those who wait
  std::atomic<unsigned> generation_{0};
  std::array<std::atomic<std::uint32_t>, 2> counts_{};
};

// One device with all that belongs to it. Lives as long as a handle, a buffer or a pending command of it.
struct DeviceState {
  DeviceState(std::unique_ptr<driver::Driver> with_driver, std::shared_ptr<Scheduler> with_scheduler);
  ~DeviceState();
  DeviceState(const DeviceState&) = delete;
  DeviceState& operator=(const DeviceState&) = delete;

  // plan::CallCache of kernels (submit.cpp).
  struct Call {
    std::string_view kernel;
    const tile::Kernel* tile_kernel;  // instead of a name, if not null
    const BufferList& inputs;
    const Buffer& output;
    kernels::Given params;
    StreamState* stream = nullptr;
    std::span<const std::int64_t> tile = {};
    const kernels::Kernel* known = nullptr;  // the kernel itself, if it has been looked up
  };
  Ref<Work> submit(const Call& call);
  // The same without a command for what was so little that it is done: nothing then. Throws what is wrong with it.
  Ref<Work> start(const Call& call);
  void run(const Call& call);
  // A call that has passed all checks but those that need the order lock.
  struct Prepared {
    const kernels::Kernel* kernel = nullptr;
    const plan::CallProgram* program = nullptr;
    core::InlineVector<Storage*, 3> inputs;
    Storage* output = nullptr;
    driver::Launch launch;
  };

  // Work of the host's on a buffer, or on none, in its place in the order. run_host blocks until it is done, and throws
  // if it failed; submit_host does not, and returns the node, or nothing if it was small and has been done.
  struct HostWork {
    const char* label;
    Storage* storage;
    bool writes = false;  // else it reads
    bool heals = false;   // it writes all of it; else the buffer must not be poisoned
    std::int64_t bytes = 0;
    std::function<void()> function;
  };
  void run_host(HostWork work);
  Ref<Work> submit_host(HostWork work);
  // A node that does nothing yet, without a place. Under the order lock.
  Work& take_host_node(const char* label);
  // Gives the memory to the host, blocks until it is free; unmap() takes the node that is returned.
  Ref<Work> map(Storage& storage, bool writes);
  // Gives the storage's memory back when all that uses it is over; takes over a reference to the storage.
  void release_in_order(Storage& storage) noexcept;

  // Commands by number (commands.cpp). The node, or how the command ended if there is none any more.
  struct Ended {
    Status status;
    core::FailurePtr failure;
  };
  Ref<Work> find(CommandId id, Ended* ended);
  void remember(CommandId id, Status status, const core::FailurePtr& failure);
  // Under the order lock. number_command: `node` is that of command last_id.
  void next_id();
  void remember_locked(CommandId id, Status status, const core::FailurePtr& failure);
  void number_command(Work& node);

  // A command that has ended before it could begin. `failure` says why.
  Ref<Work> refuse(std::string_view label, Status status, core::FailurePtr failure);

  // "device 2, simulated AMD EPYC"
  std::string describe() const;
  std::string name() const;  // "llvmpipe (vulkan)"

  bool is_own_process() const noexcept { return process == fork_count.load(std::memory_order_relaxed); }
  // Errc::unsupported in a child of the process that opened the device.
  void expect_own_process() const {
    if (!is_own_process()) [[unlikely]]
      throw_other_process();
  }
  [[noreturn]] void throw_other_process() const;

  void synchronize();
  // Sees to it that cancelled nodes leave the order, but for those that wait for something that is not over.
  void let_early_nodes_go();
  // The last handle goes, and what keeps the device with it: pipelines that have a name, the attachment (device.cpp).
  void drop_kept();

  const std::unique_ptr<driver::Driver> driver;
  const std::shared_ptr<Scheduler> scheduler;
  const std::unique_ptr<DeviceQueue> queue;  // null: the scheduler's threads do the work
  plan::CallCache calls;
  MemoryPool memory;
  std::atomic<std::uint32_t> refs{1};
  std::atomic<std::uint32_t> handles{0};      // of these, Device objects of the user's
  const unsigned number;                      // tells devices apart in traces
  const unsigned process = fork_count;        // which opened it
  std::atomic<std::uint32_t> early_nodes{0};  // that were settled and have not left the order

  // The order lock: one submission at a time finds its place. Guards the hazards of all buffers and the streams'
  // last nodes, the node pool and the numbers below. Held for some tens of nanoseconds.
  alignas(64) core::SpinLock order;
  WorkPool& nodes;
  CommandId last_id = 0;
  std::vector<Work*> recent;  // the nodes of the last commands that were not done at once, by id modulo slots
  // How those ended that did not just complete in time: those that failed, were cancelled, or took long.
  struct Outcome {
    Ended ended;
    CommandId at;  // the last command when it ended
  };
  std::unordered_map<CommandId, Outcome> outcomes;
  std::size_t forget_at = 1024;
  std::unordered_map<CommandId, Work*> outdated;  // pending ones whose place in `recent` is another's now
  std::size_t tidy_at = 1024;
  std::vector<std::exception_ptr> callback_failures;
  CallbackCount callbacks;
  std::vector<Ordered*> earlier;  // room for place()

  // Pipelines that have a name. They keep buffers, which keep the device: they go with its last handle.
  std::mutex commands_mutex;
  std::map<std::string, std::shared_ptr<PipelineState>, std::less<>> commands;
  // What the layer above keeps with the device: it may keep the device too, and goes with its last handle.
  core::SpinLock attachment_lock;
  std::shared_ptr<void> attachment;

 private:
  bool is_known(CommandId id, const Outcome& outcome) const noexcept;
  // What the caller wants: a command in any case; or one only if it is not done yet, to wait for; or it waits now.
  enum class Wants : std::uint8_t { command, end, end_now };
  Ref<Work> enqueue(const Call& call, Prepared& prepared, Wants wants);
  Ref<Work> start_host(HostWork& work, bool blocks);
};

// The devices there are, by their numbers: for handles of commands, which do not keep their device; and for fork(),
// which must not come while somebody holds an order lock: nobody would give it up in the child.
struct LiveDevices {
  static LiveDevices& instance();
  std::mutex mutex;
  std::unordered_map<unsigned, DeviceState*> devices;

  // Around fork(); the mutex is held in between.
  void lock_orders();
  void unlock_orders();
};

// For how many commands after its end the number of a command is known.
inline constexpr CommandId command_window = 65'536;
// Among the last so many, a command that is neither pending nor remembered has completed. Twice the window, because one
// that ends more than a window after its submission is remembered.
inline constexpr CommandId slots = 2 * command_window;

// A new buffer; `zero`: with zeros (device.cpp).
Buffer allocate(DeviceState& device, const Shape& shape, DType dtype, bool zero);

// Of a node's life (execute.cpp); execute() and assist() are declared in scheduler.hpp.
//
// Whether executing it only puts it into the device's queue, which any thread may do.
bool starts_at_once(const Work& node) noexcept;
// Has a worker do something that is ordered after nothing.
void leave_to_worker(DeviceState& device, std::string_view label, std::function<void()> work,
                     Priority priority = Priority::normal);
// Ends a node that runs; returns one that became ready and that this thread may go on with.
Work* finish(Work& node, core::FailurePtr failure) noexcept;
// Ends a pending node, for the reason given; false if it is not pending any more.
bool cancel(Work& node, Errc reason, std::string_view why);
// Asks a node that runs to stop between two pieces of its work; a run of a pipeline to start no other group.
void ask_to_stop(Work& node);
// Ends a run that was stopped, whose groups are over but have not all left the order; it has been claimed.
void end_stopped(Work& join) noexcept;
inline constexpr std::string_view too_late = "could not start before its deadline";
// Blocks until the node is settled; false at the end of the time.
bool wait(Work& node, Clock::time_point until);
// Errc::invalid_argument if this thread is in a call stage that the node comes after: it would wait for itself
// (host_call.cpp).
void expect_ends_without_call(Work& node);
// Throws why the node, which is settled, failed.
void throw_if_failed(const Work& node);
// Ends a map (submit.cpp).
void unmap(Work& end) noexcept;

// An exception left a callback on a command of this device: the next synchronize() throws it (commands.cpp).
void callback_failed(unsigned device_number, std::exception_ptr exception) noexcept;

// Launches, and tells what went wrong (submit.cpp). prepare_launch and begin_launch compile what is not; the latter
// counts the node's pieces, and gives it memory for partial results, if it needs some. finish_launch: of those, after
// all pieces.
core::FailurePtr prepare_launch(driver::Driver& driver, const driver::Launch& launch, std::string_view kernel,
                                int stage) noexcept;
core::FailurePtr begin_launch(Work& node) noexcept;
core::FailurePtr finish_launch(const Work& node) noexcept;
core::FailurePtr launch_piece(driver::Driver& driver, const driver::Launch& launch, std::int64_t piece,
                              std::string_view kernel, int stage = Work::no_stage) noexcept;
core::FailurePtr poisoned(const std::string& what, const Storage& storage);

}  // namespace tessera::detail::engine
