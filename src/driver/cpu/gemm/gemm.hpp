#pragma once

#include <tessera/dtype.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>

namespace tessera::driver::cpu {

// A matrix that is read, one a batch: element (i, j) of batch b is at b * batch + i * row + j * column. Strides count
// elements and may have any value; 0 repeats.
struct Matrix {
  const std::byte* data = nullptr;
  std::int64_t row = 0;
  std::int64_t column = 0;
  std::int64_t batch = 0;
};

// c = a * b, for every batch: a is m by k, b is k by n. The elements of a row of c lie side by side. Integers wrap
// around; with k = 0 there are zeros.
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

// How work is cut into pieces: rectangles of c, or several whole batches. Never along k: each element's sum is added up
// in the same order however the work is cut, so the result does not depend on it.
struct Cut {
  std::int64_t rows = 0;     // of a piece, at most
  std::int64_t columns = 0;  // likewise
  std::int64_t row_parts = 1;
  std::int64_t column_parts = 1;
  std::int64_t batches = 1;  // of a piece, at most
  std::int64_t pieces = 1;
};

// The same for the same arguments in the same process.
Cut cut(const Gemm& gemm, unsigned workers);
// Pieces run in any order, at the same time, on any threads.
void run_piece(const Gemm& gemm, const Cut& cut, std::int64_t piece);

// A rectangle of the result that a piece computes: parts of some rows; the batch, of a convolution the image, and in it
// the rows, of a convolution the output channels.
struct ResultPart {
  std::int64_t batch = 0;
  std::int64_t row = 0;
  std::int64_t rows = 0;
  std::int64_t column = 0;
  std::int64_t columns = 0;
};
// All of them. n must not be 1.
void for_each_part(const Gemm& gemm, const Cut& cut, std::int64_t piece,
                   const std::function<void(const ResultPart&)>& f);

}  // namespace tessera::driver::cpu
