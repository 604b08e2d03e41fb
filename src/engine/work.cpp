#include "engine/work.hpp"

#include "core/text.hpp"
#include "engine/device_state.hpp"
#include "engine/launch_sequence.hpp"
#include "engine/observe/trace_record.hpp"
#include "pipeline/pipeline_state.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace tessera::detail::engine {

namespace {

// Where threads sleep and observers are kept: a few places for all nodes, so that a node needs no mutex of its own.
struct ParkingPlace {
  std::mutex mutex;
  std::condition_variable woken;
};

ParkingPlace& parking_place(const Work& node) {
  constexpr std::size_t count = 64;
  static auto& places = *new std::array<ParkingPlace, count>();  // never destroyed: threads may outlive main
  return places[(reinterpret_cast<std::uintptr_t>(&node) / sizeof(Work)) % count];
}

}  // namespace

Status Work::status() const noexcept {
  const std::uint32_t word = state.load(std::memory_order_acquire) & status_mask;
  if (word == ending) return Status::pending;
  const auto status = static_cast<Status>(word);
  // Retired is completed: whoever sees the result of a command must not see the command running.
  return is_terminal(status) || !is_retired() ? status : outcome;
}

bool Work::try_start() noexcept {
  std::uint32_t word = state.load(std::memory_order_relaxed);
  while (true) {
    if ((word & status_mask) == ending) {  // for an instant
      std::this_thread::yield();
      word = state.load(std::memory_order_relaxed);
      continue;
    }
    if ((word & status_mask) != static_cast<std::uint32_t>(Status::pending)) {
      state.load(std::memory_order_acquire);  // the canceller's failure is visible
      return false;
    }
    const std::uint32_t running = (word & ~status_mask) | static_cast<std::uint32_t>(Status::running);
    if (state.compare_exchange_weak(word, running, std::memory_order_relaxed)) return true;
  }
}

bool Work::try_start_part() noexcept {
  if (try_start()) return true;
  const std::uint32_t word = state.load(std::memory_order_acquire);
  return (word & status_mask) == static_cast<std::uint32_t>(Status::running) && (word & stop_asked) == 0;
}

bool Work::try_begin_ending() noexcept {
  std::uint32_t word = state.load(std::memory_order_relaxed);
  while ((word & status_mask) == static_cast<std::uint32_t>(Status::pending)) {
    if (state.compare_exchange_weak(word, (word & ~status_mask) | ending, std::memory_order_relaxed)) return true;
  }
  return false;
}

bool Work::settle_early() noexcept {
  device->early_nodes.fetch_add(1, std::memory_order_relaxed);
  return settle(early);
}

void Work::leave_early() noexcept {
  state.fetch_and(~early, std::memory_order_release);
  device->early_nodes.fetch_sub(1, std::memory_order_relaxed);
}

bool Work::settle(std::uint32_t flags) noexcept {
  const std::uint32_t before = state.exchange(static_cast<std::uint32_t>(outcome) | flags, std::memory_order_acq_rel);
  if ((before & late) != 0) device->remember(id, outcome, failure);
  return (before & observed) != 0;
}

namespace {

thread_local int observers_told = 0;  // one inside of the other, on this thread

}  // namespace

bool is_in_observer() noexcept { return observers_told != 0; }

void Work::tell() noexcept {
  ParkingPlace& parking = parking_place(*this);
  std::unique_lock lock(parking.mutex);
  parking.woken.notify_all();
  // One at a time, and each out of the list before it is told: remove_observer relies on it.
  while (Observer* observer = observers) {
    observers = observer->next_;
    lock.unlock();
    ++observers_told;
    observer->command_finished(*this);
    --observers_told;
    lock.lock();
  }
}

bool Work::wake() noexcept {
  ParkingPlace& parking = parking_place(*this);
  const std::scoped_lock lock(parking.mutex);
  parking.woken.notify_all();
  return observers != nullptr;
}

bool Work::add_observer(Observer& observer) {
  const std::scoped_lock lock(parking_place(*this).mutex);
  if (is_settled(state.fetch_or(observed, std::memory_order_acq_rel))) return false;
  observer.next_ = observers;
  observers = &observer;
  return true;
}

bool Work::remove_observer(Observer& observer) {
  const std::scoped_lock lock(parking_place(*this).mutex);
  for (Observer** link = &observers; *link; link = &(*link)->next_) {
    if (*link != &observer) continue;
    *link = observer.next_;
    return true;
  }
  return false;
}

bool Work::park(Clock::time_point until) {
  ParkingPlace& parking = parking_place(*this);
  std::unique_lock lock(parking.mutex);
  if (is_settled(state.fetch_or(observed, std::memory_order_acq_rel))) return true;
  const auto over = [this] { return is_settled(); };
  if (until == Clock::time_point::max()) {
    parking.woken.wait(lock, over);
    return true;
  }
  return parking.woken.wait_until(lock, until, over);
}

std::string describe_stage(int stage) { return stage == Work::no_stage ? "" : core::text("stage ", stage, " "); }

std::string Work::describe() const {
  return core::text(describe_stage(stage), "[", label, "]", id != 0 ? core::text(" command ", id) : "");
}

