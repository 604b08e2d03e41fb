#pragma once

#include <tessera/buffer.hpp>
#include <tessera/detail/handle.hpp>

#include "core/failure.hpp"
#include "core/pooled.hpp"
#include "engine/hazards.hpp"
#include "engine/memory/memory_pool.hpp"

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

namespace tessera::detail::engine {

// A buffer's memory, common to all its views. Lives as long as a view of it and the node that gives the memory back.
// Nodes point at it without a count: the release is ordered after all of them.
struct Storage : core::Pooled<Storage> {
  Storage(DeviceState& on, const MemoryPool::Block& memory) : device(&on), block(memory) {}
  // No memory, only a name for it: a pipeline's temporary or slot. It counts as freed, so that whoever would use it
  // elsewhere is stopped where freed buffers are; throw_unusable tells which it is.
  Storage(DeviceState& on, std::string what) : device(&on), block(), placeholder(std::move(what)), is_freed(true) {}

  const Ref<DeviceState> device;
  const MemoryPool::Block block;
  const std::string placeholder;       // "a temporary of a pipeline"; empty for memory
  std::atomic<std::uint32_t> refs{1};  // of views, and of a release on its way
  std::atomic<std::uint32_t> views{1};
  std::atomic<bool> is_freed{false};  // by free(), or with the last view

  // Why the contents are not what they should be; null: they are. Part of the contents: whoever may read or write
  // those may read or write this.
  core::FailurePtr poison;

  alignas(64) Hazards hazards;  // under the device's order lock
};

// A shape and type of a storage: what a Buffer points at.
struct View : core::Pooled<View> {
  View(Storage& of, const Shape& with_shape, DType with_dtype)
      : shape(with_shape), dtype(with_dtype), bytes(shape.size_bytes(dtype)), storage(&of) {}

  std::atomic<std::uint32_t> refs{1};
  const Shape shape;
  const DType dtype;
  const std::size_t bytes;
  Storage* const storage;
};

// Frees the memory once all that uses it has finished; false if it had been freed before.
bool try_free(Storage& storage) noexcept;
// The memory goes back to the pool, and a reference to the storage is dropped.
void release_memory(Storage& storage) noexcept;

// "f32[5]"
std::string describe(const View& view);

// The view of a buffer; Errc::invalid_argument for an empty handle, naming the call.
View& view_of(const Buffer& buffer, std::string_view call);

// Why a storage that counts as freed cannot be used: `what` is "[relu] input 0".
core::FailurePtr unusable(const std::string& what, const Storage& storage);

}  // namespace tessera::detail::engine
