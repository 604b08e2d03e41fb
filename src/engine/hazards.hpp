#pragma once

#include "core/inline_vector.hpp"

#include <atomic>
#include <cstdint>

namespace tessera::detail::engine {

class Ordered;

// "`dependent` waits for the node in whose list this hangs". Lives in the dependent.
struct Edge {
  Ordered* dependent = nullptr;
  Edge* next = nullptr;
};

// A piece of work's place in the order: how many others it waits for, and who waits for it.
//
// Nodes are recycled and their memory never goes away while others may point at it; a serial number tells one use of a
// node from the next. begin() and wait_for() are called under the lock of the device that orders the work; the rest
// from any thread.
class Ordered {
 public:
  // Starts a new use: waits for nobody yet, but holds itself back until arm().
  void begin(std::uint64_t serial) noexcept {
    serial_ = serial;
    blockers_.store(1, std::memory_order_relaxed);
    dependents_.store(nullptr, std::memory_order_relaxed);
  }
  // Starts a use that is over already.
  void begin_retired(std::uint64_t serial) noexcept {
    serial_ = serial;
    dependents_.store(closed(), std::memory_order_relaxed);
  }
  std::uint64_t serial() const noexcept { return serial_; }

  // Makes this node wait for `earlier`, unless that is over. The edge is this node's own.
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

  // One node less to wait for; true for the caller that takes away the last, who must see to it that the node runs.
  bool unblock() noexcept { return blockers_.fetch_sub(1, std::memory_order_acq_rel) == 1; }
  bool is_blocked() const noexcept { return blockers_.load(std::memory_order_acquire) != 0; }
  // All waits are known.
  bool arm() noexcept { return unblock(); }

  // It is over: from here on nobody waits for it. Returns those who did; read an edge's `next` before unblocking its
  // dependent.
  Edge* retire() noexcept { return dependents_.exchange(closed(), std::memory_order_acq_rel); }
  bool is_retired() const noexcept { return dependents_.load(std::memory_order_acquire) == closed(); }
  // plan::CallCache look(const Ordered&) for each that waits for it. It must not retire meanwhile.
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
  std::uint64_t serial_ = 0;
  std::atomic<std::uint32_t> blockers_{0};
};

// One use of a node, seen from a place that may outlive it.
struct Position {
  Ordered* node = nullptr;
  std::uint64_t serial = 0;

  // The node if that use of it is not over.
  Ordered* pending() const noexcept { return node && node->serial() == serial && !node->is_retired() ? node : nullptr; }
};

// What happens to one buffer: its last writer, and its readers since. Guarded by the device's order lock.
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

  // plan::CallCache look(Ordered&) for each node that one which reads, or writes, has to wait for.
  template <class Look>
  void each_before(bool writes, Look&& look) const {
    if (Ordered* writer = writer_.pending()) look(*writer);
    if (!writes) return;
    for (const Position& reader : readers_) {
      if (Ordered* pending = reader.pending()) look(*pending);
    }
  }

  // `node` reads, or writes, after all that was said before. wait_for(Ordered&) is called for each node to wait for.
  template <class WaitFor>
  void read(Ordered& node, WaitFor&& wait_for) {
    each_before(false, wait_for);
    if (readers_.size() >= prune_at_) prune();
    readers_.push_back({&node, node.serial()});
  }
  template <class WaitFor>
  void write(Ordered& node, WaitFor&& wait_for) {
    each_before(true, wait_for);
    readers_.clear();
    prune_at_ = first_prune;
    writer_ = {&node, node.serial()};
  }

 private:
  static constexpr std::size_t first_prune = 8;

  // Forgets the readers that are over, so that a buffer that is only ever read does not grow. Twice the number that
  // is left before the next time: constant work a reader.
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
