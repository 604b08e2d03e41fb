#include "driver/gpu/vulkan/memory.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <iterator>
#include <optional>

namespace tessera::driver::gpu::vulkan {

namespace {

constexpr VkDeviceSize usual_chunk = VkDeviceSize{64} << 20;

VkResult make_buffer(Device& device, VkDeviceSize size, VkBuffer& buffer) {
  const std::array<std::uint32_t, 2> families{device.physical().compute.family, device.physical().transfer.family};
  auto create = structure<VkBufferCreateInfo>(VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO);
  create.size = size;
  create.usage =
      VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  if (families[0] != families[1]) {
    create.sharingMode = VK_SHARING_MODE_CONCURRENT;
    create.queueFamilyIndexCount = 2;
    create.pQueueFamilyIndices = families.data();
  }
  return device.functions().CreateBuffer(device.handle(), &create, nullptr, &buffer);
}

VkMemoryPropertyFlags flags_of(const Device& device, std::uint32_t type) {
  return device.physical().memory.memoryTypes[type].propertyFlags;
}

VkDeviceSize heap_size(const Device& device, std::uint32_t type) {
  const VkPhysicalDeviceMemoryProperties& memory = device.physical().memory;
  return memory.memoryHeaps[memory.memoryTypes[type].heapIndex].size;
}

}  // namespace

Block::~Block() { heap_.release(*this, chunk_); }

// The bytes of a block, extended to whole atoms, which do not go beyond it.
VkMappedMemoryRange Block::range(VkDeviceSize offset, VkDeviceSize bytes) const noexcept {
  const VkDeviceSize atom = heap_.device_.physical().properties.limits.nonCoherentAtomSize;
  auto range = structure<VkMappedMemoryRange>(VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE);
  range.memory = chunk_.memory;
  range.offset = (offset_ + offset) / atom * atom;
  range.size = (offset_ + offset + bytes + atom - 1) / atom * atom - range.offset;
  return range;
}

void Block::show_to_device(VkDeviceSize offset, VkDeviceSize bytes) const {
  if (heap_.is_coherent_) return;
  Device& device = heap_.device_;
  const VkMappedMemoryRange range = this->range(offset, bytes);
  device.check(device.functions().FlushMappedMemoryRanges(device.handle(), 1, &range), "flushing memory");
}

void Block::show_to_host(VkDeviceSize offset, VkDeviceSize bytes) const {
  if (heap_.is_coherent_) return;
  Device& device = heap_.device_;
  const VkMappedMemoryRange range = this->range(offset, bytes);
  device.check(device.functions().InvalidateMappedMemoryRanges(device.handle(), 1, &range), "invalidating memory");
}

Heap::Heap(Device& device, std::uint32_t type, bool is_mapped)
    : device_(device),
      type_(type),
      is_mapped_(is_mapped),
      is_coherent_((flags_of(device, type) & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT) != 0),
      // The device's alignment for buffers of kernels, 64 bytes for the host, and whole atoms, so that what is done for
      // one block never touches another. All are powers of two.
      granule_(std::max({VkDeviceSize{64}, device.physical().properties.limits.minStorageBufferOffsetAlignment,
                         device.physical().properties.limits.nonCoherentAtomSize})),
      chunk_size_(std::min(usual_chunk, heap_size(device, type) / 16 / granule_ * granule_)),
      most_(std::min(heap_size(device, type), device.physical().most_allocation)) {}

Heap::~Heap() {
  while (!chunks_.empty()) remove(*chunks_.begin()->second);
}

std::size_t Heap::chunks() const {
  const std::scoped_lock lock(mutex_);
  return chunks_.size();
}

std::unique_ptr<Block> Heap::allocate(std::size_t bytes) {
  if (bytes > most_ || most_ - bytes < granule_) return nullptr;
  const VkDeviceSize size = std::max<VkDeviceSize>(1, (bytes + granule_ - 1) / granule_) * granule_;
  const std::scoped_lock lock(mutex_);
  if (size <= chunk_size_ / 4) {
    if (auto block = take(size)) return block;
    if (add(chunk_size_, true)) return take(size);
  }
  Chunk* chunk = add(size, false);
  return chunk ? std::make_unique<Block>(*this, *chunk, 0, size) : nullptr;
}

std::unique_ptr<Block> Heap::take(VkDeviceSize size) {
  const auto best = by_size_.lower_bound({size, nullptr, 0});
  if (best == by_size_.end()) return nullptr;
  const auto [found, chunk, offset] = *best;
  auto block = std::make_unique<Block>(*this, *chunk, offset, size);
  remove_free(*chunk, offset, found);
  if (found > size) add_free(*chunk, offset + size, found - size);
  if (chunk == spare_) spare_ = nullptr;
  return block;
}

void Heap::release(const Block& block, Chunk& chunk) noexcept {
  device_.settle();
  const std::scoped_lock lock(mutex_);
  if (!chunk.is_shared) {
    remove(chunk);
    return;
  }
  VkDeviceSize offset = block.offset();
  VkDeviceSize size = block.size();
  auto next = chunk.free.upper_bound(offset);
  if (next != chunk.free.begin()) {
    const auto [before, length] = *std::prev(next);
    if (before + length == offset) {
      remove_free(chunk, before, length);
      offset = before;
      size += length;
      next = chunk.free.upper_bound(offset);
    }
  }
  if (next != chunk.free.end() && next->first == offset + size) {
    const VkDeviceSize length = next->second;
    remove_free(chunk, offset + size, length);
    size += length;
  }
  add_free(chunk, offset, size);
  if (size != chunk.size) return;
  // Keep one empty chunk: otherwise, allocating and freeing a single block would create a chunk each time.
  if (spare_) {
    remove(chunk);
  } else {
    spare_ = &chunk;
  }
}

Chunk* Heap::add(VkDeviceSize size, bool is_shared) {
  auto made = std::make_unique<Chunk>();
  Chunk& chunk = *made;
  chunk.is_shared = is_shared;
  chunks_.emplace(&chunk, std::move(made));
  if (!fill(chunk, size)) {
    remove(chunk);
    return nullptr;
  }
  if (is_shared) {
    add_free(chunk, 0, size);
    spare_ = &chunk;
  }
  return &chunk;
}

bool Heap::fill(Chunk& chunk, VkDeviceSize size) {
  const DeviceFunctions& functions = device_.functions();
  chunk.size = size;
  if (make_buffer(device_, size, chunk.buffer) != VK_SUCCESS) return false;
  VkMemoryRequirements requirements{};
  functions.GetBufferMemoryRequirements(device_.handle(), chunk.buffer, &requirements);
  auto allocate = structure<VkMemoryAllocateInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO);
  allocate.allocationSize = requirements.size;
  allocate.memoryTypeIndex = type_;
  if (functions.AllocateMemory(device_.handle(), &allocate, nullptr, &chunk.memory) != VK_SUCCESS) return false;
  if (functions.BindBufferMemory(device_.handle(), chunk.buffer, chunk.memory, 0) != VK_SUCCESS) return false;
  if (!is_mapped_) return true;
  void* address = nullptr;
  if (functions.MapMemory(device_.handle(), chunk.memory, 0, VK_WHOLE_SIZE, 0, &address) != VK_SUCCESS) return false;
  chunk.address = static_cast<std::byte*>(address);
  return true;
}

