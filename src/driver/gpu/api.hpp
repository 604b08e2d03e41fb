#pragma once

#include <tessera/device_info.hpp>
#include <tessera/error.hpp>

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
#include <utility>
#include <vector>

// What the GPU driver needs from a GPU API: memory, kernels compiled from source, and a queue. Implemented by vulkan,
// opencl and gles. Any thread may call any member at any time.
namespace tessera::driver::gpu {

using Clock = std::chrono::steady_clock;

// A block of device memory.
class Memory {
 public:
  virtual ~Memory() = default;
  // The address at which the host can access it at any time, coherently; null if it cannot.
  virtual std::byte* host_address() noexcept { return nullptr; }
};

// A compiled kernel.
class Module {
 public:
  virtual ~Module() = default;
};

// One call of a kernel.
struct Dispatch {
  const Module* module = nullptr;
  std::vector<Memory*> buffers;          // as Kernel::buffers, then the scratch memory if any
  std::vector<std::uint32_t> arguments;  // from Kernel::arguments
  std::uint32_t groups = 1;              // workgroups, at most most_groups(); a few more may run
  bool waits = true;                     // for all earlier calls of the same submission
  bool waits_for_submissions = false;    // for all earlier submissions too; only the first call of a submission can
  std::int64_t work = 0;                 // loop steps of all invocations, roughly; see long_launches.hpp
};

// The device can run a kernel, but only with workgroups of at most `most` invocations: print it again for those.
class GroupTooLarge final : public Error {
 public:
  GroupTooLarge(std::string message, int most) : Error(Errc::invalid_kernel, std::move(message)), most_(most) {}
  int most() const noexcept { return most_; }

 private:
  int most_;
};

// Workgroups spread over two dimensions, each of which is limited: at least as many as requested.
struct Grid {
  std::uint32_t x, y;

  static constexpr Grid of(std::uint32_t groups, std::uint32_t most) noexcept {
    const std::uint32_t y = (groups - 1) / most + 1;
    return {(groups - 1) / y + 1, y};
  }
  // The most that a grid can have, capped to 31 bits.
  static constexpr std::uint32_t most(std::uint32_t x, std::uint32_t y) noexcept {
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(std::uint64_t{x} * y, std::numeric_limits<std::int32_t>::max()));
  }
};

// A sequence of calls, prepared to be submitted many times, one submission at a time.
class Recording {
 public:
  virtual ~Recording() = default;
};

// The progress of the queue. Submissions are numbered from 1; all up to `ended` have finished. If the device is lost,
// `failure` is set and no other will ever finish.
struct Progress {
  std::uint64_t ended = 0;
  core::FailurePtr failure;
};

class Api {
 public:
  virtual ~Api() = default;

  virtual const DeviceInfo& info() const = 0;
  virtual const compile::gpu::Target& target() const = 0;
  virtual std::size_t most_buffer_bytes() const = 0;  // of one block, as far as kernels can use it
  virtual std::uint32_t most_groups() const = 0;      // of one dispatch
  // Of one submission, unless it is a single workgroup: see long_launches.hpp. lavapipe on two cores does 1.2e8 steps a
  // second (measured with relu). A phone's GPU does some ten times as many, and so takes 0.3 s for 2^28; the strictest
  // system timer is 2 s (Windows). A fast GPU takes a few milliseconds, beside which a submission costs nothing.
  virtual std::int64_t most_work() const { return std::int64_t{1} << 28; }

  // Null if out of memory. The contents are undefined.
  virtual std::unique_ptr<Memory> allocate(std::size_t bytes) = 0;
  // Block. They are not ordered with submissions: nothing else may use that memory meanwhile. Throw Error if the device
  // fails.
  virtual void upload(Memory& to, std::size_t offset, std::span<const std::byte> from) = 0;
  virtual void download(std::span<std::byte> to, Memory& from, std::size_t offset) = 0;
  virtual void fill_zero(Memory& to, std::size_t offset, std::size_t bytes) = 0;

  // Blocks. Throws Errc::invalid_kernel with the compiler's message, or GroupTooLarge. Where the API allows, the binary
  // is cached on disk.
  virtual std::unique_ptr<Module> compile(const compile::gpu::Kernel& kernel, const std::string& name) = 0;

  // Enqueues the calls and returns the number of the submission without waiting. Everything they use must live until it
  // has finished. Throws Errc::device_failure if the device is lost, and Errc::out_of_memory.
  virtual std::uint64_t submit(std::span<const Dispatch> calls) = 0;
  virtual std::unique_ptr<Recording> record(std::span<const Dispatch> calls) = 0;
  // The recording's previous submission must have finished.
  virtual std::uint64_t submit(Recording& recording) = 0;
  // Blocks until submission `number` has finished, the device is lost, or `until`, which may be in the past to poll.
  virtual Progress wait(std::uint64_t number, Clock::time_point until) = 0;
  // Declares the device lost. For tests.
  virtual void lose(std::string why) = 0;
};

// The devices of each API; empty, without an error, if the loader or all devices are missing. open_* throws if a device
// exists but cannot be opened.
std::vector<DeviceInfo> vulkan_devices();
std::unique_ptr<Api> open_vulkan(std::size_t number);
std::vector<DeviceInfo> opencl_devices();
std::unique_ptr<Api> open_opencl(std::size_t number);
std::vector<DeviceInfo> gles_devices();
std::unique_ptr<Api> open_gles(std::size_t number);

}  // namespace tessera::driver::gpu
