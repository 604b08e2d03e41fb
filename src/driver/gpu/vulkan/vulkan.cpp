#include <tessera/error.hpp>

#include "compile/gpu/glsl/spirv.hpp"
#include "core/text.hpp"
#include "driver/gpu/api.hpp"
#include "driver/gpu/vulkan/float_controls.hpp"
#include "driver/gpu/vulkan/memory.hpp"
#include "driver/gpu/vulkan/module.hpp"
#include "driver/gpu/vulkan/open.hpp"
#include "driver/gpu/vulkan/queue.hpp"
#include "driver/gpu/vulkan/transfer.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

namespace tessera::driver::gpu {

namespace vulkan {

namespace {

class Vulkan final : public Api {
 public:
  explicit Vulkan(const PhysicalDevice& physical)
      : device_(physical),
        pipelines_(device_),
        types_(choose_memory_types(device_, is_set("TESSERA_VULKAN_STAGING"))),
        memory_(device_, types_.kernels, types_.is_shared),
        staging_(device_, types_.host, true),
        calls_(device_, device_.compute(), VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT),
        copies_(device_, device_.transfer(), VK_PIPELINE_STAGE_TRANSFER_BIT),
        transfer_(device_, staging_, copies_),
        queue_(device_, staging_, calls_) {
    calls_.see(copies_);
    copies_.see(calls_);
  }
  ~Vulkan() override {
    calls_.finish();
    copies_.finish();
  }

  const DeviceInfo& info() const override { return device_.physical().info; }
  const compile::gpu::Target& target() const override { return device_.physical().target; }
  std::size_t most_buffer_bytes() const override {
    return std::min<std::size_t>(device_.physical().properties.limits.maxStorageBufferRange,
                                 device_.physical().most_allocation);
  }
  std::uint32_t most_groups() const override {
    const std::uint32_t* most = device_.physical().properties.limits.maxComputeWorkGroupCount;
    return Grid::most(most[0], most[1]);
  }

  std::unique_ptr<Memory> allocate(std::size_t bytes) override {
    // Kernels could access only a part of a larger block.
    return bytes <= most_buffer_bytes() ? memory_.allocate(bytes) : nullptr;
  }

  void upload(Memory& to, std::size_t offset, std::span<const std::byte> from) override {
    device_.throw_if_lost();
    if (std::byte* address = to.host_address()) {
      if (!from.empty()) std::memcpy(address + offset, from.data(), from.size());
    } else {
      transfer_.upload(static_cast<const Block&>(to), offset, from);
    }
  }
  void download(std::span<std::byte> to, Memory& from, std::size_t offset) override {
    device_.throw_if_lost();
    if (const std::byte* address = from.host_address()) {
      if (!to.empty()) std::memcpy(to.data(), address + offset, to.size());
    } else {
      transfer_.download(to, static_cast<const Block&>(from), offset);
    }
  }
  void fill_zero(Memory& to, std::size_t offset, std::size_t bytes) override {
    device_.throw_if_lost();
    if (std::byte* address = to.host_address()) {
      std::memset(address + offset, 0, bytes);
    } else {
      transfer_.fill_zero(static_cast<const Block&>(to), offset, bytes);
    }
  }

  std::unique_ptr<Module> compile(const compile::gpu::Kernel& kernel, const std::string& name) override {
    std::vector<std::uint32_t> words = compile::gpu::glsl::spirv(kernel.source, name);
    add_float_controls(words, device_.physical().floats);
    auto made = std::make_unique<Kernel>(device_, kernel, words, pipelines_.handle());
    pipelines_.note_new();
    return made;
  }

  std::uint64_t submit(std::span<const Dispatch> calls) override { return queue_.submit(calls); }
  std::unique_ptr<Recording> record(std::span<const Dispatch> calls) override {
    device_.throw_if_lost();
    return std::make_unique<RecordedCalls>(device_, staging_, calls);
  }
  std::uint64_t submit(Recording& recording) override { return queue_.submit(static_cast<RecordedCalls&>(recording)); }
  Progress wait(std::uint64_t number, Clock::time_point until) override { return calls_.wait(number, until); }

  void lose(std::string why) override {
    calls_.wait(std::numeric_limits<std::uint64_t>::max(),
                Clock::time_point::min());  // records what has finished by now
    device_.lose(why);
  }

 private:
  Device device_;
  PipelineCache pipelines_;
  MemoryTypes types_;
  Heap memory_;   // for kernels
  Heap staging_;  // for transfers and arguments
  Timeline calls_;
  Timeline copies_;
  Transfer transfer_;
  Queue queue_;
};

}  // namespace

std::unique_ptr<Api> open(const PhysicalDevice& physical) { return std::make_unique<Vulkan>(physical); }

}  // namespace vulkan

std::vector<DeviceInfo> vulkan_devices() {
  std::vector<DeviceInfo> infos;
  for (const vulkan::PhysicalDevice& device : vulkan::Instance::get().devices()) infos.push_back(device.info);
  return infos;
}

std::unique_ptr<Api> open_vulkan(std::size_t number) {
  const std::vector<vulkan::PhysicalDevice>& devices = vulkan::Instance::get().devices();
  if (number >= devices.size()) {
    throw Error(Errc::unknown_device,
                core::text("there is no Vulkan device ", number, ": this machine has ", devices.size()));
  }
  return vulkan::open(devices[number]);
}

}  // namespace tessera::driver::gpu
