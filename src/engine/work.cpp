#include "engine/work.hpp"

#include "core/platform.hpp"
#include "core/text.hpp"
#include "engine/device_state.hpp"
#include "engine/launch_sequence.hpp"
#include "engine/observe/nested_callbacks.hpp"
#include "engine/observe/trace_record.hpp"

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

namespace tessera::detail::engine {

namespace {

// Where threads sleep and observers are listed: a few lots for all work items, so that an item needs no mutex of its
// own.
struct ParkingLot {
  std::mutex mutex;
  std::condition_variable woken;
};

ParkingLot& parking_lot(const Work& work) {
  constexpr std::size_t count = 64;
  static auto& lots = *new std::array<ParkingLot, count>();  // never destroyed: threads may outlive main
  return lots[(reinterpret_cast<std::uintptr_t>(&work) / sizeof(Work)) % count];
}

}  // namespace

Status Work::status() const noexcept {
  const std::uint32_t word = state.load(std::memory_order_acquire) & status_mask;
  if (word == ending) return Status::pending;
  const auto status = static_cast<Status>(word);
  // A retired item counts as finished: a caller that sees a command's result must not see the command running.
  return is_terminal(status) || !is_retired() ? status : outcome;
}

bool Work::try_start() noexcept {
  std::uint32_t word = state.load(std::memory_order_relaxed);
  while (true) {
    if ((word & status_mask) == ending) {  // only for a moment
      std::this_thread::yield();
      word = state.load(std::memory_order_relaxed);
      continue;
    }
    if ((word & status_mask) != static_cast<std::uint32_t>(Status::pending)) {
      state.load(std::memory_order_acquire);  // makes the canceller's failure visible
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
  device->early_works.fetch_add(1, std::memory_order_relaxed);
  return settle(early);
}

void Work::leave_early() noexcept {
  state.fetch_and(~early, std::memory_order_release);
  device->early_works.fetch_sub(1, std::memory_order_relaxed);
}

bool Work::settle(std::uint32_t flags) noexcept {
  const std::uint32_t before = state.exchange(static_cast<std::uint32_t>(outcome) | flags, std::memory_order_acq_rel);
  if ((before & late) != 0) device->remember(id, outcome, failure);
  return (before & observed) != 0;
}

void Work::notify() noexcept {
  if (!wake() || defer_observers(*this)) return;
  const ObserverScope scope;
  call_observers();
}

void Work::call_observers() noexcept {
  std::unique_lock lock(parking_lot(*this).mutex);
  // One at a time, and each is removed from the list before it is called: remove_observer relies on that.
  while (Observer* observer = observers) {
    observers = observer->next_;
    lock.unlock();
    observer->command_finished(*this);
    lock.lock();
  }
}

void Work::call_or_defer(Observer& observer) noexcept {
  {
    const std::scoped_lock lock(parking_lot(*this).mutex);
    observer.next_ = observers;
    observers = &observer;
  }
  if (defer_observers(*this)) return;
  const ObserverScope scope;
  call_observers();
}

bool Work::wake() noexcept {
  ParkingLot& parking = parking_lot(*this);
  const std::scoped_lock lock(parking.mutex);
  parking.woken.notify_all();
  return observers != nullptr;
}

bool Work::add_observer(Observer& observer) {
  const std::scoped_lock lock(parking_lot(*this).mutex);
  if (is_settled(state.fetch_or(observed, std::memory_order_acq_rel))) return false;
  observer.next_ = observers;
  observers = &observer;
  return true;
}

bool Work::remove_observer(Observer& observer) {
  const std::scoped_lock lock(parking_lot(*this).mutex);
  for (Observer** link = &observers; *link; link = &(*link)->next_) {
    if (*link != &observer) continue;
    *link = observer.next_;
    return true;
  }
  return false;
}

bool Work::park(Clock::time_point until) {
  ParkingLot& parking = parking_lot(*this);
  std::unique_lock lock(parking.mutex);
  if (is_settled(state.fetch_or(observed, std::memory_order_acq_rel))) return true;
  const auto settled = [this] { return is_settled(); };
  if (until == Clock::time_point::max()) {
    parking.woken.wait(lock, settled);
    return true;
  }
  return parking.woken.wait_until(lock, until, settled);
}

std::string Work::describe() const {
  return core::text(context, "[", label, "]", id != 0 ? core::text(" command ", id) : "");
}

void retain(Work* work) noexcept { work->refs.fetch_add(1, std::memory_order_relaxed); }

void release(Work* work) noexcept {
  if (work->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) work->pool->give_back(*work);
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
  pool->process_ = fork_count;
  return *pool;
}

void WorkPool::retire(WorkPool& pool) {
  RetiredPools& retired = retired_pools();
  const std::scoped_lock lock(retired.mutex);
  retired.pools.push_back(&pool);
}

namespace {

constexpr std::size_t page_size = 4096;

constexpr std::size_t in_pages(std::size_t bytes) { return (bytes + page_size - 1) / page_size * page_size; }

}  // namespace

void WorkPool::add_slab() {
  std::size_t index = slabs_.size();
  if (trimmed_slabs_.empty()) {
    if (slabs_.size() == slabs_.capacity()) slabs_.reserve(2 * slabs_.size() + 16);
    trimmed_slabs_.reserve(slabs_.capacity());  // so that trim() needs no memory for it
    void* memory = ::operator new(in_pages(slab_size * sizeof(Work)), std::align_val_t(page_size));
    slabs_.push_back({static_cast<Work*>(memory)});
  } else {
    index = trimmed_slabs_.back();
    trimmed_slabs_.pop_back();
    slabs_[index].is_trimmed = false;
  }
  ++live_slabs_;
  for (std::size_t i = 0; i < slab_size; ++i) {
    auto* work = new (slabs_[index].works + i) Work();
    work->pool = this;
    work->slab = index;
    work->next_free = free_;
    free_ = work;
  }
}

std::size_t WorkPool::trim(core::SpinLock& order, std::size_t keep) {
  struct Count {
    std::size_t free = 0;
    Work* first = nullptr;
  };
  std::vector<Work*> lists;
  std::vector<Count> counts;
  {
    const std::scoped_lock lock(order);
    counts.resize(slabs_.size());
    lists.swap(older_);
    lists.push_back(std::exchange(free_, nullptr));
    lists.push_back(returned_.exchange(nullptr, std::memory_order_acquire));
  }
  const auto for_each_free = [&](auto&& visit) {
    for (Work* list : lists) {
      while (list) visit(*std::exchange(list, list->next_free));
    }
  };
  for_each_free([&](Work& work) {
    Count& count = counts[work.slab];
    ++count.free;
    if (!count.first || &work < count.first) count.first = &work;
  });

  // What stays is linked anew; whole slabs beyond that are unlinked.
  std::vector<std::size_t> unused;
  std::size_t kept = 0;
  for (std::size_t slab = 0; slab < counts.size(); ++slab) {
    if (counts[slab].free == slab_size && kept >= keep) {
      unused.push_back(slab);
      counts[slab].free = 0;
    }
    kept += counts[slab].free;
  }
  Work* rest = nullptr;
  for_each_free([&](Work& work) {
    if (counts[work.slab].free != 0) work.next_free = std::exchange(rest, &work);
  });
  {
    const std::scoped_lock lock(order);
    for (const std::size_t slab : unused) slabs_[slab].is_trimmed = true;
    if (rest) older_.push_back(rest);
  }
  constexpr std::size_t slab_bytes = in_pages(slab_size * sizeof(Work));
  for (const std::size_t slab : unused) {
    std::destroy_n(counts[slab].first, slab_size);
    core::discard_pages(reinterpret_cast<std::byte*>(counts[slab].first), slab_bytes);
  }
  const std::scoped_lock lock(order);
  for (const std::size_t slab : unused) trimmed_slabs_.push_back(slab);
  live_slabs_ -= unused.size();
  return unused.size() * slab_bytes;
}

Work& WorkPool::pop_free() {
  // Every so often, switch to the items that were returned meanwhile, which are still in the caches, instead of cycling
  // through the long list that thousands of commands in flight have left behind.
  constexpr std::size_t few = 16;
  if (!free_) {
    refill();
  } else if (++popped_ >= few && returned_.load(std::memory_order_relaxed)) {
    if (older_.size() < older_.capacity()) {
      older_.push_back(free_);
      free_ = returned_.exchange(nullptr, std::memory_order_acquire);
    }
    popped_ = 0;
  }
  Work& work = *free_;
  free_ = work.next_free;
  work.refs.store(1, std::memory_order_relaxed);
  return work;
}

void WorkPool::refill() {
  popped_ = 0;
  if (older_.capacity() == older_.size()) older_.reserve(2 * older_.size() + 64);
  if (returned_.load(std::memory_order_relaxed)) {
    free_ = returned_.exchange(nullptr, std::memory_order_acquire);
  } else if (!older_.empty()) {
    free_ = older_.back();
    older_.pop_back();
  } else {
    add_slab();
  }
}

Work& WorkPool::take(DeviceState& device) {
  Work& work = pop_free();
  work.begin(++last_serial_);
  slabs_[work.slab].may_be_pending = true;
  work.device = Ref<DeviceState>(&device);
  work.device_number = device.number;
  work.state.store(static_cast<std::uint32_t>(Status::pending), std::memory_order_relaxed);
  return work;
}

Work& WorkPool::take_ended(Status outcome) {
  Work& work = pop_free();
  work.begin_retired(++last_serial_);
  work.outcome = outcome;
  work.state.store(static_cast<std::uint32_t>(outcome), std::memory_order_release);
  return work;
}

void WorkPool::give_back(Work& work) noexcept {
  if (work.failure) work.failure.reset();
  // Dropped last: this may destroy the device and make this pool another device's.
  const Ref<DeviceState> device = std::move(work.device);
  if (device) {  // else the rest was never set
    work.inputs.clear();
    work.outputs.clear();
    work.heals = true;
    work.deadline = Clock::time_point::max();
    work.priority = Priority::normal;
    work.stream = {};
    work.host = nullptr;
    work.trace.reset();
    constexpr std::size_t most_edges = 1024;
    if (work.more_edges.size() > most_edges) work.more_edges = {};
    work.is_immediate = false;
    work.context = {};
    work.listener = nullptr;
    work.queue_number.store(0, std::memory_order_relaxed);
    work.sequence.reset();
  }
  Work* head = returned_.load(std::memory_order_relaxed);
  do {
    work.next_free = head;
  } while (!returned_.compare_exchange_weak(head, &work, std::memory_order_release, std::memory_order_relaxed));
}

Ref<Work> WorkPool::try_share(Work& work) noexcept {
  std::uint32_t refs = work.refs.load(std::memory_order_relaxed);
  while (refs != 0) {
    if (work.refs.compare_exchange_weak(refs, refs + 1, std::memory_order_acquire, std::memory_order_relaxed)) {
      return Ref<Work>::adopt(&work);
    }
  }
  return {};
}

template <class Wants>
std::vector<Ref<Work>> WorkPool::unfinished(Wants&& wants) {
  std::vector<Ref<Work>> found;
  for (Slab& slab : slabs_) {
    if (!slab.may_be_pending || slab.is_trimmed) continue;
    slab.may_be_pending = false;
    for (std::size_t i = 0; i < slab_size; ++i) {
      Work& work = slab.works[i];
      if (work.is_settled() && !work.is_early()) continue;
      slab.may_be_pending = true;
      if (!wants(work)) continue;
      if (Ref<Work> shared = try_share(work)) found.push_back(std::move(shared));
    }
  }
  return found;
}

std::vector<Ref<Work>> WorkPool::pending_commands() {
  return unfinished([](const Work& work) { return work.id != 0 && !work.is_settled(); });
}

std::vector<Ref<Work>> WorkPool::early_works() {
  std::vector<Ref<Work>> found = unfinished([](const Work& work) { return work.is_early(); });
  std::ranges::sort(found, {}, [](const Ref<Work>& work) { return work->serial(); });
  return found;
}

}  // namespace tessera::detail::engine
