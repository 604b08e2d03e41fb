#pragma once

#include <tessera/detail/handle.hpp>
#include <tessera/detail/observer.hpp>
#include <tessera/error.hpp>
#include <tessera/status.hpp>
#include <tessera/stream_options.hpp>

#include "core/failure.hpp"
#include "core/inline_vector.hpp"
#include "core/spin_lock.hpp"
#include "driver/driver.hpp"
#include "engine/hazards.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::detail::engine {

class WorkPool;
struct LaunchSequence;
struct Storage;
struct TraceRecord;

using Clock = std::chrono::steady_clock;

// Follows works that belong together, such as the groups of a pipeline's run, and the barrier that ends them. Every
// call comes from the thread that moves the work on.
class Listener {
 public:
  // The work is next. False: what it belongs to was cancelled or is stopping, and so is the work, for this reason.
  virtual bool may_start(const Work& work, Errc* reason) noexcept = 0;
  virtual void started(const Work& work) noexcept = 0;
  // A device's queue has taken the work, under this number.
  virtual void queued(const Work& work, std::uint64_t number) noexcept = 0;
  // Whether a work that runs should stop between two pieces.
  virtual bool is_stopping() const noexcept = 0;
  // The work has its outcome and is about to leave the order; this is the last call for it. Returns the barrier if that
  // has finished early, with its outcome set: the caller must settle it.
  virtual Ref<Work> finished(const Work& work) noexcept = 0;
  // The barrier's turn has come: every work has left the order. Sets its outcome, unless it is settled. The last call.
  virtual void reached(Work& barrier) noexcept = 0;

 protected:
  ~Listener() = default;
};

// One piece of work in flight: what every command, read, write, map and free is.
//
// Life: a submission takes a work from the pool and gives it a position in the order; when nothing blocks it, it is
// *ready* and goes to the scheduler; a thread *executes* it; finishing *retires* it from the order and *settles* it for
// waiters and observers. A cancelled work settles at once but retires in its turn, so that what comes after it still
// waits for what came before it.
struct alignas(64) Work final : Ordered {
  enum class Kind : std::uint8_t {
    kernel,   // a launch of the driver, or several
    host,     // a function on the host
    release,  // returns a buffer's memory to the pool
    barrier,  // nothing of its own: finished when everything before it is
  };

  // The state word: a Status or `ending`, and flags.
  static constexpr std::uint32_t status_mask = 0x7;
  static constexpr std::uint32_t ending = 0x7;        // being cancelled: pending to everyone else
  static constexpr std::uint32_t observed = 0x100;    // has waiters or observers
  static constexpr std::uint32_t stop_asked = 0x200;  // cancel() came while it ran
  static constexpr std::uint32_t late = 0x400;        // many commands came after it: its outcome must be remembered
  static constexpr std::uint32_t claimed = 0x800;     // a barrier that a thread is about to settle
  static constexpr std::uint32_t early = 0x1000;      // settled before its turn to leave the order

  Status status() const noexcept;
  bool is_settled() const noexcept { return is_settled(state.load(std::memory_order_acquire)); }
  static bool is_settled(std::uint32_t word) noexcept {
    return (word & status_mask) != ending && is_terminal(static_cast<Status>(word & status_mask));
  }

  // pending -> running; false if it was cancelled before.
  bool try_start() noexcept;
  // For a barrier: one of its works starts. False if the barrier was cancelled or is to stop.
  bool try_start_part() noexcept;
  // pending -> ending; the caller must settle() it. False if it has started or finished.
  bool try_begin_ending() noexcept;
  // A hint: an observer may come the next moment.
  bool is_observed() const noexcept { return (state.load(std::memory_order_relaxed) & observed) != 0; }
  void ask_to_stop() noexcept { state.fetch_or(stop_asked, std::memory_order_relaxed); }
  bool is_asked_to_stop() const noexcept { return (state.load(std::memory_order_relaxed) & stop_asked) != 0; }
  // For a barrier: the caller that gets true must settle() it.
  bool try_claim() noexcept { return (state.fetch_or(claimed, std::memory_order_acq_rel) & claimed) == 0; }

  // Publishes the final state; `failure` and `outcome` must be set. True if there are waiters or observers: notify()
  // must be called. None can be added in between.
  bool settle() noexcept { return settle(0); }
  // The same before it has left the order; leave_early() follows when it has, and the memory that only it kept is free.
  bool settle_early() noexcept;
  void leave_early() noexcept;
  bool is_early() const noexcept { return (state.load(std::memory_order_acquire) & early) != 0; }
  // Wakes waiters and calls observers.
  void notify() noexcept;
  // Only wakes waiters. True if there are observers, whom the caller must have called.
  bool wake() noexcept;
  // False if it is settled already.
  bool mark_late() noexcept { return !is_settled(state.fetch_or(late, std::memory_order_acq_rel)); }

