#pragma once

#include <tessera/device_info.hpp>
#include <tessera/dtype.hpp>
#include <tessera/shape.hpp>

#include "driver/driver.hpp"

#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

namespace tessera::detail::engine {

// The device's memory in blocks of a few sizes; freed blocks are reused. Any thread.
class MemoryPool {
 public:
  MemoryPool(driver::Driver& driver, std::size_t limit) : driver_(driver), limit_(limit) {}
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  struct Block {
    std::byte* address = nullptr;
    std::size_t size = 0;  // of device memory
    std::size_t requested = 0;
    bool is_zero = false;
  };

  // For elements of this type and shape. Errc::out_of_memory, and no change, if it would exceed the limit or the device
  // has no memory left.
  Block allocate(DType dtype, const Shape& shape);
  void free(const Block& block) noexcept;

  MemoryInfo info() const;
  void set_limit(std::size_t bytes);
  std::size_t trim();

  // The block size for this many bytes: eight steps per doubling, so that at most an eighth is wasted.
  static std::size_t block_size(std::size_t bytes) noexcept;

 private:
  // Under the mutex.
  std::size_t trim_locked() noexcept;
  std::size_t free_bytes() const noexcept;
  driver::Driver::Block take_from_device(std::size_t size, DType dtype, const Shape& shape);

  driver::Driver& driver_;
  mutable std::mutex mutex_;
  std::map<std::size_t, std::vector<std::byte*>> free_;  // by block size
  std::size_t limit_;
  std::size_t in_use_ = 0;
  std::size_t reserved_ = 0;
  std::size_t peak_ = 0;
  std::size_t buffers_ = 0;
  std::size_t allocations_ = 0;
};

}  // namespace tessera::detail::engine
