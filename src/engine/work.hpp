#pragma once

#include <tessera/command.hpp>
#include <tessera/detail/handle.hpp>
#include <tessera/stream.hpp>

#include "core/failure.hpp"
#include "core/spin_lock.hpp"
#include "driver/driver.hpp"
#include "engine/hazards.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace tessera::detail::engine {

class WorkPool;
struct Batch;
struct PipelineRun;
struct Storage;
struct TraceRecord;

using Clock = std::chrono::steady_clock;

// One piece of work of the queue: what every Command, read, write, map and free is while it is on its way.
//
// Life: submit takes a node from the pool and puts it into the order; when nothing blocks it, it is *ready* and goes to
// the scheduler; a thread *executes* it; finishing *retires* it from the order and *settles* it for those who look on.
// A cancelled node settles at once but retires in its turn, so that what comes after it still waits for what came
// before it.
struct alignas(64) Work final : Ordered {
  enum class Kind : std::uint8_t {
    kernel,   // a launch of the driver
    host,     // a function on the host: reads, writes, the ends of maps, barriers and calls of a pipeline
    release,  // gives a buffer's memory back
    join,     // a run of a pipeline: over when all its groups are
    loan,     // gives a buffer to another device, or takes it back (loan.hpp)
  };

  static constexpr int no_stage = -1;

  // The state word: a Status or `ending`, and flags.
  static constexpr std::uint32_t status_mask = 0x7;
  static constexpr std::uint32_t ending = 0x7;        // somebody is cancelling it: pending to all others
  static constexpr std::uint32_t observed = 0x100;    // there are waiters or observers
  static constexpr std::uint32_t stop_asked = 0x200;  // cancel() came while it ran
  static constexpr std::uint32_t claimed = 0x800;     // somebody ends it, a run whose groups were stopped
  static constexpr std::uint32_t late = 0x400;        // many commands came after it: its end must be remembered
  static constexpr std::uint32_t early = 0x1000;      // it was settled before its turn to leave the order

  Status status() const noexcept;
  bool is_settled() const noexcept { return is_settled(state.load(std::memory_order_acquire)); }
  static bool is_settled(std::uint32_t word) noexcept {
    return (word & status_mask) != ending && is_terminal(static_cast<Status>(word & status_mask));
  }

  // pending -> running; false if it was cancelled before.
  bool try_start() noexcept;
  // For a run: one of its groups starts. False if the run was cancelled, or is to stop.
  bool try_start_part() noexcept;
  // pending -> ending; the caller must settle() it. False if it has started or is over.
  bool try_begin_ending() noexcept;
  // A hint: one may come the next moment.
  bool is_observed() const noexcept { return (state.load(std::memory_order_relaxed) & observed) != 0; }
  void ask_to_stop() noexcept { state.fetch_or(stop_asked, std::memory_order_relaxed); }
  bool is_asked_to_stop() const noexcept { return (state.load(std::memory_order_relaxed) & stop_asked) != 0; }

  // For a run: whoever gets it ends the run and must settle() it.
  bool try_claim() noexcept { return (state.fetch_or(claimed, std::memory_order_acq_rel) & claimed) == 0; }

  // The final state, seen by all; `failure` and `outcome` must be set. True if there are waiters and observers: tell()
  // wakes and tells them. None can come in between.
  bool settle() noexcept { return settle(0); }
  // The same before it has left the order; leave_early() comes when it has, and memory that only it kept is free.
  bool settle_early() noexcept;
  void leave_early() noexcept;
  bool is_early() const noexcept { return (state.load(std::memory_order_acquire) & early) != 0; }
  void tell() noexcept;
  // The first half of it: wakes waiters. True if there are observers, which the caller must see to it are told.
  bool wake() noexcept;
  // False if it is settled already.
  bool mark_late() noexcept { return !is_settled(state.fetch_or(late, std::memory_order_acq_rel)); }

  // Adds an observer; false if the node is settled, and then it will not be told. remove_observer is false if the
  // observer has been told, or is being told this moment.
  bool add_observer(Observer& observer);
  bool remove_observer(Observer& observer);
  // Sleeps until it is settled; false at the end of the time.
  bool park(Clock::time_point until);

  std::string describe() const;  // "[relu] command 12", "stage 2 [relu] command 12"