void Heap::remove(Chunk& chunk) noexcept {
  for (const auto& [offset, size] : chunk.free) by_size_.erase({size, &chunk, offset});
  if (spare_ == &chunk) spare_ = nullptr;
  device_.functions().DestroyBuffer(device_.handle(), chunk.buffer, nullptr);
  device_.functions().FreeMemory(device_.handle(), chunk.memory, nullptr);
  chunks_.erase(&chunk);
}

void Heap::add_free(Chunk& chunk, VkDeviceSize offset, VkDeviceSize size) {
  chunk.free.emplace(offset, size);
  by_size_.emplace(size, &chunk, offset);
}

void Heap::remove_free(Chunk& chunk, VkDeviceSize offset, VkDeviceSize size) noexcept {
  chunk.free.erase(offset);
  by_size_.erase({size, &chunk, offset});
}

MemoryTypes choose_memory_types(Device& device, bool is_staged) {
  // The memory types of a buffer do not depend on its size.
  VkBuffer sample = VK_NULL_HANDLE;
  device.check(make_buffer(device, 256, sample), "buffer");
  VkMemoryRequirements requirements{};
  device.functions().GetBufferMemoryRequirements(device.handle(), sample, &requirements);
  device.functions().DestroyBuffer(device.handle(), sample, nullptr);

  const auto find_one = [&](VkMemoryPropertyFlags wish) -> std::optional<std::uint32_t> {
    for (std::uint32_t type = 0; type < device.physical().memory.memoryTypeCount; ++type) {
      if ((requirements.memoryTypeBits >> type & 1U) != 0 && (flags_of(device, type) & wish) == wish) return type;
    }
    return std::nullopt;
  };
  const auto find = [&](std::initializer_list<VkMemoryPropertyFlags> wishes) -> std::uint32_t {
    for (const VkMemoryPropertyFlags wish : wishes) {
      if (const auto type = find_one(wish)) return *type;
    }
    throw Error(Errc::device_failure, core::text("the device '", device.physical().info.name,
                                                 "' (vulkan) has no memory that a kernel and the host can use"));
  };
  constexpr VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
  constexpr VkMemoryPropertyFlags visible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT;
  constexpr VkMemoryPropertyFlags coherent = VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  constexpr VkMemoryPropertyFlags cached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
  MemoryTypes types;
  types.host = find({visible | cached | coherent, visible | cached, visible | coherent});
  types.kernels = find({local, 0});
  if (device.physical().is_unified() && !is_staged) {
    // Only if it is cached: reading uncached memory is much slower than copying it to cached memory first.
    if (const auto both = find_one(local | visible | coherent | cached)) types = {*both, *both, true};
  }
  return types;
}

}  // namespace tessera::driver::gpu::vulkan
