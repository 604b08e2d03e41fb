#pragma once

#include <tessera/detail/export.hpp>
#include <tessera/dtype.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// What Device::info() and Device::devices() tell.
struct DeviceInfo {
  std::string name;            // "AMD EPYC"
  std::string backend;         // what Device::open takes: "cpu", "vulkan"
  bool is_gpu = false;         // not software that plays one
  bool is_discrete = false;    // a GPU with memory of its own, as far as its driver tells
  std::string version;         // of the driver
  std::size_t memory = 0;      // bytes of the device's memory
  unsigned compute_units = 0;  // workers that run commands at the same time
  std::vector<DType> dtypes;   // element types its kernels take
};

// Of the pool that buffers come from. What kernels need beside it while they run, GPUs take from the device themselves,
// and keep 64 MiB of it at most when they are idle: trim_memory() gives that back too.
struct MemoryInfo {
  std::size_t in_use = 0;       // bytes of live buffers
  std::size_t reserved = 0;     // bytes taken from the device: in use, or kept for the next buffer
  std::size_t peak = 0;         // the most that was ever in use
  std::size_t limit = 0;        // reserved never exceeds this
  std::size_t buffers = 0;      // live blocks
  std::size_t allocations = 0;  // blocks ever taken from the device; a block that is reused does not count again
};

// How much the device may spend: set it from the battery or the temperature.
enum class PowerLevel : std::uint8_t {
  nominal,   // all workers
  fair,      // three quarters of the workers
  serious,   // half of them; low-priority commands wait 10 ms before they may start
  critical,  // one; low-priority commands wait 100 ms
};
TESSERA_API std::string_view to_string(PowerLevel level) noexcept;

}  // namespace tessera
