#pragma once

#include "ir/ir.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tessera::compile {

// What a program runs with.
struct Arguments {
  std::byte* const* buffers;     // the output, then the inputs
  const std::int64_t* dims;      // of all buffers, one after the other
  const std::uint64_t* scalars;  // the bits of a double for a float, else of an s64
};

// How the output is cut: the extent of the tile along each axis; 0 means the whole axis.
struct Tiling {
  std::vector<std::int64_t> extents;

  // Tiles are numbered in row-major order.
  std::int64_t tiles(std::span<const std::int64_t> output_dims) const noexcept;
};

// A program made ready for the host's processor.
class Compiled {
 public:
  virtual ~Compiled() = default;
  Tiling tiling;
  // The number of tiles of an output; and whether each of them is a good piece of work for a thread.
  virtual std::int64_t tiles(const Arguments& arguments, std::size_t output_rank) const {
    return tiling.tiles({arguments.dims, output_rank});
  }
  virtual bool is_cut() const noexcept { return false; }
  // Does tiles [begin, end). Any thread, several at a time.
  virtual void run(const Arguments& arguments, std::int64_t begin, std::int64_t end) const = 0;
};

// Which axes of the output must not be cut: those along which the program reduces, or asks how large its tile is.
std::vector<bool> whole_axes(const ir::Program& program);
// Whether other tiles may mean other results.
bool sees_tiles(const ir::Program& program);

// Whether what a tile needs of its neighbours is computed along with it.
bool reads_around(const ir::Program& program);

// The tiles that the caller asked for, else such that no axis is cut along which the program reduces.
Tiling choose_tiling(const ir::Program& program);

// Does tiles [begin, end) without any code.
void interpret(const ir::Program& program, const Tiling& tiling, const Arguments& arguments, std::int64_t begin,
               std::int64_t end);

// Blocks. Through LLVM, or from the disk cache; where there is no LLVM it is interpreted.
std::shared_ptr<const Compiled> compile(const ir::Program& program);
// From now on all are interpreted, or not: for tests with thousands of programs.
void set_interpreted(bool is_interpreted) noexcept;

}  // namespace tessera::compile
