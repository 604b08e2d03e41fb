#include "driver/cpu/cpu_driver.hpp"

#include <tessera/version.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <thread>
#include <unistd.h>

namespace tessera::driver {

namespace {

// Blocks from this size on are mapped by themselves: the kernel gives them as zeros, and in huge pages.
constexpr std::size_t mapped_from = std::size_t{1} << 20;

// A piece moves about 256 KiB, half of a core's L2 cache: some 20 µs, well above the 1 µs that handing it to another
// worker costs, and small enough that a cancelled command ends soon.
constexpr std::int64_t piece_bytes = std::int64_t{256} << 10;

std::string processor_name() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (!line.starts_with("model name")) continue;
    const auto colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

struct CpuExecutable : Executable {
  cpu::Function function = nullptr;
};

class CpuDriver final : public Driver {
 public:
  CpuDriver() {
    struct sysinfo system{};
    sysinfo(&system);
    info_.name = processor_name();
    info_.backend = "cpu";
    info_.is_gpu = false;
    info_.version = version();
    info_.memory = static_cast<std::size_t>(system.totalram) * system.mem_unit;
    info_.compute_units = std::max(1U, std::thread::hardware_concurrency());
    info_.dtypes.assign(std::begin(all_dtypes), std::end(all_dtypes));
    for (std::size_t op = 0; op < kernels::op_count; ++op) {
      for (DType dtype : all_dtypes) {
        executables_[op][static_cast<std::size_t>(dtype)].function = cpu::function(static_cast<kernels::Op>(op), dtype);
      }
    }
  }

  const DeviceInfo& info() const override { return info_; }

  Block allocate(std::size_t bytes) override {
    if (bytes < mapped_from) return {static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64)), false};
    void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) return {};
    madvise(address, bytes, MADV_HUGEPAGE);
    return {static_cast<std::byte*>(address), true};
  }
  void deallocate(std::byte* address, std::size_t bytes) override {
    if (bytes < mapped_from) {
      std::free(address);
    } else {
      munmap(address, bytes);
    }
  }
  void upload(std::byte* to, std::span<const std::byte> from) override {
    if (!from.empty()) std::memcpy(to, from.data(), from.size());
  }
  void download(std::span<std::byte> to, const std::byte* from) override {
    if (!to.empty()) std::memcpy(to.data(), from, to.size());
  }
  void fill_zero(std::byte* to, std::size_t bytes) override {
    if (bytes != 0) std::memset(to, 0, bytes);
  }
  std::byte* host_address(std::byte* address) override { return address; }

  const Executable& compile(const kernels::Kernel& kernel, DType dtype) override {
    return executables_[static_cast<std::size_t>(kernel.op)][static_cast<std::size_t>(dtype)];
  }
  std::int64_t pieces(const Launch& launch) const override {
    return std::clamp<std::int64_t>(launch.bytes / piece_bytes, 1, std::max<std::int64_t>(1, launch.elements));
  }
  void launch(const Launch& launch, std::int64_t piece) override {
    const auto& executable = static_cast<const CpuExecutable&>(*launch.executable);
    const std::int64_t count = pieces(launch);
    if (count == 1) {
      executable.function(launch, 0, launch.elements);
      return;
    }
    const std::int64_t step = (launch.elements + count - 1) / count;
    const std::int64_t begin = std::min(piece * step, launch.elements);
    executable.function(launch, begin, std::min(begin + step, launch.elements));
  }

 private:
  DeviceInfo info_;
  std::array<std::array<CpuExecutable, std::size(all_dtypes)>, kernels::op_count> executables_;
};

}  // namespace

std::unique_ptr<Driver> make_cpu_driver() { return std::make_unique<CpuDriver>(); }

}  // namespace tessera::driver
