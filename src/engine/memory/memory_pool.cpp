#include "engine/memory/memory_pool.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"

#include <algorithm>
#include <bit>

// Blocks in the pool belong to no buffer: they are poisoned for AddressSanitizer, so that it reports late accesses.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#define TESSERA_ASAN 1
#endif
#endif
#ifdef TESSERA_ASAN
// Only for memory that the host can address.
#define TESSERA_FORBID(address, size) \
  if (driver_.host_address(address) == (address)) __asan_poison_memory_region(address, size)
#define TESSERA_ALLOW(address, size) \
  if (driver_.host_address(address) == (address)) __asan_unpoison_memory_region(address, size)
#else
#define TESSERA_FORBID(address, size) static_cast<void>(0)
#define TESSERA_ALLOW(address, size) static_cast<void>(0)
#endif

namespace tessera::detail::engine {

namespace {
constexpr std::size_t smallest = 64;  // a cache line: two buffers never share one
constexpr std::size_t round_to(std::size_t bytes, std::size_t step) { return (bytes + step - 1) / step * step; }
}  // namespace

MemoryPool::~MemoryPool() { trim_locked(); }

std::size_t MemoryPool::block_size(std::size_t bytes) noexcept {
  if (bytes <= smallest) return smallest;
  return round_to(bytes, std::max(smallest, std::bit_floor(bytes - 1) / 8));
}

MemoryPool::Block MemoryPool::allocate(DType dtype, const Shape& shape) {
  const std::size_t bytes = shape.size_bytes(dtype);
  Block block{.size = block_size(bytes), .requested = bytes};
  const std::scoped_lock lock(mutex_);
  if (const auto found = free_.find(block.size); found != free_.end() && !found->second.empty()) {
    block.address = found->second.back();
    found->second.pop_back();
    TESSERA_ALLOW(block.address, block.size);
  } else {
    const auto fits = [&](std::size_t taken) { return block.size <= limit_ && taken <= limit_ - block.size; };
    const std::size_t by_buffers = reserved_ - free_bytes();
    if (!fits(by_buffers)) block.size = std::max<std::size_t>(bytes, 1);  // use the limit to the last byte
    if (!fits(by_buffers)) {
      throw Error(Errc::out_of_memory, core::text("no memory for ", to_string(dtype, shape), ": ", bytes,
                                                  " bytes requested, ", in_use_, " in use, limit ", limit_));
    }
    if (!fits(reserved_)) trim_locked();
    const driver::Driver::Block fresh = take_from_device(block.size, dtype, shape);
    block.address = fresh.address;
    block.is_zero = fresh.is_zero;
    reserved_ += block.size;
    ++allocations_;
  }
  in_use_ += bytes;
  peak_ = std::max(peak_, in_use_);
  ++buffers_;
  return block;
}

driver::Driver::Block MemoryPool::take_from_device(std::size_t size, DType dtype, const Shape& shape) {
  try {
    driver::Driver::Block fresh = driver_.allocate(size);
    if (!fresh.address && trim_locked() + driver_.trim() != 0) fresh = driver_.allocate(size);
    if (!fresh.address) throw Error(Errc::out_of_memory, "the device has no memory left");
    return fresh;
  } catch (const Error& error) {
    throw Error(error.code(), core::text("no memory for ", to_string(dtype, shape), ": ", size, " bytes requested, ",
                                         in_use_, " in use: ", error.what()));
  }
}

void MemoryPool::free(const Block& block) noexcept {
  const std::scoped_lock lock(mutex_);
  in_use_ -= block.requested;
  --buffers_;
  if (block_size(block.size) == block.size) {
    try {
      free_[block.size].push_back(block.address);
      TESSERA_FORBID(block.address, block.size);
      return;
    } catch (const std::bad_alloc&) {
      // No memory to store its address: return it to the device.
    }
  }
  driver_.deallocate(block.address, block.size);
  reserved_ -= block.size;
}

MemoryInfo MemoryPool::info() const {
  const std::scoped_lock lock(mutex_);
  return {in_use_, reserved_, peak_, limit_, buffers_, allocations_};
}

void MemoryPool::set_limit(std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  if (bytes < reserved_) {
    const std::size_t by_buffers = reserved_ - free_bytes();
    if (bytes < by_buffers) {
      throw Error(Errc::invalid_argument, core::text("a memory limit of ", bytes, " bytes is below the ", by_buffers,
                                                     " that live buffers use"));
    }
    trim_locked();
  }
  limit_ = bytes;
}

std::size_t MemoryPool::free_bytes() const noexcept {
  std::size_t bytes = 0;
  for (const auto& [size, blocks] : free_) bytes += size * blocks.size();
  return bytes;
}

std::size_t MemoryPool::trim() {
  const std::scoped_lock lock(mutex_);
  return trim_locked() + driver_.trim();
}

std::size_t MemoryPool::trim_locked() noexcept {
  std::size_t returned = 0;
  for (auto& [size, blocks] : free_) {
    for (std::byte* address : blocks) {
      TESSERA_ALLOW(address, size);
      driver_.deallocate(address, size);
      returned += size;
    }
    blocks.clear();
  }
  reserved_ -= returned;
  return returned;
}

}  // namespace tessera::detail::engine
