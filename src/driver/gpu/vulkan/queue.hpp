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

// Calls recorded for repeated submission.
class RecordedCalls final : public Recording {
 public:
  RecordedCalls(Device& device, Heap& host, std::span<const Dispatch> calls) : commands_(device, host, true) {
    commands_.record(calls);
  }
  VkCommandBuffer handle() const noexcept { return commands_.handle(); }

 private:
  Commands commands_;
};

// Submits calls. Their command buffers are reused once they finish, so nothing is allocated in the steady state.
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
  // The submitted ones, ordered by number.
  Commands* oldest_ = nullptr;
  Commands* newest_ = nullptr;
};

}  // namespace tessera::driver::gpu::vulkan
