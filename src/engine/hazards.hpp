#pragma once

#include "core/inline_vector.hpp"

#include <atomic>
#include <cstdint>

namespace tessera::detail::engine {

class Ordered;

// A link in the list of an entry's dependents. Lives in the dependent.
struct Edge {
  Ordered* dependent = nullptr;
  Edge* next = nullptr;
};

// An entry of the order: how many others it waits for, and who waits for it.
//
// Entries are recycled, and their memory is never freed while others may point at it; a serial number tells one use of
// an entry from the next. begin() and wait_for() are called under the device's order lock, the rest from any thread.
class Ordered {
 public:
  // Starts a new use: it waits for nothing yet, but is held back until arm().
  void begin(std::uint64_t serial) noexcept {
    serial_.store(serial, std::memory_order_relaxed);
    blockers_.store(1, std::memory_order_relaxed);
    dependents_.store(nullptr, std::memory_order_relaxed);
  }
  // Starts a use that has finished already.
  void begin_retired(std::uint64_t serial) noexcept {
    serial_.store(serial, std::memory_order_relaxed);
    dependents_.store(closed(), std::memory_order_relaxed);
  }
  std::uint64_t serial() const noexcept { return serial_.load(std::memory_order_relaxed); }

  // Makes this entry wait for `earlier`; false if that has finished. The edge must belong to this entry.
  bool wait_for(Ordered& earlier, Edge& edge) noexcept {
    edge.dependent = this;
    blockers_.fetch_add(1, std::memory_order_relaxed);
    Edge* head = earlier.dependents_.load(std::memory_order_acquire);
    do {
      if (head == closed()) {
        blockers_.fetch_sub(1, std::memory_order_relaxed);
        return false;
      }
      edge.next = head;
    } while (
        !earlier.dependents_.compare_exchange_weak(head, &edge, std::memory_order_release, std::memory_order_acquire));
    return true;
  }

  // Removes one blocker; true if it was the last one: then the caller must have the item run.
  bool unblock() noexcept { return blockers_.fetch_sub(1, std::memory_order_acq_rel) == 1; }
  bool is_blocked() const noexcept { return blockers_.load(std::memory_order_acquire) != 0; }
  // Declares that all dependencies are known; the result is that of unblock().
  bool arm() noexcept { return unblock(); }

  // Marks it finished: from here on nothing waits for it. Returns its dependents; read an edge's `next` before
  // unblocking its dependent.
  Edge* retire() noexcept { return dependents_.exchange(closed(), std::memory_order_acq_rel); }
  bool is_retired() const noexcept { return dependents_.load(std::memory_order_acquire) == closed(); }
  // Calls look(const Ordered&) for each direct dependent. The entry must not retire meanwhile.
  template <class Look>
  void each_dependent(Look&& look) const {
    for (const Edge* edge = dependents_.load(std::memory_order_acquire); edge; edge = edge->next) {
      look(*edge->dependent);
    }
  }

 private:
  static Edge* closed() noexcept {
    static Edge sentinel;
    return &sentinel;
  }

  std::atomic<Edge*> dependents_{nullptr};
  std::atomic<std::uint64_t> serial_{0};  // a thread may ask for an old use of the entry at any time
  std::atomic<std::uint32_t> blockers_{0};
};

// One use of an entry, held by something that may outlive it.
struct Position {
  Ordered* entry = nullptr;
  std::uint64_t serial = 0;

  // The entry, if that use of it has not finished.
  Ordered* pending() const noexcept {
    return entry && entry->serial() == serial && !entry->is_retired() ? entry : nullptr;
  }
};

// The pending uses of one buffer: its last writer, and its readers since. Guarded by the device's order lock.
class Hazards {
 public:
  bool can_read_now() const noexcept { return !writer_.pending(); }
  bool can_write_now() const noexcept {
    if (writer_.pending()) return false;
    for (const Position& reader : readers_) {
      if (reader.pending()) return false;
    }
    return true;
  }

  // Calls look(Ordered&) for each entry that a reader, or writer, has to wait for.
  template <class Look>
  void each_before(bool writes, Look&& look) const {
    if (Ordered* writer = writer_.pending()) look(*writer);
    if (!writes) return;
    for (const Position& reader : readers_) {
      if (Ordered* pending = reader.pending()) look(*pending);
    }
  }

  // At most this many entries are before a reader, or writer.
  std::size_t count_before(bool writes) const noexcept { return 1 + (writes ? readers_.size() : 0); }
  // Makes room for so many more readers, so that read() cannot fail.
  void reserve_readers(std::size_t count) {
    if (readers_.size() >= prune_at_) prune();
    readers_.reserve(readers_.size() + count);
  }

  // Adds `entry` as the latest reader, or writer. Calls wait_for(Ordered&) for each entry that it has to wait for.
  template <class WaitFor>
  void read(Ordered& entry, WaitFor&& wait_for) {
    each_before(false, wait_for);
    if (readers_.size() >= prune_at_) prune();
    readers_.push_back({&entry, entry.serial()});
  }
  template <class WaitFor>
  void write(Ordered& entry, WaitFor&& wait_for) {
    each_before(true, wait_for);
    readers_.clear();
    prune_at_ = first_prune;
    writer_ = {&entry, entry.serial()};
  }

 private:
  static constexpr std::size_t first_prune = 8;

  // Forgets the readers that have finished, so that the list of a buffer that is only ever read does not grow. Done
  // again when the list has doubled: amortized constant time per reader.
  void prune() {
    std::size_t kept = 0;
    for (const Position& reader : readers_) {
      if (reader.pending()) readers_[kept++] = reader;
    }
    readers_.shrink(kept);
    prune_at_ = kept * 2 < first_prune ? first_prune : kept * 2;
  }

  Position writer_;
  core::InlineVector<Position, 2> readers_;
  std::size_t prune_at_ = first_prune;
};

}  // namespace tessera::detail::engine
