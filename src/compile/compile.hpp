#pragma once

#include "ir/ir.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tessera::compile {

// The arguments of a launch.
struct Arguments {
  std::byte* const* buffers;     // the output, then the inputs
  const std::int64_t* dims;      // of all buffers, one after the other
  const std::uint64_t* scalars;  // the bits of a double for a float, else of an s64
};

// How the output is split: the extent of a tile along each axis; 0 means the whole axis.
struct Tiling {
  std::vector<std::int64_t> extents;

  // Tiles are numbered in row-major order.
  std::int64_t tiles(std::span<const std::int64_t> output_dims) const noexcept;
};

// A program compiled for the host's processor, or interpreted.
class Compiled {
 public:
  virtual ~Compiled() = default;
  Tiling tiling;
  // The number of tiles of an output; and whether each of them is a good amount of work for a thread.
  virtual std::int64_t tiles(const Arguments& arguments, std::size_t output_rank) const {
    return tiling.tiles({arguments.dims, output_rank});
  }
  virtual bool is_cut() const noexcept { return false; }
  // Keeps `is_ready` up to date from now on, as long as this object lives: whether run() can start at once. False while
  // code that was not used for long is unloaded; run() loads it again.
  virtual void report_readiness(std::atomic<bool>& is_ready) const { is_ready.store(true, std::memory_order_release); }
  // Computes tiles [begin, end). Any number of threads may call it at a time.
  virtual void run(const Arguments& arguments, std::int64_t begin, std::int64_t end) const = 0;
};

// The axes of the output that must not be split: those along which the program reduces, or uses the extent of its tile.
std::vector<bool> whole_axes(const ir::Program& program);
// Whether the results may depend on the tiles.
bool sees_tiles(const ir::Program& program);

// Whether a tile computes the values around it that it needs.
bool reads_around(const ir::Program& program);

// The tiles that the caller chose; otherwise tiles that split no axis along which the program reduces.
Tiling choose_tiling(const ir::Program& program);

// Computes tiles [begin, end) by the interpreter.
void interpret(const ir::Program& program, const Tiling& tiling, const Arguments& arguments, std::int64_t begin,
               std::int64_t end);

// Blocks. The code comes from LLVM or the disk cache. Without LLVM the program is interpreted, which is told once on
// stderr, and compiled later if LLVM can be opened then, as when the process was out of file descriptors.
std::shared_ptr<const Compiled> compile(const ir::Program& program);
// Whether programs are interpreted from now on: for tests with thousands of programs.
void set_interpreted(bool is_interpreted) noexcept;

}  // namespace tessera::compile
