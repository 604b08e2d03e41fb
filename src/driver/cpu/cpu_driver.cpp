#include <tessera/version.hpp>

#include "core/platform.hpp"
#include "driver/cpu/executable.hpp"
#include "driver/driver.hpp"
#include "ir/analysis.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace tessera::driver {

namespace {

// Blocks of at least this size get their own mapping: the kernel zeroes them and can use huge pages.
constexpr std::size_t mapped_from = std::size_t{1} << 20;

// Programs of at least this weight are split for all workers, down to pieces of this many bytes times weight.
constexpr int costly = 4;
constexpr std::int64_t least_costly_piece = std::int64_t{32} << 10;

// For memory-bound programs this many pieces per thread are enough for all threads to finish together, and longer
// pieces mean longer sequential runs: relu(a+b)*s over 64 MiB takes 4 % less time in pieces of 1 MiB than of 256 KiB.
constexpr std::int64_t most_pieces_per_unit = 64;
constexpr std::int64_t long_piece_bytes = std::int64_t{1} << 20;
// Two per thread where everything fits in the caches, since taking a piece costs 0.1 µs: 1 MiB takes 16.9 µs instead of
// 17.5. With one per thread, each thread would start at the data it used least recently: 19 µs.
constexpr std::int64_t pieces_per_unit_in_caches = 2;

using cpu::CpuExecutable;
using cpu::piece_bytes;

// The launch's executable, which this driver created and so may modify.
CpuExecutable& executable_of(const Launch& launch) {
  return const_cast<CpuExecutable&>(static_cast<const CpuExecutable&>(*launch.executable));
}

compile::Arguments arguments_of(const Launch& launch) {
  return {launch.buffers.data(), launch.dims.data(), launch.scalars.data()};
}

std::int64_t tiles(const compile::Compiled& code, const CpuExecutable& executable, const Launch& launch) {
  return code.tiles(arguments_of(launch), executable.program().buffers[0].dims.size());
}

class CpuDriver final : public Driver {
 public:
  CpuDriver() {
    info_.name = core::processor_name();
    info_.backend = "cpu";
    info_.is_gpu = false;
    info_.version = version();
    info_.memory = core::usable_memory();
    info_.compute_units = core::usable_cores();
    info_.dtypes.assign(std::begin(all_dtypes), std::end(all_dtypes));
  }

  const DeviceInfo& info() const override { return info_; }

  Block allocate(std::size_t bytes) override {
    if (bytes < mapped_from) return {static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64)), false};
    std::byte* const address = core::map_pages(bytes, core::PageAccess::read_write);
    if (!address) return {};
    core::prefer_huge_pages(address, bytes);
    return {address, true};
  }
  void deallocate(std::byte* address, std::size_t bytes) override {
    if (bytes < mapped_from) {
      std::free(address);
    } else {
      core::unmap_pages(address, bytes);
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
  std::byte* address_of_host(std::byte* memory) override { return memory; }

  const Executable& compile(const ir::Program& program) override {
    const std::scoped_lock lock(mutex_);
    const std::size_t hash = ir::hash_code(program);
    const auto [begin, end] = executables_.equal_range(hash);
    for (auto known = begin; known != end; ++known) {
      if (ir::is_same_code(known->second->program(), program)) return *known->second;
    }
    return *executables_.emplace(hash, std::make_unique<CpuExecutable>(program))->second;
  }
  std::int64_t pieces(const Launch& launch) override {
    if (launch.elements == 0) return 1;
    CpuExecutable& executable = executable_of(launch);
    if (launch.partial) return executable.split_reduction()->split(launch)->parts;
    const std::int64_t count = tiles(executable.code(), executable, launch);
    const std::int64_t each = piece_tiles(launch, executable, count);
    return std::max<std::int64_t>(1, (count + each - 1) / each);
  }
  void launch(const Launch& launch, std::int64_t piece) override {
    if (launch.elements == 0) return;
    CpuExecutable& executable = executable_of(launch);
    if (launch.partial) {
      const cpu::SplitReduction& reduction = *executable.split_reduction();
      return reduction.run(launch, *reduction.split(launch), piece);
    }
    const compile::Compiled& code = executable.code();
    const compile::Arguments arguments = arguments_of(launch);
    if (launch.elements <= executable.one_tile()) return code.run(arguments, 0, 1);
    const std::int64_t count = tiles(code, executable, launch);
    const std::int64_t each = piece_tiles(launch, executable, count);
    code.run(arguments, piece * each, std::min(count, (piece + 1) * each));
  }
  std::size_t partial_bytes(const Launch& launch) override {
    if (launch.elements == 0 || launch.bytes < piece_bytes) return 0;
    cpu::SplitReduction* reduction = executable_of(launch).split_reduction();
    const auto split = reduction ? reduction->split(launch) : std::nullopt;
    if (!split) return 0;
    reduction->compile();
    return reduction->partial_bytes(launch, *split);
  }
  void finish(const Launch& launch) override {
    const cpu::SplitReduction& reduction = *executable_of(launch).split_reduction();
    reduction.finish(launch, *reduction.split(launch));
  }

 private:
  // Tiles per piece. All pieces but the last are the same size, so that no thread is left with a longer one at the end.
  // The number of pieces is a multiple of the number of threads: of 15 pieces one thread of two runs 8 (row sums of
  // 1000 by 1000 took 27.2 µs, with 16 pieces 26.4).
  std::int64_t piece_tiles(const Launch& launch, const CpuExecutable& executable, std::int64_t tile_count) const {
    if (tile_count <= 1 || executable.is_cut()) return 1;
    const std::int64_t work = launch.bytes * executable.weight();
    std::int64_t wanted = work / piece_bytes;
    if (executable.weight() < costly) {
      const std::int64_t enough = most_pieces_per_unit * info_.compute_units;
      wanted = std::max(std::min(wanted, enough), work / long_piece_bytes);
      if (launch.bytes <= kept_bytes) wanted = std::min(wanted, pieces_per_unit_in_caches * info_.compute_units);
    } else {
      const std::int64_t for_all = std::int64_t{4} * info_.compute_units;
      wanted = std::max(wanted, std::min(for_all, work / least_costly_piece));
    }
    if (const std::int64_t rest = wanted % info_.compute_units; wanted > info_.compute_units && rest != 0) {
      wanted += info_.compute_units - rest;
    }
    return tile_count / std::clamp<std::int64_t>(wanted, 1, tile_count);
  }

  DeviceInfo info_;
  std::mutex mutex_;
  std::unordered_multimap<std::size_t, std::unique_ptr<CpuExecutable>> executables_;  // by hash
};

}  // namespace

std::unique_ptr<Driver> make_cpu_driver() { return std::make_unique<CpuDriver>(); }

}  // namespace tessera::driver
