#include "driver/gpu/vulkan/queue.hpp"

namespace tessera::driver::gpu::vulkan {

std::uint64_t Queue::submit(std::span<const Dispatch> calls) {
  device_.throw_if_lost();
  Commands& commands = take();
  try {
    commands.record(calls);
    return timeline_.submit(commands.handle(), [&](std::uint64_t number) { note_submitted(commands, number); });
  } catch (...) {
    give_back(commands);
    throw;
  }
}

Commands& Queue::take() {
  if (Commands* commands = try_take()) return *commands;
  timeline_.ended();
  if (Commands* commands = try_take()) return *commands;
  auto made = std::make_unique<Commands>(device_, host_, false);
  const std::scoped_lock lock(mutex_);
  return *all_.emplace_back(std::move(made));
}

Commands* Queue::try_take() {
  const std::scoped_lock lock(mutex_);
  Commands* commands = nullptr;
  if (free_) {
    commands = free_;
    free_ = commands->next;
  } else if (oldest_ && oldest_->number <= timeline_.known_ended()) {
    commands = oldest_;
    oldest_ = commands->next;
    if (!oldest_) newest_ = nullptr;
  }
  return commands;
}

void Queue::give_back(Commands& commands) noexcept {
  const std::scoped_lock lock(mutex_);
  commands.next = free_;
  free_ = &commands;
}

void Queue::note_submitted(Commands& commands, std::uint64_t number) noexcept {
  const std::scoped_lock lock(mutex_);
  commands.number = number;
  commands.next = nullptr;
  (newest_ ? newest_->next : oldest_) = &commands;
  newest_ = &commands;
}

}  // namespace tessera::driver::gpu::vulkan
