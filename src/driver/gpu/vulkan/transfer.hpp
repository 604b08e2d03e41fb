#pragma once

#include "driver/gpu/vulkan/commands.hpp"
#include "driver/gpu/vulkan/memory.hpp"
#include "driver/gpu/vulkan/timeline.hpp"

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace tessera::driver::gpu::vulkan {

// Copies between the host and memory it cannot address, through staging memory. Thread-safe; the calls block.
class Transfer {
 public:
  Transfer(Device& device, Heap& host, Timeline& timeline);
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  void upload(const Block& to, std::size_t offset, std::span<const std::byte> from);
  void download(std::span<std::byte> to, const Block& from, std::size_t offset);
  void fill_zero(const Block& to, std::size_t offset, std::size_t bytes);

 private:
  // A block of staging memory with a command buffer.
  struct Stage;
  // The stages that one call has in flight.
  class Call;

  std::unique_ptr<Stage> make() const;
  // Null if none is free and it may not wait.
  Stage* take(bool may_wait);
  void give_back(Stage* stage) noexcept;

  Device& device_;
  Heap& host_;
  Timeline& timeline_;
  std::mutex mutex_;
  std::condition_variable is_free_;
  std::vector<std::unique_ptr<Stage>> stages_;
  std::vector<Stage*> free_;
};

}  // namespace tessera::driver::gpu::vulkan
