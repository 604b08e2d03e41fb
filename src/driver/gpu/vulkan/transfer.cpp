#include "driver/gpu/vulkan/transfer.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"

#include <algorithm>
#include <cstring>
#include <deque>

namespace tessera::driver::gpu::vulkan {

namespace {

constexpr std::size_t most_stages = 4;
constexpr std::size_t stages_per_call = 2;  // the host copies one while the device copies the other
constexpr std::size_t stage_bytes = std::size_t{2} << 20;
constexpr std::size_t zero_bytes = 8;  // at the end of each stage, for bytes that fills cannot reach

}  // namespace

struct Transfer::Stage {
  Stage(std::unique_ptr<Block> with_memory, Device& device)
      : memory(std::move(with_memory)), commands(device, device.physical().transfer.family, false) {}

  std::unique_ptr<Block> memory;
  CommandBuffer commands;
  std::uint64_t number = 0;  // of its last submission, 0 if there was none
};

// Returns its stages however the call ends.
class Transfer::Call {
 public:
  explicit Call(Transfer& transfer) : transfer_(transfer) {}
  ~Call() {
    for (Stage* stage : held_) {
      try {
        transfer_.timeline_.wait(stage->number);  // it may be in flight after an error
      } catch (const Error&) {
        transfer_.device_.settle();
      }
      transfer_.give_back(stage);
    }
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // A free stage: a new one, or the call's oldest after finished(stage).
  template <class Finished>
  Stage& next(Finished&& finished) {
    Stage* stage = held_.size() < stages_per_call ? transfer_.take(held_.empty()) : nullptr;
    if (!stage) {
      stage = held_.front();
      finish(*stage, finished);
      held_.pop_front();
    }
    held_.push_back(stage);
    return *stage;
  }
  template <class Finished>
  void finish_all(Finished&& finished) {
    for (Stage* stage : held_) finish(*stage, finished);
  }

 private:
  template <class Finished>
  void finish(Stage& stage, Finished&& finished) {
    transfer_.timeline_.wait(stage.number);
    finished(stage);
  }

  Transfer& transfer_;
  std::deque<Stage*> held_;
};

Transfer::Transfer(Device& device, Heap& host, Timeline& timeline)
    : device_(device), host_(host), timeline_(timeline) {}

Transfer::~Transfer() { timeline_.finish(); }

std::unique_ptr<Transfer::Stage> Transfer::make() const {
  auto memory = host_.allocate(stage_bytes + zero_bytes);
  if (!memory) {
    throw Error(Errc::out_of_memory,
                core::text("out of staging memory for the device '", device_.physical().info.name, "' (vulkan)"));
  }
  std::memset(memory->host_address() + stage_bytes, 0, zero_bytes);
  memory->show_to_device(stage_bytes, zero_bytes);
  return std::make_unique<Stage>(std::move(memory), device_);
}

Transfer::Stage* Transfer::take(bool may_wait) {
  std::unique_lock lock(mutex_);
  if (free_.empty() && stages_.size() < most_stages) {
    stages_.push_back(make());
    free_.reserve(most_stages);
    free_.push_back(stages_.back().get());
  }
  if (free_.empty() && !may_wait) return nullptr;
  is_free_.wait(lock, [&] { return !free_.empty(); });
  Stage* stage = free_.back();
  free_.pop_back();
  stage->number = 0;
  return stage;
}

void Transfer::give_back(Stage* stage) noexcept {
  {
    const std::scoped_lock lock(mutex_);
    free_.push_back(stage);
  }
  is_free_.notify_one();
}

void Transfer::upload(const Block& to, std::size_t offset, std::span<const std::byte> from) {
  const auto nothing = [](Stage&) {};
  Call call(*this);
  for (std::size_t at = 0; at < from.size();) {
    Stage& stage = call.next(nothing);
    const std::size_t bytes = std::min(stage_bytes, from.size() - at);
    std::memcpy(stage.memory->host_address(), from.data() + at, bytes);
    stage.memory->show_to_device(0, bytes);
    stage.commands.begin();
    const VkBufferCopy copy{stage.memory->offset(), to.offset() + offset + at, bytes};
    device_.functions().CmdCopyBuffer(stage.commands.handle(), stage.memory->buffer(), to.buffer(), 1, &copy);
    stage.commands.end();
    stage.number = timeline_.submit(stage.commands.handle());
    at += bytes;
  }
  call.finish_all(nothing);
}

void Transfer::download(std::span<std::byte> to, const Block& from, std::size_t offset) {
  std::size_t read = 0;
  const auto take_out = [&](Stage& stage) {
    const std::size_t bytes = std::min(stage_bytes, to.size() - read);
    stage.memory->show_to_host(0, bytes);
    std::memcpy(to.data() + read, stage.memory->host_address(), bytes);
    read += bytes;
  };
  Call call(*this);
  for (std::size_t at = 0; at < to.size();) {
    Stage& stage = call.next(take_out);
    const std::size_t bytes = std::min(stage_bytes, to.size() - at);
    stage.commands.begin();
    const VkBufferCopy copy{from.offset() + offset + at, stage.memory->offset(), bytes};
    device_.functions().CmdCopyBuffer(stage.commands.handle(), from.buffer(), stage.memory->buffer(), 1, &copy);
    auto shown = structure<VkMemoryBarrier>(VK_STRUCTURE_TYPE_MEMORY_BARRIER);
    shown.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
    shown.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
    device_.functions().CmdPipelineBarrier(stage.commands.handle(), VK_PIPELINE_STAGE_TRANSFER_BIT,
                                           VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &shown, 0, nullptr, 0, nullptr);
    stage.commands.end();
    stage.number = timeline_.submit(stage.commands.handle());
    at += bytes;
  }
  call.finish_all(take_out);
}

void Transfer::fill_zero(const Block& to, std::size_t offset, std::size_t bytes) {
  if (bytes == 0) return;
  const auto nothing = [](Stage&) {};
  Call call(*this);
  Stage& stage = call.next(nothing);
  const VkDeviceSize begin = to.offset() + offset;
  const VkDeviceSize end = begin + bytes;
  // Vulkan fills whole words; bytes before and after them are copied.
  const VkDeviceSize first = std::min((begin + 3) / 4 * 4, end);
  const VkDeviceSize last = std::max(end / 4 * 4, first);
  stage.commands.begin();
  const auto copy_zeros = [&](VkDeviceSize from, VkDeviceSize until) {
    if (from == until) return;
    const VkBufferCopy copy{stage.memory->offset() + stage_bytes, from, until - from};
    device_.functions().CmdCopyBuffer(stage.commands.handle(), stage.memory->buffer(), to.buffer(), 1, &copy);
  };
  copy_zeros(begin, first);
  if (first < last) device_.functions().CmdFillBuffer(stage.commands.handle(), to.buffer(), first, last - first, 0);
  copy_zeros(last, end);
  stage.commands.end();
  stage.number = timeline_.submit(stage.commands.handle());
  call.finish_all(nothing);
}

}  // namespace tessera::driver::gpu::vulkan
