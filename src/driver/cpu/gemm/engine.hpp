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
  const std::byte* bias = nullptr;  // added to each row; may be null
};

// The pixels under the windows of one image and group as a matrix, which is never stored as a whole: row
// (channel, i, j) has the pixel under weight (i, j) of each window; column (y, x) is the window of one output.
struct Windows {
  const Conv2d* conv = nullptr;
  const std::byte* image = nullptr;  // the group's first channel
  std::int64_t first = 0;            // the block's first column
};

// The routines compiled for one instruction set, by DType.
struct Engine {
  const char* name = nullptr;
  struct Routines {
    std::int64_t rows = 0;  // of c that are held in registers at once
    std::int64_t columns = 0;
    void (*multiply)(const Block& block, const Matrix& b) = nullptr;
    // Used if all of c is one row, not for a block of one row: float results must not depend on how work is split.
    void (*multiply_row)(const Block& block, const Matrix& b) = nullptr;
    void (*convolve)(const Block& block, const Windows& windows) = nullptr;
    // For one input channel per group: rows [begin, end) of the output, counted over all images and channels.
    void (*depthwise)(const Conv2d& conv, std::int64_t begin, std::int64_t end) = nullptr;
  };
  Routines routines[std::size(all_dtypes)];
};

extern const Engine portable_engine;
#ifdef TESSERA_X86_ENGINES
extern const Engine avx2_engine;
extern const Engine avx512_engine;
#endif

// The engines this processor can run, the best last.
std::span<const Engine* const> engines();
// The engine in use: the best, unless a test chose another. Must not change while pieces run.
const Engine& engine();
void use_engine(const Engine& engine);

// How to split batches of m by n where each element costs k products. is_a_in_rows: its rows are contiguous, so it can
// be read without packing.
Cut cut(const Engine::Routines& routines, std::int64_t batches, std::int64_t m, std::int64_t n, std::int64_t k,
        bool is_a_in_rows, unsigned workers);
// The same, without splitting batches.
Cut cut_batches(std::int64_t batches, double batch_products, unsigned workers);

// The work of a piece: a rectangle of each of the batches [first, last).
struct Part {
  Part(const Cut& cut, std::int64_t batches, std::int64_t m, std::int64_t n, std::int64_t piece);

  std::int64_t first;
  std::int64_t last;
  std::int64_t row;
  std::int64_t rows;
  std::int64_t column;
  std::int64_t columns;
};

// Thread-local memory for packed operands, aligned to 4096 bytes and valid until the next call. It is never shrunk:
// engines need a few MiB at most.
std::byte* scratch(std::size_t bytes);

}  // namespace tessera::driver::cpu