void retain(Work* node) noexcept { node->refs.fetch_add(1, std::memory_order_relaxed); }

void release(Work* node) noexcept {
  if (node->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) node->pool->give_back(*node);
}

namespace {

struct RetiredPools {
  std::mutex mutex;
  std::vector<WorkPool*> pools;
};

RetiredPools& retired_pools() {
  static auto& pools = *new RetiredPools();
  return pools;
}

}  // namespace

WorkPool& WorkPool::acquire() {
  RetiredPools& retired = retired_pools();
  const std::scoped_lock lock(retired.mutex);
  if (retired.pools.empty()) return *new WorkPool();
  WorkPool* pool = retired.pools.back();
  retired.pools.pop_back();
  return *pool;
}

void WorkPool::retire(WorkPool& pool) {
  RetiredPools& retired = retired_pools();
  const std::scoped_lock lock(retired.mutex);
  retired.pools.push_back(&pool);
}

void WorkPool::add_slab() {
  slabs_.push_back({std::make_unique<Work[]>(slab_size)});
  for (std::size_t i = 0; i < slab_size; ++i) {
    Work& node = slabs_.back().nodes[i];
    node.pool = this;
    node.slab = slabs_.size() - 1;
    node.next_free = free_;
    free_ = &node;
  }
}

Work& WorkPool::pop_free() {
  // Every few it goes on with those that came back meanwhile, which are in the caches: the long list that thousands of
  // commands in flight have left is not gone through again and again.
  constexpr std::size_t few = 16;
  if ((!free_ || ++popped_ >= few) && returned_.load(std::memory_order_relaxed)) {
    if (free_) older_.push_back(free_);
    free_ = returned_.exchange(nullptr, std::memory_order_acquire);
    popped_ = 0;
  } else if (!free_ && !older_.empty()) {
    free_ = older_.back();
    older_.pop_back();
  }
  if (!free_) add_slab();
  Work& node = *free_;
  free_ = node.next_free;
  node.refs.store(1, std::memory_order_relaxed);
  return node;
}

Work& WorkPool::take(DeviceState& device) {
  Work& node = pop_free();
  node.begin(++last_serial_);
  slabs_[node.slab].may_be_pending = true;
  node.device = Ref<DeviceState>(&device);
  node.device_number = device.number;
  node.state.store(static_cast<std::uint32_t>(Status::pending), std::memory_order_relaxed);
  return node;
}

Work& WorkPool::take_ended(Status outcome) {
  Work& node = pop_free();
  node.begin_retired(++last_serial_);
  node.outcome = outcome;
  node.state.store(static_cast<std::uint32_t>(outcome), std::memory_order_release);
  return node;
}

void WorkPool::give_back(Work& node) noexcept {
  if (node.failure) node.failure.reset();
  // Dropped last: with it may go the device, and this pool to the next one.
  const Ref<DeviceState> device = std::move(node.device);
  if (device) {  // else the rest is as it was
    node.inputs.clear();
    node.outputs.clear();
    node.heals = true;
    node.deadline = Clock::time_point::max();
    node.priority = Priority::normal;
    node.stream = {};
    node.host = nullptr;
    node.trace.reset();
    constexpr std::size_t most_kept = 1024;
    if (node.more_edges.size() > most_kept) node.more_edges = {};
    node.join = nullptr;
    node.stage = Work::no_stage;
    node.run.reset();
    node.flight.store(0, std::memory_order_relaxed);
    node.batch.reset();
  }
  Work* head = returned_.load(std::memory_order_relaxed);
  do {
    node.next_free = head;
  } while (!returned_.compare_exchange_weak(head, &node, std::memory_order_release, std::memory_order_relaxed));
}

Ref<Work> WorkPool::try_share(Work& node) noexcept {
  std::uint32_t refs = node.refs.load(std::memory_order_relaxed);
  while (refs != 0) {
    if (node.refs.compare_exchange_weak(refs, refs + 1, std::memory_order_acquire, std::memory_order_relaxed)) {
      return Ref<Work>::adopt(&node);
    }
  }
  return {};
}

template <class Wants>
std::vector<Ref<Work>> WorkPool::unfinished(Wants&& wants) {
  std::vector<Ref<Work>> found;
  for (Slab& slab : slabs_) {
    if (!slab.may_be_pending) continue;
    slab.may_be_pending = false;
    for (std::size_t i = 0; i < slab_size; ++i) {
      Work& node = slab.nodes[i];
      if (node.is_settled() && !node.is_early()) continue;
      slab.may_be_pending = true;
      if (!wants(node)) continue;
      if (Ref<Work> shared = try_share(node)) found.push_back(std::move(shared));
    }
  }
  return found;
}

std::vector<Ref<Work>> WorkPool::pending_commands() {
  return unfinished([](const Work& node) { return node.id != 0 && !node.is_settled(); });
}

std::vector<Ref<Work>> WorkPool::early_nodes() {
  std::vector<Ref<Work>> found = unfinished([](const Work& node) { return node.is_early(); });
  std::ranges::sort(found, {}, [](const Ref<Work>& node) { return node->serial(); });
  return found;
}

}  // namespace tessera::detail::engine
