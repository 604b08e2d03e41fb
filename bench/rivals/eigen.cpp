#include "rivals/rivals.hpp"

#define EIGEN_USE_THREADS
#include <Eigen/Dense>
#include <unsupported/Eigen/CXX11/Tensor>

namespace bench::eigen {

namespace {

Eigen::ThreadPoolDevice& pool() {
  static Eigen::ThreadPool threads(rival_threads);
  static Eigen::ThreadPoolDevice device(&threads, rival_threads);
  return device;
}

using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

}  // namespace

Call add_relu_scale(const AddReluScale& work) {
  return [work] {
    using Vector = Eigen::Tensor<float, 1>;
    const auto elements = static_cast<Eigen::Index>(work.elements);
    const Eigen::TensorMap<const Vector> a(work.a, elements);
    const Eigen::TensorMap<const Vector> b(work.b, elements);
    Eigen::TensorMap<Vector>(work.output, elements).device(pool()) = (a + b).cwiseMax(0.0F) * work.factor;
  };
}

// Matrix products use OpenMP's threads by themselves.
Call matmul(const Matmul<std::int32_t>& work) {
  Eigen::setNbThreads(rival_threads);
  return [work] {
    using Square = Eigen::Matrix<std::int32_t, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    const Eigen::Map<const Square> a(work.a, work.size, work.size);
    const Eigen::Map<const Square> b(work.b, work.size, work.size);
    Eigen::Map<Square>(work.c, work.size, work.size).noalias() = a * b;
  };
}

Call softmax(const Rows& work) {
  return [work] {
#pragma omp parallel for num_threads(rival_threads) schedule(static)
    for (int row = 0; row < work.rows; ++row) {
      using Row = Eigen::Array<float, 1, Eigen::Dynamic>;
      const auto offset = static_cast<std::ptrdiff_t>(row) * work.columns;
      const Eigen::Map<const Row> x(work.input + offset, work.columns);
      Eigen::Map<Row> y(work.output + offset, work.columns);
      y = (x - x.maxCoeff()).exp();
      y *= 1.0F / y.sum();
    }
  };
}

Call row_sums(const Rows& work) {
  return [work] {
#pragma omp parallel for num_threads(rival_threads) schedule(static)
    for (int part = 0; part < rival_threads; ++part) {
      const int begin = work.rows * part / rival_threads;
      const int end = work.rows * (part + 1) / rival_threads;
      const auto offset = static_cast<std::ptrdiff_t>(begin) * work.columns;
      const Eigen::Map<const RowMajor> x(work.input + offset, end - begin, work.columns);
      Eigen::Map<Eigen::VectorXf>(work.output + begin, end - begin) = x.rowwise().sum();
    }
  };
}

Call sum_of_all(const SumOfAll& work) {
  return [work] {
    const Eigen::TensorMap<const Eigen::Tensor<float, 1>> x(work.input, static_cast<Eigen::Index>(work.elements));
    Eigen::TensorMap<Eigen::Tensor<float, 0>>(work.output).device(pool()) = x.sum();
  };
}

}  // namespace bench::eigen
