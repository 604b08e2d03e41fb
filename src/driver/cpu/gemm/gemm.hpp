#pragma once

#include <tessera/dtype.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>

namespace tessera::driver::cpu {

// An input matrix, one per batch: element (i, j) of batch b is at b * batch + i * row + j * column. Strides are in
// elements and may have any value; 0 repeats.
struct Matrix {
  const std::byte* data = nullptr;
  std::int64_t row = 0;
  std::int64_t column = 0;
  std::int64_t batch = 0;
};

// c = a * b for every batch: a is m by k, b is k by n. Rows of c are contiguous. Integers wrap around; with k = 0 the
// result is zero.
struct Gemm {
  DType dtype = DType::f32;
  std::int64_t batches = 1;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  Matrix a;
  Matrix b;
  std::byte* c = nullptr;
  std::int64_t c_row = 0;
  std::int64_t c_batch = 0;
};

// How work is split into pieces: rectangles of c, or several whole batches. Never along k, so that each sum is added in
// the same order and the result does not depend on the split.
struct Cut {
  std::int64_t rows = 0;     // of a piece, at most
  std::int64_t columns = 0;  // likewise
  std::int64_t row_parts = 1;
  std::int64_t column_parts = 1;
  std::int64_t batches = 1;  // of a piece, at most
  std::int64_t pieces = 1;
};

// Deterministic within a process.
Cut cut(const Gemm& gemm, unsigned workers);
// Pieces may run in any order, in parallel, on any threads.
void run_piece(const Gemm& gemm, const Cut& cut, std::int64_t piece);

// A rectangle of the result that a piece computes. For a convolution, the batch is the image and rows are output
// channels.
struct ResultPart {
  std::int64_t batch = 0;
  std::int64_t row = 0;
  std::int64_t rows = 0;
  std::int64_t column = 0;
  std::int64_t columns = 0;
};
// Calls f for each part of a piece. n must not be 1.
void for_each_part(const Gemm& gemm, const Cut& cut, std::int64_t piece,
                   const std::function<void(const ResultPart&)>& f);

}  // namespace tessera::driver::cpu
