#pragma once

#include <tessera/detail/export.hpp>
#include <tessera/dtype.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// A device's properties: Device::info(), Device::devices().
struct DeviceInfo {
  std::string name;            // "AMD EPYC"
  std::string backend;         // as for Device::open: "cpu", "vulkan"
  bool is_gpu = false;         // false for a software GPU
  bool is_discrete = false;    // a GPU with its own memory, if its driver reports that
  std::string version;         // of the driver
  std::size_t memory = 0;      // bytes of the device's memory
  unsigned compute_units = 0;  // number of workers that run commands in parallel
  std::vector<DType> dtypes;   // element types its kernels support
};

// The pool that buffers are allocated from. GPU kernels allocate scratch memory outside the pool while they run; an
// idle device keeps up to 64 MiB of it, which trim_memory() releases too.
struct MemoryInfo {
  std::size_t in_use = 0;       // bytes of live buffers
  std::size_t reserved = 0;     // bytes taken from the device: in use, or cached for reuse
  std::size_t peak = 0;         // highest in_use so far
  std::size_t limit = 0;        // reserved never exceeds this
  std::size_t buffers = 0;      // live blocks
  std::size_t allocations = 0;  // blocks ever taken from the device, not counting reuse
};

// How much power the device may use: set it from battery state or temperature.
enum class PowerLevel : std::uint8_t {
  nominal,   // all workers
  fair,      // three quarters of the workers
  serious,   // half of the workers; low-priority commands wait 10 ms before they may start
  critical,  // one worker; low-priority commands wait 100 ms
};
TESSERA_API std::string_view to_string(PowerLevel level) noexcept;

}  // namespace tessera
