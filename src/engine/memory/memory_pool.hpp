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

// The device's memory in blocks of a few sizes, kept for the next buffer when one is freed. Any thread.
class MemoryPool {
 public:
  MemoryPool(driver::Driver& driver, std::size_t limit) : driver_(driver), limit_(limit) {}
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  struct Block {
    std::byte* address = nullptr;
    std::size_t size = 0;  // what it takes of the device
    std::size_t requested = 0;
    bool is_zero = false;
  };

  // For elements of this type and shape. Errc::out_of_memory beyond the limit, or if the device has no more; nothing
  // has changed then.
  Block allocate(DType dtype, const Shape& shape);
  void free(const Block& block) noexcept;

  MemoryInfo info() const;
  void set_limit(std::size_t bytes);
  std::size_t trim();

  // The size of the block that serves so many bytes: eight steps a doubling, so that at most an eighth is wasted.
  static std::size_t block_size(std::size_t bytes) noexcept;

 private:
  // Under the mutex.
  std::size_t trim_locked() noexcept;
  std::size_t kept_bytes() const noexcept;
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