  // What every node has. A command that was done at once has nothing else: these fill the first cache lines.
  std::atomic<std::uint32_t> refs{0};
  std::atomic<std::uint32_t> state{0};
  CommandId id = 0;  // 0: no command, but a read, write, map or free
  std::string_view label;
  core::FailurePtr failure;  // at its end, why it failed
  Status outcome = Status::pending;
  unsigned device_number = 0;
  WorkPool* pool = nullptr;
  Work* next_free = nullptr;
  std::size_t slab = 0;  // of the pool's

  // Set before the node enters the order.
  Ref<DeviceState> device;  // until it is back in the pool; null for a command that was done at once
  Kind kind = Kind::kernel;
  Priority priority = Priority::normal;
  bool heals = true;  // whether it writes its outputs whole
  driver::Launch launch;
  core::InlineVector<Storage*, 3> inputs;   // what it reads
  core::InlineVector<Storage*, 1> outputs;  // what it writes
  std::uint64_t cost = 0;                   // nanoseconds, roughly: see worker_pool.cpp
  Clock::time_point deadline = Clock::time_point::max();
  Ref<StreamState> stream;
  std::function<void()> host;
  std::unique_ptr<TraceRecord> trace;
  std::array<Edge, 4> edges;
  std::vector<Edge> more_edges;  // instead, if there are more; keeps its room

  // Of a run of a pipeline.
  Work* join = nullptr;              // the run that this is a group of; it outlives its groups' retirement
  std::size_t group = 0;             // which group
  int stage = no_stage;              // its first stage
  std::unique_ptr<PipelineRun> run;  // of a join

  // On a device with a queue.
  std::atomic<std::uint64_t> flight{0};  // its number there; 0: it has not been started
  std::unique_ptr<Batch> batch;          // instead of the launch: those of a whole run

  // While it runs.
  std::int64_t pieces = 1;
  std::unique_ptr<std::byte[]> partial;       // what the launch's partial results are in, if it has some
  std::atomic<std::int64_t> pieces_taken{0};  // by who started it, and by its helpers (execute.cpp)
  std::atomic<std::int64_t> pieces_left{0};
  core::SpinLock failure_lock;  // several pieces may fail

  // The scheduler's, under its lock.
  Work* previous = nullptr;
  Work* next = nullptr;
  unsigned helpers_wanted = 0;
  enum class Place : std::uint8_t { nowhere, ready, held } place = Place::nowhere;

  // The observers, under the lock of the node's parking place.
  Observer* observers = nullptr;

 private:
  bool settle(std::uint32_t flags) noexcept;
};

// Whether this thread is telling an observer, that is, in code of the user's.
bool is_in_observer() noexcept;

// "stage 2 ", or nothing.
std::string describe_stage(int stage);

// Nodes of one device. Memory once taken stays, also after the device: handles of its commands may outlive it.
class WorkPool {
 public:
  static WorkPool& acquire();          // for a new device
  static void retire(WorkPool& pool);  // for the next device

  // A node with one reference, the engine's, which finish() drops; and one of a command that is over, with the first
  // reference for its handle. Under the order lock.
  Work& take(DeviceState& device);
  Work& take_ended(Status outcome);
  // Any thread.
  void give_back(Work& node) noexcept;

  // The nodes of commands that are not settled, and all nodes that were settled early and have not left the order, in
  // the order in which they came. Under the order lock.
  std::vector<Ref<Work>> pending_commands();
  std::vector<Ref<Work>> early_nodes();
  // A reference to a node that may be on its way back to the pool: empty if it is.
  static Ref<Work> try_share(Work& node) noexcept;

 private:
  static constexpr std::size_t slab_size = 64;
  struct Slab {
    std::unique_ptr<Work[]> nodes;
    bool may_be_pending = false;  // whether a node was taken since all of them were seen to be over
  };

  Work& pop_free();
  void add_slab();
  template <class Wants>
  std::vector<Ref<Work>> unfinished(Wants&& wants);

  std::vector<Slab> slabs_;
  Work* free_ = nullptr;      // a list
  std::size_t popped_ = 0;    // since that list was begun
  std::vector<Work*> older_;  // more such lists
  std::uint64_t last_serial_ = 0;
  alignas(64) std::atomic<Work*> returned_{nullptr};
};

}  // namespace tessera::detail::engine
