#include "driver/gpu/vulkan/timeline.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"
#include "driver/gpu/time_limit.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

namespace tessera::driver::gpu::vulkan {

namespace {

// How often waiters check whether the device was declared lost, which Vulkan does not wake them for.
constexpr std::chrono::nanoseconds slice = std::chrono::milliseconds(20);

}  // namespace

Timeline::Timeline(Device& device, Device::Queue& queue, VkPipelineStageFlags stage)
    : device_(device), queue_(queue), stage_(stage) {
  auto type = structure<VkSemaphoreTypeCreateInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO);
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  auto create = structure<VkSemaphoreCreateInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO);
  create.pNext = &type;
  device_.check(device_.functions().CreateSemaphore(device_.handle(), &create, nullptr, &semaphore_), "semaphore");
  const std::scoped_lock lock(queue_.mutex);
  queue_.timelines.emplace(semaphore_, &last_);
}

Timeline::~Timeline() {
  finish();
  {
    const std::scoped_lock lock(queue_.mutex);
    queue_.timelines.erase(semaphore_);
  }
  device_.functions().DestroySemaphore(device_.handle(), semaphore_, nullptr);
}

void Timeline::put(VkCommandBuffer commands) {
  // The host has waited for finished work, but that does not make its results visible to the device's caches. Waiting
  // for it on the device does, at no cost since it has finished.
  std::array<VkSemaphore, 2> semaphores{};
  std::array<std::uint64_t, 2> values{};
  const std::array<VkPipelineStageFlags, 2> stages{stage_, stage_};
  std::uint32_t waits = 0;
  for (const Timeline* timeline : {this, other_}) {
    const std::uint64_t over = timeline ? timeline->known_ended() : 0;
    if (over == 0) continue;
    semaphores[waits] = timeline->semaphore_;
    values[waits++] = over;
  }
  const std::uint64_t number = last_ + 1;
  auto numbers = structure<VkTimelineSemaphoreSubmitInfo>(VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO);
  numbers.waitSemaphoreValueCount = waits;
  numbers.pWaitSemaphoreValues = values.data();
  numbers.signalSemaphoreValueCount = 1;
  numbers.pSignalSemaphoreValues = &number;
  auto submit = structure<VkSubmitInfo>(VK_STRUCTURE_TYPE_SUBMIT_INFO);
  submit.pNext = &numbers;
  submit.waitSemaphoreCount = waits;
  submit.pWaitSemaphores = semaphores.data();
  submit.pWaitDstStageMask = stages.data();
  submit.commandBufferCount = 1;
  submit.pCommandBuffers = &commands;
  submit.signalSemaphoreCount = 1;
  submit.pSignalSemaphores = &semaphore_;
  device_.check(device_.functions().QueueSubmit(queue_.handle, 1, &submit, VK_NULL_HANDLE), "submitting");
}

void Timeline::note(std::uint64_t ended) noexcept {
  std::uint64_t known = ended_.load(std::memory_order_relaxed);
  while (known < ended && !ended_.compare_exchange_weak(known, ended, std::memory_order_acq_rel)) {
  }
}

std::uint64_t Timeline::ended() {
  std::uint64_t value = 0;
  device_.check(device_.functions().GetSemaphoreCounterValue(device_.handle(), semaphore_, &value), "asking");
  // After a loss, the value of the semaphore is meaningless.
  if (!device_.failure()) note(value);
  return known_ended();
}

Progress Timeline::wait(std::uint64_t number, Clock::time_point until) {
  auto info = structure<VkSemaphoreWaitInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO);
  info.semaphoreCount = 1;
  info.pSemaphores = &semaphore_;
  info.pValues = &number;
  while (true) {
    if (core::FailurePtr failure = device_.failure()) return {known_ended(), std::move(failure)};
    if (number <= known_ended()) return {known_ended(), nullptr};
    try {
      if (const Clock::time_point now = Clock::now(); now < until) {
        const auto left = std::min<std::chrono::nanoseconds>(slice, until - now);
        device_.check(
            device_.functions().WaitSemaphores(device_.handle(), &info, static_cast<std::uint64_t>(left.count())),
            "waiting");
      } else {
        return {ended(), device_.failure()};
      }
      ended();
    } catch (const Error& error) {
      device_.lose(error.message());  // whatever happened, completion can no longer be determined
    }
  }
}

void Timeline::wait(std::uint64_t number) {
  const std::chrono::nanoseconds limit = time_limit();
  std::uint64_t finished = 0;  // of both queues: what is ahead of a copy may be slow
  // Counts slices instead of reading the clock, which goes on while a debugger has stopped the process.
  std::chrono::nanoseconds waited{0};
  while (true) {
    const Progress progress = wait(number, Clock::now() + slice);
    if (progress.failure) throw Error(progress.failure);
    if (progress.ended >= number) return;
    const std::uint64_t now_finished = progress.ended + (other_ ? other_->ended() : 0);
    waited = now_finished != std::exchange(finished, now_finished) ? slice : waited + slice;
    if (waited < limit) continue;
    device_.lose(core::text("a copy has not finished within ", std::chrono::duration<double>(limit).count(), " s"));
  }
}

void Timeline::finish() noexcept {
  if (device_.failure()) {
    device_.settle();
    return;
  }
  const std::scoped_lock lock(queue_.mutex);
  device_.functions().QueueWaitIdle(queue_.handle);
}

}  // namespace tessera::driver::gpu::vulkan
