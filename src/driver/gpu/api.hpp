#pragma once

#include <tessera/device_info.hpp>

#include "compile/gpu/source.hpp"
#include "core/failure.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

// What the GPU driver needs of an interface to GPUs: memory, kernels from text, and a queue. One implementation for
// each interface: vulkan, opencl, gles. Any thread may call any member at any time.
namespace tessera::driver::gpu {

using Clock = std::chrono::steady_clock;

// A block of the device's memory.
class Memory {
 public:
  virtual ~Memory() = default;
  // Where the host can address it at any time, and both see what the other writes; null where it cannot.
  virtual std::byte* host_address() noexcept { return nullptr; }
};

// A kernel that the device can run.
class Module {
 public:
  virtual ~Module() = default;
};

// One call of a kernel.
struct Dispatch {
  const Module* module = nullptr;
  std::vector<Memory*> buffers;          // as Kernel::buffers, then the scratch memory if it has some
  std::vector<std::uint32_t> arguments;  // as Kernel::arguments gives them
  std::uint32_t groups = 1;              // workgroups, at most most_groups(); there may be some more of them
  bool waits = true;                     // for all calls before it in the same submission
};

// Workgroups in two dimensions, where one takes only so many: at least as many as wanted.
struct Grid {
  std::uint32_t x, y;

  static constexpr Grid of(std::uint32_t groups, std::uint32_t most) noexcept {
    const std::uint32_t y = (groups - 1) / most + 1;
    return {(groups - 1) / y + 1, y};
  }
  // How many there can be, as far as numbers of 32 bits go.
  static constexpr std::uint32_t most(std::uint32_t x, std::uint32_t y) noexcept {
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(std::uint64_t{x} * y, std::numeric_limits<std::int32_t>::max()));
  }
};

// Calls that are submitted together, made ready to be submitted many times, one at a time.
class Recording {
 public:
  virtual ~Recording() = default;
};

// How far the queue is. Submissions are numbered from 1, and all up to `ended` are over. If the device is lost,
// `failure` says so, and none of the others will ever end.
struct Progress {
  std::uint64_t ended = 0;
  core::FailurePtr failure;
};

class Api {
 public:
  virtual ~Api() = default;

  virtual const DeviceInfo& info() const = 0;
  virtual const compile::gpu::Target& target() const = 0;
  virtual std::size_t most_buffer_bytes() const = 0;  // of one block that a kernel can use
  virtual std::uint32_t most_groups() const = 0;      // of one dispatch

  // Null: the device has no more. Memory comes with any contents.
  virtual std::unique_ptr<Memory> allocate(std::size_t bytes) = 0;
  // They block, and are ordered after nothing: nobody else uses that memory meanwhile. Throw Error if the device fails.
  virtual void upload(Memory& to, std::size_t offset, std::span<const std::byte> from) = 0;
  virtual void download(std::span<std::byte> to, Memory& from, std::size_t offset) = 0;
  virtual void fill_zero(Memory& to, std::size_t offset, std::size_t bytes) = 0;

  // Blocks. Errc::invalid_kernel with what the compiler said, if it does not compile; that is kept on disk if it does,
  // where the interface can.
  virtual std::unique_ptr<Module> compile(const compile::gpu::Kernel& kernel, const std::string& name) = 0;

  // Puts the calls into the queue and returns its number at once. What they use must live until it is over. Throws
  // Errc::device_failure if the device is lost, Errc::out_of_memory.
  virtual std::uint64_t submit(std::span<const Dispatch> calls) = 0;
  virtual std::unique_ptr<Recording> record(std::span<const Dispatch> calls) = 0;
  // The recording's submission before must be over.
  virtual std::uint64_t submit(Recording& recording) = 0;
  // Returns when submission `number` is over, the device is lost, or at `until`: with a time that has passed, at once.
  virtual Progress wait(std::uint64_t number, Clock::time_point until) = 0;
  // From now on the device counts as lost: for tests.
  virtual void lose(std::string why) = 0;
};

// The devices of an interface that this machine has; empty, not an error, where the loader or all devices are missing.
// Throws only what a caller must know of a device that is there but cannot be opened.
std::vector<DeviceInfo> vulkan_devices();
std::unique_ptr<Api> open_vulkan(std::size_t number);
std::vector<DeviceInfo> opencl_devices();
std::unique_ptr<Api> open_opencl(std::size_t number);
std::vector<DeviceInfo> gles_devices();
std::unique_ptr<Api> open_gles(std::size_t number);

}  // namespace tessera::driver::gpu
