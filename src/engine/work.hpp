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

// How often fork() was called between the first process and this one: a device's threads exist only in the process that
// opened it.
extern std::atomic<unsigned> fork_count;

// Follows work items that belong together, such as the groups of a pipeline's run, and the barrier that ends them. Each
// call comes from the thread that executes the item.
class Listener {
 public:
  // The item is about to start. False: its run was cancelled or is stopping, so the item must be cancelled. Why, may be
  // asked only by the thread that cancels it, before finished(): until then the run cannot finish.
  virtual bool may_start(const Work& work) noexcept = 0;
  virtual Errc stop_reason() const noexcept = 0;
  virtual void started(const Work& work) noexcept = 0;
  // The code of an item that has started had to be compiled, which took this long. Its own work starts now.
  virtual void compiled(const Work& work, Clock::duration time) noexcept = 0;
  // A device queue has taken the item, under this number.
  virtual void queued(const Work& work, std::uint64_t number) noexcept = 0;
  // Whether a running item should stop between two pieces.
  virtual bool is_stopping() const noexcept = 0;
  // The item has its outcome and is about to leave the order; this is the last call for it. Returns the barrier if that
  // has finished early, with its outcome set: the caller must settle it.
  virtual Ref<Work> finished(const Work& work) noexcept = 0;
  // Every item has left the order, and now it is the barrier's turn. Sets its outcome, unless it is settled. The last
  // call of all.
  virtual void reached(Work& barrier) noexcept = 0;

 protected:
  ~Listener() = default;
};

// A work item in flight: every command, read, write, map and free is one.
//
// Life: a submission takes an item from the pool and gives it a position in the order; when nothing blocks it, it is
// *ready* and goes to the scheduler; a thread *executes* it; finishing *retires* it from the order and *settles* it for
// waiters and observers. A cancelled item settles at once but retires in its turn, so that items after it still wait
// for those before it.
struct alignas(64) Work final : Ordered {
  enum class Kind : std::uint8_t {
    kernel,   // one or more driver launches
    host,     // a function on the host
    release,  // returns a buffer's memory to the pool
    barrier,  // nothing of its own: finished when everything before it is
  };

  // The state word: a Status or `ending`, and flags.
  static constexpr std::uint32_t status_mask = 0x7;
  static constexpr std::uint32_t ending = 0x7;        // being cancelled; everyone else sees `pending`
  static constexpr std::uint32_t observed = 0x100;    // has waiters or observers
  static constexpr std::uint32_t stop_asked = 0x200;  // cancel() was called while it ran
  static constexpr std::uint32_t late =
      0x400;  // many commands have been submitted since: its outcome must be remembered
  static constexpr std::uint32_t claimed = 0x800;  // a barrier that a thread is about to settle
  static constexpr std::uint32_t early = 0x1000;   // settled before it left the order

  Status status() const noexcept;
  bool is_settled() const noexcept { return is_settled(state.load(std::memory_order_acquire)); }
  static bool is_settled(std::uint32_t word) noexcept {
    return (word & status_mask) != ending && is_terminal(static_cast<Status>(word & status_mask));
  }

  // pending -> running; false if it was cancelled before.
  bool try_start() noexcept;
  // For a barrier: one of its items starts. False if the barrier was cancelled or should stop.
  bool try_start_part() noexcept;
  // pending -> ending; the caller must settle() it. False if it has started or finished.
  bool try_begin_ending() noexcept;
  // Only a hint: an observer may be added at any moment.
  bool is_observed() const noexcept { return (state.load(std::memory_order_relaxed) & observed) != 0; }
  void ask_to_stop() noexcept { state.fetch_or(stop_asked, std::memory_order_relaxed); }
  bool is_asked_to_stop() const noexcept { return (state.load(std::memory_order_relaxed) & stop_asked) != 0; }
  // For a barrier: the caller that gets true must settle() it.
  bool try_claim() noexcept { return (state.fetch_or(claimed, std::memory_order_acq_rel) & claimed) == 0; }

  // Publishes the final state; `failure` and `outcome` must be set. True if there are waiters or observers: notify()
  // must be called. None can be added in between.
  bool settle() noexcept { return settle(0); }
  // The same before it has left the order. leave_early() follows once it has left and the memory it used is free.
  bool settle_early() noexcept;
  void leave_early() noexcept;
  bool is_early() const noexcept { return (state.load(std::memory_order_acquire) & early) != 0; }
  // Wakes waiters and calls observers, or defers that: see nested_callbacks.hpp.
  void notify() noexcept;
  void call_observers() noexcept;
  // Only wakes waiters. True if there are observers, which the caller must see to.
  bool wake() noexcept;
  // False if it is settled already.
  bool mark_late() noexcept { return !is_settled(state.fetch_or(late, std::memory_order_acq_rel)); }

  // Adds an observer; false if the item is settled, in which case the observer is not called. remove_observer returns
  // false if the observer has been called or is being called.
  bool add_observer(Observer& observer);
  bool remove_observer(Observer& observer);
  // For an item that is settled already.
  void call_or_defer(Observer& observer) noexcept;
  // Sleeps until it is settled; false on timeout.
  bool park(Clock::time_point until);

