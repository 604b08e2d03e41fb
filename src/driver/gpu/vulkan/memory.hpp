#pragma once

#include "driver/gpu/api.hpp"
#include "driver/gpu/vulkan/device.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <tuple>

namespace tessera::driver::gpu::vulkan {

class Heap;

// A device allocation and a buffer that covers it. Creating one takes far longer than suballocating from it.
struct Chunk {
  VkDeviceMemory memory = VK_NULL_HANDLE;
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceSize size = 0;
  std::byte* address = nullptr;               // for the host; null if it cannot access it
  bool is_shared = false;                     // otherwise a single block owns it
  std::map<VkDeviceSize, VkDeviceSize> free;  // offsets and sizes of free ranges
};

// A part of a chunk, returned to it on destruction.
class Block final : public Memory {
 public:
  Block(Heap& heap, Chunk& chunk, VkDeviceSize offset, VkDeviceSize size)
      : heap_(heap), chunk_(chunk), offset_(offset), size_(size) {}
  ~Block() override;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  std::byte* host_address() noexcept override { return chunk_.address ? chunk_.address + offset_ : nullptr; }
  VkBuffer buffer() const noexcept { return chunk_.buffer; }
  VkDeviceSize offset() const noexcept { return offset_; }
  VkDeviceSize size() const noexcept { return size_; }
  // Make what the host wrote visible to the device, and what the device wrote to the host. For mapped memory; do
  // nothing if it is coherent.
  void show_to_device(VkDeviceSize offset, VkDeviceSize bytes) const;
  void show_to_host(VkDeviceSize offset, VkDeviceSize bytes) const;

 private:
  VkMappedMemoryRange range(VkDeviceSize offset, VkDeviceSize bytes) const noexcept;

  Heap& heap_;
  Chunk& chunk_;
  VkDeviceSize offset_;
  VkDeviceSize size_;  // occupied bytes, a multiple of the heap's granule
};

// Memory of one type. Small blocks share chunks, large ones have their own.
class Heap {
 public:
  // If mapped, the host can address its blocks; the memory type must allow that.
  Heap(Device& device, std::uint32_t type, bool is_mapped);
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // Null if out of memory.
  std::unique_ptr<Block> allocate(std::size_t bytes);
  std::size_t chunks() const;

 private:
  friend class Block;

  void release(const Block& block, Chunk& chunk) noexcept;
  std::unique_ptr<Block> take(VkDeviceSize size);
  Chunk* add(VkDeviceSize size, bool is_shared);
  bool fill(Chunk& chunk, VkDeviceSize size);
  void remove(Chunk& chunk) noexcept;
  void add_free(Chunk& chunk, VkDeviceSize offset, VkDeviceSize size);
  void remove_free(Chunk& chunk, VkDeviceSize offset, VkDeviceSize size) noexcept;

  Device& device_;
  std::uint32_t type_;
  bool is_mapped_;
  bool is_coherent_;
  VkDeviceSize granule_;
  VkDeviceSize chunk_size_;
  VkDeviceSize most_;  // bytes per block
  mutable std::mutex mutex_;
  std::map<Chunk*, std::unique_ptr<Chunk>> chunks_;
  std::set<std::tuple<VkDeviceSize, Chunk*, VkDeviceSize>> by_size_;  // free ranges: size, chunk, offset
  Chunk* spare_ = nullptr;                                            // the one empty chunk that is kept
};

// The memory type for kernels, and one that the host can address, and read quickly if the device has such memory.
struct MemoryTypes {
  std::uint32_t kernels = 0;
  std::uint32_t host = 0;
  bool is_shared = false;  // the host can use the memory of kernels as its own: it is the same type
};
// If `is_staged`, nothing is shared.
MemoryTypes choose_memory_types(Device& device, bool is_staged);

}  // namespace tessera::driver::gpu::vulkan
