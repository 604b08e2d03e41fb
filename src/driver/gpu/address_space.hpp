#pragma once

#include <tessera/error.hpp>

#include "driver/gpu/api.hpp"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>

namespace tessera::driver::gpu {

// Maps the addresses that the runtime uses, which the host cannot dereference, to device memory.
class AddressSpace {
 public:
  static constexpr std::size_t alignment = 64;

  std::byte* add(std::unique_ptr<Memory> memory, std::size_t bytes) {
    const std::unique_lock lock(mutex_);
    const std::uintptr_t address = next_;
    next_ += (bytes + 2 * alignment - 1) / alignment * alignment;
    blocks_.emplace(address, Block{std::move(memory), bytes});
    return reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr): never dereferenced
  }

  struct Found {
    Memory* memory;
    std::size_t offset;
  };
  Found find(const std::byte* address) const {
    const std::shared_lock lock(mutex_);
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    const auto after = blocks_.upper_bound(at);
    if (after == blocks_.begin()) throw Error(Errc::internal, "the address is not in device memory");
    const auto& [start, block] = *std::prev(after);
    return {block.memory.get(), at - start};
  }
  std::unique_ptr<Memory> remove(const std::byte* address) {
    const std::unique_lock lock(mutex_);
    const auto found = blocks_.find(reinterpret_cast<std::uintptr_t>(address));
    std::unique_ptr<Memory> memory = std::move(found->second.memory);
    blocks_.erase(found);
    return memory;
  }

 private:
  struct Block {
    std::unique_ptr<Memory> memory;
    std::size_t bytes;
  };
  mutable std::shared_mutex mutex_;
  std::map<std::uintptr_t, Block> blocks_;
  std::uintptr_t next_ = alignment;
};

}  // namespace tessera::driver::gpu
