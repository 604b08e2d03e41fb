#pragma once

#include <tessera/dtype.hpp>

#include "driver/cpu/gemm/conv2d.hpp"
#include "driver/cpu/gemm/gemm.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace tessera::driver::cpu {

// A rectangle of one batch of c, and the rows of a and the columns of b that it is computed from.
struct Block {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  Matrix a;
  std::byte* c = nullptr;
  std::int64_t c_row = 0;
  const std::byte* bias = nullptr;  // null, or what is added to each row
};

// The pixels under the windows of one image and group as a matrix, which is never stored as a whole: row
// (channel, i, j) has the pixel that weight (i, j) meets in each window, column (y, x) is the window of one output.
struct Windows {
  const Conv2d* conv = nullptr;
  const std::byte* image = nullptr;  // the group's first channel
  std::int64_t first = 0;            // the block's first column
};

// What is compiled for one instruction set, by DType.
struct Engine {
  const char* name = nullptr;
  struct Routines {
    std::int64_t rows = 0;  // of c that are computed at once, in registers
    std::int64_t columns = 0;
    void (*multiply)(const Block& block, const Matrix& b) = nullptr;
    // If all of c is one row. Not for a block of one row: floats must not depend on the cut.
    void (*multiply_row)(const Block& block, const Matrix& b) = nullptr;
    void (*convolve)(const Block& block, const Windows& windows) = nullptr;
    // One input channel a group: rows [begin, end) of the output, counted over all images and channels.
    void (*depthwise)(const Conv2d& conv, std::int64_t begin, std::int64_t end) = nullptr;
  };
  Routines routines[std::size(all_dtypes)];
};

extern const Engine portable_engine;
#ifdef TESSERA_X86_ENGINES
extern const Engine avx2_engine;
extern const Engine avx512_engine;
#endif

// Those that this processor can run, the best last.
std::span<const Engine* const> engines();
// The one in use: the best, unless a test chose another. Not to be changed while pieces run.
const Engine& engine();
void use_engine(const Engine& engine);

// How to cut batches of m by n, when each element costs k products. is_a_in_rows: the elements of its rows lie side by
// side, so that it can be read without being packed.
Cut cut(const Engine::Routines& routines, std::int64_t batches, std::int64_t m, std::int64_t n, std::int64_t k,
        bool is_a_in_rows, unsigned workers);
// Likewise, if a batch is never cut.
Cut cut_batches(std::int64_t batches, double batch_products, unsigned workers);

// What a piece has to do: a rectangle of each of the batches [first, last).
struct Part {
  Part(const Cut& cut, std::int64_t batches, std::int64_t m, std::int64_t n, std::int64_t piece);

  std::int64_t first;
  std::int64_t last;
  std::int64_t row;
  std::int64_t rows;
  std::int64_t column;
  std::int64_t columns;
};

// Memory of the calling thread for packed operands, aligned to 4096 bytes; good until the next call. Kept for the next
// one: engines never ask for more than a few MiB.
std::byte* scratch(std::size_t bytes);

}  // namespace tessera::driver::cpu