  // Adds an observer; false if the work is settled: then the observer is not called. remove_observer is false if the
  // observer has been called, or is being called this moment.
  bool add_observer(Observer& observer);
  bool remove_observer(Observer& observer);
  // Sleeps until it is settled; false on timeout.
  bool park(Clock::time_point until);

  std::string describe() const;  // "[relu] command 12", "stage 2 [relu] command 12"

  // What every work has. A command that was done at once has nothing else: these fill the first cache lines.
  std::atomic<std::uint32_t> refs{0};
  std::atomic<std::uint32_t> state{0};
  CommandId id = 0;  // 0: not a command, but a read, write, map or free
  std::string_view label;
  core::FailurePtr failure;  // once finished: why it failed
  Status outcome = Status::pending;
  unsigned device_number = 0;
  WorkPool* pool = nullptr;
  Work* next_free = nullptr;
  std::size_t slab = 0;  // of the pool

  // Set before the work enters the order.
  Ref<DeviceState> device;  // until it is back in the pool; null for a command that was done at once
  Kind kind = Kind::kernel;
  Priority priority = Priority::normal;
  bool heals = true;          // it writes its outputs whole
  bool is_immediate = false;  // runs at once on the thread that unblocks it: it only passes memory on
  std::string_view context;   // the beginning of messages about it: "stage 2 "
  driver::Launch launch;
  core::InlineVector<Storage*, 3> inputs;
  core::InlineVector<Storage*, 1> outputs;
  std::uint64_t cost = 0;  // estimated nanoseconds
  Clock::time_point deadline = Clock::time_point::max();
  Ref<StreamState> stream;
  std::function<void()> host;
  std::unique_ptr<TraceRecord> trace;
  std::array<Edge, 4> edges;
  std::vector<Edge> more_edges;  // instead, if there are more; keeps its capacity

  // Whom it tells about itself; for a barrier guarded by `failure_lock`, since cancel() may come at any time.
  Listener* listener = nullptr;
  std::size_t part = 0;  // its number there

  // On a device with a queue.
  std::atomic<std::uint64_t> queue_number{0};  // 0: not started
  std::unique_ptr<LaunchSequence> sequence;    // instead of the launch: several, started together

  // While it runs on the host's threads: its pieces (pieces.cpp).
  struct Pieces {
    std::int64_t count = 1;
    std::unique_ptr<std::byte[]> partial;  // memory for partial results, if the launch has any
    std::atomic<std::int64_t> taken{0};    // by the thread that started it, and by its helpers
    std::atomic<std::int64_t> left{0};
  };
  Pieces pieces;
  core::SpinLock failure_lock;  // several pieces may fail

  // The scheduler's, under its lock.
  struct Scheduled {
    enum class Where : std::uint8_t { nowhere, ready, held };
    Work* previous = nullptr;
    Work* next = nullptr;
    unsigned helpers_wanted = 0;
    Where where = Where::nowhere;
  };
  Scheduled scheduled;

  // Under the lock of the work's parking lot.
  Observer* observers = nullptr;

 private:
  bool settle(std::uint32_t flags) noexcept;
};

// Whether this thread is inside an observer, that is, in user code.
bool is_in_observer() noexcept;

// The works of one device. Memory once taken stays, even after the device: handles of its commands may outlive it.
class WorkPool {
 public:
  static WorkPool& acquire();          // for a new device
  static void retire(WorkPool& pool);  // for the next device

  // A work with one reference, the engine's, which finish() drops; and a finished command with one reference, for its
  // handle. Under the order lock.
  Work& take(DeviceState& device);
  Work& take_ended(Status outcome);
  // Any thread.
  void give_back(Work& work) noexcept;

  // The commands that are not settled, and all works that were settled early and have not left the order, in the order
  // in which they came. Under the order lock.
  std::vector<Ref<Work>> pending_commands();
  std::vector<Ref<Work>> early_works();
  // A reference to a work that may be on its way back to the pool: empty if it is.
  static Ref<Work> try_share(Work& work) noexcept;

 private:
  static constexpr std::size_t slab_size = 64;
  struct Slab {
    std::unique_ptr<Work[]> works;
    bool may_be_pending = false;  // a work was taken since all of them were seen finished
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
