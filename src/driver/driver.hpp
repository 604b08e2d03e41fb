#pragma once

#include <tessera/device.hpp>

#include "core/inline_vector.hpp"
#include "kernels/kernel.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace tessera::driver {

// A kernel made ready for one element type; what it holds is the driver's own business.
class Executable {
 protected:
  Executable() = default;
  ~Executable() = default;
};

// One call of an executable: addresses in the device's memory, and the parameters' values.
struct Launch {
  const Executable* executable = nullptr;
  core::InlineVector<const std::byte*, 3> inputs;
  std::byte* output = nullptr;
  std::int64_t elements = 0;  // of the output
  std::int64_t bytes = 0;     // read and written
  kernels::Arguments arguments;
  std::uint64_t command = 0;  // the command's id, for messages
};

// What the runtime needs of a device, all of it. Every member may be called from any thread at any time. Nothing here
// orders anything: the runtime launches a command when those before it have ended.
class Driver {
 public:
  virtual ~Driver() = default;

  virtual const DeviceInfo& info() const = 0;

  // Memory. Blocks come aligned to 64 bytes.
  struct Block {
    std::byte* address = nullptr;  // null: the device has no more; it may have when others are given back
    bool is_zero = false;          // whether its contents are known to be zeros
  };
  virtual Block allocate(std::size_t bytes) = 0;
  virtual void deallocate(std::byte* address, std::size_t bytes) = 0;
  virtual void upload(std::byte* to, std::span<const std::byte> from) = 0;
  virtual void download(std::span<std::byte> to, const std::byte* from) = 0;
  virtual void fill_zero(std::byte* to, std::size_t bytes) = 0;
  // Where the host can address the block directly; null where it cannot.
  virtual std::byte* host_address(std::byte* address) = 0;

  // Work. compile is called once for each command and must be quick when the answer is known; Errc::unsupported if the
  // device cannot run the kernel for this type. The executable lives as long as the driver.
  virtual const Executable& compile(const kernels::Kernel& kernel, DType dtype) = 0;
  // Into how many pieces the work can be cut, at least one; pieces run in any order, at the same time.
  virtual std::int64_t pieces(const Launch& launch) const = 0;
  // Does one piece on the calling thread. Throws Error if the device fails.
  virtual void launch(const Launch& launch, std::int64_t piece) = 0;
};

std::unique_ptr<Driver> make_cpu_driver();
std::unique_ptr<Driver> make_simulated_driver(std::unique_ptr<Driver> below, const SimulationOptions& options);

}  // namespace tessera::driver