  std::string describe() const;  // "[relu] command 12", "stage 2 [relu] command 12"

  // What every item has, in the first cache lines. A command that ran on the submitting thread has nothing else.
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

  // Set before the item enters the order.
  Ref<DeviceState> device;  // until it is back in the pool; null for a command that ran on the submitting thread
  Kind kind = Kind::kernel;
  Priority priority = Priority::normal;
  bool heals = true;          // it overwrites its outputs completely
  bool is_immediate = false;  // runs on the thread that unblocks it: it only passes memory on
  std::string_view context;   // how messages about it begin: "stage 2 "
  driver::Launch launch;
  core::InlineVector<Storage*, 3> inputs;
  core::InlineVector<Storage*, 1> outputs;
  std::uint64_t cost = 0;  // estimated nanoseconds
  Clock::time_point deadline = Clock::time_point::max();
  Ref<StreamState> stream;
  std::function<void()> host;
  std::unique_ptr<TraceRecord> trace;
  std::array<Edge, 4> edges;
  std::vector<Edge> more_edges;  // used instead if there are more; keeps its capacity

  // For a barrier guarded by `failure_lock`, since cancel() may be called at any time.
  Listener* listener = nullptr;
  std::size_t part = 0;  // its index among the listener's items

  // For the end of a mapped view: the object that holds the view. See self_wait.hpp.
  std::atomic<const void*> holder{nullptr};

  // On a device with a queue.
  std::atomic<std::uint64_t> queue_number{0};  // 0: not started
  std::unique_ptr<LaunchSequence> sequence;    // several launches, started together, instead of `launch`

  // While it runs on the host's threads: its pieces (pieces.cpp).
  struct Pieces {
    std::int64_t count = 1;
    std::unique_ptr<std::byte[]> partial;  // memory for partial results, if the launch has any
    std::atomic<std::int64_t> taken{0};    // by the thread that started it and by its helpers
    std::atomic<std::int64_t> left{0};
  };
  Pieces pieces;
  core::SpinLock failure_lock;  // several pieces may fail

  // Used by the scheduler, under its lock.
  struct Scheduled {
    enum class Where : std::uint8_t { nowhere, ready, held };
    Work* previous = nullptr;
    Work* next = nullptr;
    unsigned helpers_wanted = 0;
    Where where = Where::nowhere;
  };
  Scheduled scheduled;

  // Under the lock of the item's parking lot.
  Observer* observers = nullptr;

 private:
  bool settle(std::uint32_t flags) noexcept;
};

// The work items of one device. Handles, hazards and edges point at items that may have been recycled, so their
// addresses stay valid for ever, even after the device. Memory that is returned to the system reads as zeros there: an
// item that was never used.
class WorkPool {
 public:
  static WorkPool& acquire();  // for a new device
  bool is_own_process() const noexcept { return process_ == fork_count.load(std::memory_order_relaxed); }
  static void retire(WorkPool& pool);  // makes it available to the next device

  // An item with one reference, the engine's, which finish() drops; and a finished command with one reference, for its
  // handle. Under the order lock.
  Work& take(DeviceState& device);
  // Afterwards one take_ended() cannot fail.
  void reserve_one() {
    if (!free_) refill();
  }
  Work& take_ended(Status outcome);
  // Any thread.
  void give_back(Work& work) noexcept;

  // The commands that are not settled; and the items that were settled early and are still in the order, oldest first.
  // Under the order lock.
  std::vector<Ref<Work>> pending_commands();
  std::vector<Ref<Work>> early_works();
  // Returns the memory of unused items to the system, except for about `keep` of them, and the number of bytes to the
  // caller. Takes the order lock itself.
  std::size_t trim(core::SpinLock& order, std::size_t keep);
  // Whether so many items exist that trim() is worth its time. Under the order lock.
  bool is_large() const noexcept { return live_slabs_ * slab_size >= many; }
  static constexpr std::size_t many = 65'536;  // 60 MB
  // A reference to an item that may be returning to the pool: empty if it is.
  static Ref<Work> try_share(Work& work) noexcept;

 private:
  static constexpr std::size_t slab_size = 64;
  struct Slab {
    Work* works;                  // on pages of their own; never freed
    bool may_be_pending = false;  // an item was taken since all of them were last seen finished
    bool is_trimmed = false;      // its memory is with the system: no item exists
  };

  Work& pop_free();
  void refill();
  void add_slab();
  template <class Wants>
  std::vector<Ref<Work>> unfinished(Wants&& wants);

  unsigned process_ = fork_count;  // the one that opened the device
  std::vector<Slab> slabs_;
  std::vector<std::size_t> trimmed_slabs_;
  std::size_t live_slabs_ = 0;
  Work* free_ = nullptr;      // a linked list
  std::size_t popped_ = 0;    // items taken from that list
  std::vector<Work*> older_;  // more such lists
  std::uint64_t last_serial_ = 0;
  alignas(64) std::atomic<Work*> returned_{nullptr};
};

}  // namespace tessera::detail::engine
