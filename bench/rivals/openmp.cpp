#include "rivals/rivals.hpp"

namespace bench::openmp {

Call add_relu_scale(const AddReluScale& work) {
  return [work] {
    const float* a = work.a;
    const float* b = work.b;
    float* output = work.output;
    const float factor = work.factor;
#pragma omp parallel for simd num_threads(rival_threads) schedule(static)
    for (std::size_t i = 0; i < work.elements; ++i) {
      const float sum = a[i] + b[i];
      output[i] = (sum > 0 ? sum : 0) * factor;
    }
  };
}

Call matmul(const Matmul<std::int32_t>& work) {
  return [work] {
    const std::size_t size = static_cast<std::size_t>(work.size);
#pragma omp parallel for num_threads(rival_threads) schedule(static)
    for (std::size_t row = 0; row < size; ++row) {
      std::int32_t* c = work.c + row * size;
      for (std::size_t column = 0; column < size; ++column) c[column] = 0;
      for (std::size_t k = 0; k < size; ++k) {
        const std::int32_t a = work.a[row * size + k];
        const std::int32_t* b = work.b + k * size;
#pragma omp simd
        for (std::size_t column = 0; column < size; ++column) c[column] += a * b[column];
      }
    }
  };
}

Call sum_of_all(const SumOfAll& work) {
  return [work] {
    const float* x = work.input;
    float sum = 0;
#pragma omp parallel for simd num_threads(rival_threads) schedule(static) reduction(+ : sum)
    for (std::size_t i = 0; i < work.elements; ++i) sum += x[i];
    *work.output = sum;
  };
}

}  // namespace bench::openmp
