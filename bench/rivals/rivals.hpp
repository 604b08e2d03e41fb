#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

// Other libraries, each at its best with two threads. A function prepares everything and returns the call to be timed,
// or an empty one if the library was not found at build time.
namespace bench {

using Call = std::function<void()>;

inline constexpr int rival_threads = 2;

// output = max(a + b, 0) * factor
struct AddReluScale {
  const float* a;
  const float* b;
  float* output;
  std::size_t elements;
  float factor;
};

// c = a * b; square, row by row
template <class T>
struct Matmul {
  const T* a;
  const T* b;
  T* c;
  int size;
};

// Along rows; the output has the input's shape, or one value per row.
struct Rows {
  const float* input;
  float* output;
  int rows;
  int columns;
};

// To one value.
struct SumOfAll {
  const float* input;
  float* output;
  std::size_t elements;
};

// Four bytes per pixel.
struct Blur {
  const std::uint8_t* input;
  std::uint8_t* output;
  int width;
  int height;
  int radius;
  double sigma;
};

struct Pixels {
  const std::uint8_t* input;
  std::uint8_t* output;
  int width, height;
};

struct Resize {
  const std::uint8_t* input;
  std::uint8_t* output;
  int width, height, output_width, output_height;
};

// The machine's limit: vector intrinsics, non-temporal stores, with or without prefetch. For arrays larger than the
// caches that consist of whole cache lines.
namespace handwritten {
Call add_relu_scale(const AddReluScale& work);
}

// Plain loops, compiled by this compiler.
namespace openmp {
Call add_relu_scale(const AddReluScale& work);
Call matmul(const Matmul<std::int32_t>& work);
Call sum_of_all(const SumOfAll& work);
}  // namespace openmp

namespace eigen {
Call add_relu_scale(const AddReluScale& work);
Call matmul(const Matmul<std::int32_t>& work);
Call softmax(const Rows& work);
Call row_sums(const Rows& work);
Call sum_of_all(const SumOfAll& work);
}  // namespace eigen

namespace onednn {
Call matmul(const Matmul<float>& work);
Call sgemm(const Matmul<float>& work);
Call softmax(const Rows& work);
Call row_sums(const Rows& work);
}  // namespace onednn

namespace openblas {
Call matmul(const Matmul<double>& work);
}

namespace opencv {
Call add_relu_scale(const AddReluScale& work);
Call gaussian_blur(const Blur& work);
Call blur_sharpen_gray(const Blur& work);                     // the output has one byte per pixel
Call resize(const Resize& work);                              // bilinear
Call look_up(const Pixels& work, const std::uint8_t* table);  // of 256
Call saturate(const Pixels& work, float amount);
}  // namespace opencv

}  // namespace bench
