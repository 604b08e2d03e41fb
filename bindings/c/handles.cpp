#include "handles.hpp"

#include <array>
#include <mutex>

namespace tessera::c {

namespace {

// A handle is generation << index_bits | index. With 64 bits a slot serves four billion objects, one after the other,
// before a number comes again.
constexpr unsigned index_bits = sizeof(void*) == 8 ? 28 : 20;
constexpr unsigned generation_bits = sizeof(void*) == 8 ? 32 : 12;
constexpr std::uint64_t last_generation = (std::uint64_t{1} << generation_bits) - 1;
constexpr std::size_t chunk_slots = 1024;
constexpr std::size_t most_chunks = (std::size_t{1} << index_bits) / chunk_slots;

// In Slot::state.
constexpr unsigned generation_shift = 32;
constexpr std::uint64_t released = std::uint64_t{1} << 31;
constexpr std::uint64_t pins = released - 1;

using Chunk = std::array<Slot, chunk_slots>;

struct Table {
  std::array<std::atomic<Chunk*>, most_chunks> chunks{};
  std::mutex mutex;
  Slot* free = nullptr;
  std::size_t used = 0;  // slots that were ever taken
  std::atomic<std::size_t> live{0};
};

// Never destroyed: threads may still release handles when the process ends.
constinit Table table;
static_assert(std::is_trivially_destructible_v<Table>);

void destroy(Slot& slot) noexcept {
  slot.destroy(slot);
  table.live.fetch_sub(1, std::memory_order_relaxed);
  give_back(slot);
}

}  // namespace

Slot* pin(const void* handle) noexcept {
  const auto number = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(handle));
  const std::uint64_t generation = number >> index_bits, index = number & ((std::uint64_t{1} << index_bits) - 1);
  if (generation == 0 || generation > last_generation) return nullptr;
  Chunk* const chunk = table.chunks[index / chunk_slots].load(std::memory_order_acquire);
  if (!chunk) return nullptr;
  Slot& slot = (*chunk)[index % chunk_slots];
  std::uint64_t state = slot.state.load(std::memory_order_relaxed);
  do {
    if (state >> generation_shift != generation || (state & released) != 0) return nullptr;
  } while (!slot.state.compare_exchange_weak(state, state + 1, std::memory_order_acquire, std::memory_order_relaxed));
  return &slot;
}

void unpin(Slot& slot) noexcept {
  const std::uint64_t before = slot.state.fetch_sub(1, std::memory_order_acq_rel);
  if ((before & released) != 0 && (before & pins) == 1) destroy(slot);
}

bool release(Slot& slot) noexcept { return (slot.state.fetch_or(released, std::memory_order_acq_rel) & released) == 0; }

Slot& take_slot() {
  const std::scoped_lock lock(table.mutex);
  if (Slot* slot = table.free) {
    table.free = slot->next_free;
    return *slot;
  }
  const std::size_t index = table.used;
  if (index == most_chunks * chunk_slots) throw std::bad_alloc();
  std::atomic<Chunk*>& chunk = table.chunks[index / chunk_slots];
  if (!chunk.load(std::memory_order_relaxed)) chunk.store(new Chunk, std::memory_order_release);
  ++table.used;
  Slot& slot = (*chunk.load(std::memory_order_relaxed))[index % chunk_slots];
  slot.index = static_cast<std::uint32_t>(index);
  slot.state.store(released, std::memory_order_relaxed);
  return slot;
}

void give_back(Slot& slot) noexcept {
  // A slot whose generations are used up is not used again.
  if (slot.state.load(std::memory_order_relaxed) >> generation_shift == last_generation) return;
  const std::scoped_lock lock(table.mutex);
  slot.next_free = table.free;
  table.free = &slot;
}

void* publish(Slot& slot, Kind kind, void (*destroy_object)(Slot&) noexcept) noexcept {
  slot.kind = kind;
  slot.destroy = destroy_object;
  const std::uint64_t generation = (slot.state.load(std::memory_order_relaxed) >> generation_shift) + 1;
  table.live.fetch_add(1, std::memory_order_relaxed);
  slot.state.store(generation << generation_shift, std::memory_order_release);
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(generation << index_bits | slot.index));
}

std::size_t live_handles() noexcept { return table.live.load(std::memory_order_relaxed); }

const char* name_of(Kind kind) noexcept {
  static constexpr const char* names[] = {"nothing",           "a device",       "a buffer", "a mapping",
                                          "a command",         "an event queue", "a stream", "a pipeline",
                                          "a list of kernels", "an image",       "a text"};
  return names[static_cast<std::size_t>(kind)];
}

}  // namespace tessera::c
