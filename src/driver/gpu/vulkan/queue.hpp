#pragma once

#include "driver/gpu/api.hpp"
#include "driver/gpu/vulkan/commands.hpp"
#include "driver/gpu/vulkan/timeline.hpp"

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace tessera::driver::gpu::vulkan {

// Calls that were recorded once.
class RecordedCalls final : public Recording {
 public:
  RecordedCalls(Device& device, Heap& host, std::span<const Dispatch> calls) : commands_(device, host, true) {
    commands_.record(calls);
  }
  VkCommandBuffer handle() const noexcept { return commands_.handle(); }

 private:
  Commands commands_;
};

// Submits calls; what records them is used again when they are over, so that nothing is allocated once there are as
// many as are ever under way at the same time.
class Queue {
 public:
  Queue(Device& device, Heap& host, Timeline& timeline) : device_(device), host_(host), timeline_(timeline) {}

  std::uint64_t submit(std::span<const Dispatch> calls);
  std::uint64_t submit(RecordedCalls& recording) { return timeline_.submit(recording.handle()); }

 private:
  Commands& take();
  Commands* try_take();
  void give_back(Commands& commands) noexcept;
  void note_submitted(Commands& commands, std::uint64_t number) noexcept;

  Device& device_;
  Heap& host_;
  Timeline& timeline_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Commands>> all_;
  Commands* free_ = nullptr;
  // Those that were submitted, in the order of their numbers.
  Commands* oldest_ = nullptr;
  Commands* newest_ = nullptr;
};

}  // namespace tessera::driver::gpu::vulkan
