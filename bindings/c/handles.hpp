#pragma once

#include <tessera/tessera.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

// The handles of the C interface: numbers that look like pointers. A number says where its object is in a table and for
// the how-manieth object of that slot it was made, so that NULL, a released handle, a handle of another kind and any
// other number are all recognised, without touching memory that may be gone.
namespace tessera::c {

enum class Kind : std::uint8_t {
  none,
  device,
  buffer,
  mapping,
  command,
  events,
  stream,
  pipeline,
  kernels,
  image,
  text
};

// What a handle's type holds; specialised beside the functions of each kind.
template <class Handle>
struct HandleTraits;

// An entry of the table. Its object is destroyed when it has been released and no call uses it.
struct alignas(64) Slot {
  // Generation, then whether it has been released, then the number of calls that use it at the moment.
  std::atomic<std::uint64_t> state{0};
  Kind kind = Kind::none;
  std::uint32_t index = 0;
  void (*destroy)(Slot&) noexcept = nullptr;
  Slot* next_free = nullptr;
  static constexpr std::size_t space_bytes = 16;
  alignas(8) std::byte space[space_bytes];
};

// The slot of a handle, pinned: its object stays until unpin(). Null if it is no live handle.
Slot* pin(const void* handle) noexcept;
void unpin(Slot& slot) noexcept;
// No later call finds it; the object is destroyed with the last pin. False if it has been released already.
bool release(Slot& slot) noexcept;
// A slot to construct an object in; publish() makes it a handle. Throws std::bad_alloc.
Slot& take_slot();
void give_back(Slot& slot) noexcept;
void* publish(Slot& slot, Kind kind, void (*destroy)(Slot&) noexcept) noexcept;

std::size_t live_handles() noexcept;
const char* name_of(Kind kind) noexcept;

// A handle's object for the duration of a call. `Handle` is the opaque type: Pinned<tessera_buffer>.
template <class Handle>
class Pinned {
 public:
  using Object = typename HandleTraits<Handle>::Object;

  explicit Pinned(Slot& slot) noexcept : slot_(&slot) {}
  Pinned(Pinned&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)) {}
  Pinned& operator=(Pinned&&) = delete;
  ~Pinned() {
    if (slot_) unpin(*slot_);
  }
  Object& operator*() const noexcept { return *std::launder(reinterpret_cast<Object*>(slot_->space)); }
  Object* operator->() const noexcept { return &**this; }
  Slot& slot() const noexcept { return *slot_; }

 private:
  Slot* slot_;
};

// Makes a handle of a slot in which an object has been constructed.
template <class Handle>
Handle* publish_object(Slot& slot) noexcept {
  using Object = typename HandleTraits<Handle>::Object;
  static_assert(sizeof(Object) <= Slot::space_bytes && alignof(Object) <= 8, "put it behind a pointer");
  static_assert(std::is_nothrow_destructible_v<Object>);
  return static_cast<Handle*>(publish(slot, HandleTraits<Handle>::kind, [](Slot& of) noexcept {
    std::launder(reinterpret_cast<Object*>(of.space))->~Object();
  }));
}

// A new handle to what `make` returns. The slot is taken first, so that nothing that was made is lost for want of one.
template <class Handle, class Make>
Handle* handle_to(Make&& make) {
  Slot& slot = take_slot();
  try {
    new (slot.space) typename HandleTraits<Handle>::Object(make());
  } catch (...) {
    give_back(slot);
    throw;
  }
  return publish_object<Handle>(slot);
}

}  // namespace tessera::c
