#pragma once

#include <tessera/detail/handle.hpp>
#include <tessera/dtype.hpp>
#include <tessera/shape.hpp>

#include "core/failure.hpp"
#include "core/pooled.hpp"
#include "engine/hazards.hpp"
#include "engine/memory/memory_pool.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace tessera::detail::engine {

// A buffer's memory, shared by all its views. Lives until the last view is gone and the memory has been released. Work
// items point at it without counting references: the release is ordered after all of them.
struct Storage : core::Pooled<Storage> {
  Storage(DeviceState& on, const MemoryPool::Block& memory) : device(&on), block(memory) {}
  // A placeholder without memory: a pipeline's temporary or slot. It counts as freed, so that the checks for freed
  // buffers refuse it elsewhere; unusable() explains which it is.
  Storage(DeviceState& on, std::string what) : device(&on), block(), placeholder(std::move(what)), is_freed(true) {}

  const Ref<DeviceState> device;
  const MemoryPool::Block block;
  // Of memory that is the caller's: called instead of returning it to the pool.
  std::unique_ptr<std::function<void()>> release;
  const std::string placeholder;       // "a temporary of a pipeline"; empty for memory
  std::atomic<std::uint32_t> refs{1};  // of views, and of a pending release
  std::atomic<std::uint32_t> views{1};
  std::atomic<bool> is_freed{false};  // by free(), or with the last view

  // Why the contents are invalid; null if they are valid. Part of the contents, and accessed under the same rules.
  core::FailurePtr poison;

  alignas(64) Hazards hazards;  // under the device's order lock
};

// A storage seen with one shape and type: what a Buffer points at.
struct View : core::Pooled<View> {
  View(Storage& of, const Shape& with_shape, DType with_dtype)
      : shape(with_shape), dtype(with_dtype), bytes(shape.size_bytes(dtype)), storage(&of) {}

  std::atomic<std::uint32_t> refs{1};
  const Shape shape;
  const DType dtype;
  const std::size_t bytes;
  Storage* const storage;
};

// Frees the memory once everything that uses it has finished; false if it has already been freed.
bool try_free(Storage& storage) noexcept;
// Returns the memory to the pool and drops a reference to the storage.
void release_memory(Storage& storage) noexcept;

// "f32[5]"
std::string describe(const View& view);

// Why a storage that counts as freed cannot be used: `what` is "[relu] input 0".
core::FailurePtr unusable(const std::string& what, const Storage& storage);

}  // namespace tessera::detail::engine
