#include "driver/cpu/gemm/gemm.hpp"

#include "core/random.hpp"
#include "driver/cpu/gemm/engine.hpp"
#include "support/pieces.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace tessera::driver::cpu {
namespace {

// A product with its operands: random values for which sums of floats are exact in any order, and guard values around
// c.
template <class T>
struct Problem {
  Gemm gemm;
  std::vector<T> a, b, c;

  Problem(Gemm shape, std::uint64_t seed) : gemm(shape) {
    gemm.dtype = dtype_of<T>;
    core::Random random(seed);
    fill(a, extent(gemm.a, gemm.m, gemm.k), random);
    fill(b, extent(gemm.b, gemm.k, gemm.n), random);
    c.assign((gemm.batches - 1) * gemm.c_batch + gemm.m * gemm.c_row + gemm.n + 1, untouched);
    gemm.a.data = reinterpret_cast<const std::byte*>(a.data());
    gemm.b.data = reinterpret_cast<const std::byte*>(b.data());
    gemm.c = reinterpret_cast<std::byte*>(c.data());
  }

  static constexpr T untouched{77};

  std::int64_t extent(const Matrix& matrix, std::int64_t rows, std::int64_t columns) const {
    return (gemm.batches - 1) * matrix.batch + rows * matrix.row + columns * matrix.column + 1;
  }
  static void fill(std::vector<T>& values, std::int64_t count, core::Random& random) {
    values.resize(count);
    for (T& value : values) {
      value = std::is_floating_point_v<T> ? static_cast<T>(static_cast<int>(random.below(33)) - 16)
                                          : static_cast<T>(random.next());
    }
  }

  std::vector<T> expected() const {
    using Wide = std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>;
    std::vector<T> result = c;
    for (std::int64_t batch = 0; batch < gemm.batches; ++batch) {
      for (std::int64_t i = 0; i < gemm.m; ++i) {
        for (std::int64_t j = 0; j < gemm.n; ++j) {
          Wide sum = 0;
          for (std::int64_t k = 0; k < gemm.k; ++k) {
            sum += static_cast<Wide>(a[batch * gemm.a.batch + i * gemm.a.row + k * gemm.a.column]) *
                   static_cast<Wide>(b[batch * gemm.b.batch + k * gemm.b.row + j * gemm.b.column]);
          }
          result[batch * gemm.c_batch + i * gemm.c_row + j] = static_cast<T>(sum);
        }
      }
    }
    return result;
  }

  // On every engine; also split as for many workers.
  void check(unsigned workers) {
    const std::vector<T> right = expected();
    for (const Engine* engine : engines()) {
      const test::EngineInUse use(*engine);
      std::fill(c.begin(), c.end(), untouched);
      test::run_pieces(gemm, cut(gemm, workers));
      ASSERT_EQ(c, right) << engine->name << ", " << gemm.batches << " batches, " << gemm.m << " x " << gemm.n << " x "
                          << gemm.k << ", " << workers << " workers";
    }
  }
};

// Memory layouts: row-major, transposed, or with gaps everywhere.
enum class Layout : std::uint8_t { plain, transposed, gaps };

Matrix matrix(Layout layout, std::int64_t rows, std::int64_t columns) {
  switch (layout) {
    case Layout::plain:
      return {nullptr, columns, 1, rows * columns};
    case Layout::transposed:
      return {nullptr, 1, rows, rows * columns};
    case Layout::gaps:
      return {nullptr, 3 * columns + 2, 3, rows * (3 * columns + 2)};
  }
  return {};
}

Gemm product(std::int64_t m, std::int64_t n, std::int64_t k, Layout a = Layout::plain, Layout b = Layout::plain) {
  return {.m = m, .n = n, .k = k, .a = matrix(a, m, k), .b = matrix(b, k, n), .c_row = n, .c_batch = m * n};
}

template <class T>
class GemmTest : public testing::Test {};
using Types = testing::Types<float, double, std::int32_t, std::int64_t, std::uint32_t, std::uint8_t>;
TYPED_TEST_SUITE(GemmTest, Types);

TYPED_TEST(GemmTest, AwkwardSizes) {
  const std::int64_t sizes[] = {0, 1, 2, 3, 5, 7, 17, 31, 33, 64};
  std::uint64_t seed = 1;
  for (std::int64_t m : sizes) {
    for (std::int64_t n : sizes) {
      for (std::int64_t k : sizes) {
        Problem<TypeParam> problem(product(m, n, k), ++seed);
        problem.check(2);
        if (this->HasFatalFailure()) return;
      }
    }
  }
}

TYPED_TEST(GemmTest, SizesAroundBlocks) {
  const std::int64_t sizes[][3] = {{127, 255, 257}, {257, 127, 64}, {255, 31, 127}, {33, 257, 255}, {7, 64, 1025},
                                   {1, 257, 513},   {257, 1, 513},  {513, 17, 5},   {17, 513, 129}};
  for (const auto& [m, n, k] : sizes) {
    for (unsigned workers : {1U, 3U, 64U}) {
      Problem<TypeParam> problem(product(m, n, k), workers);
      problem.check(workers);
      if (this->HasFatalFailure()) return;
    }
  }
}

TYPED_TEST(GemmTest, Layouts) {
  for (Layout a : {Layout::plain, Layout::transposed, Layout::gaps}) {
    for (Layout b : {Layout::plain, Layout::transposed, Layout::gaps}) {
      for (std::int64_t size : {1, 5, 33, 70}) {
        Problem<TypeParam> problem(product(size, size + 1, size + 2, a, b), static_cast<std::uint64_t>(size));
        problem.check(4);
        if (this->HasFatalFailure()) return;
      }
      Problem<TypeParam> problem(product(130, 290, 280, a, b), 5);
      problem.check(2);
      if (this->HasFatalFailure()) return;
    }
  }
}

TYPED_TEST(GemmTest, OneRowOrColumn) {
  for (Layout a : {Layout::plain, Layout::transposed, Layout::gaps}) {
    for (Layout b : {Layout::plain, Layout::transposed, Layout::gaps}) {
      Problem<TypeParam>(product(1, 2100, 1100, a, b), 1).check(4);
      Problem<TypeParam>(product(2100, 1, 1101, a, b), 2).check(4);
    }
  }
}

TYPED_TEST(GemmTest, RepeatedRowsAndColumns) {
  Gemm gemm = product(19, 35, 21);
  gemm.a.row = 0;
  gemm.b.column = 0;
  Problem<TypeParam>(gemm, 1).check(2);
  gemm.a = {nullptr, 4, 0, 0};
  gemm.b = {nullptr, 0, 1, 0};
  Problem<TypeParam>(gemm, 1).check(2);
}

TYPED_TEST(GemmTest, RowsOfTheResultWithGaps) {
  Gemm gemm = product(37, 41, 13);
  gemm.c_row = 50;
  Problem<TypeParam>(gemm, 1).check(2);
  gemm = product(37, 1, 13);
  gemm.c_row = 3;
  Problem<TypeParam>(gemm, 1).check(2);
}

TYPED_TEST(GemmTest, Batches) {
  for (std::int64_t batches : {0, 1, 3, 40}) {
    Gemm gemm = product(9, 20, 11);
    gemm.batches = batches;
    Problem<TypeParam>(gemm, 1).check(2);
    gemm.b.batch = 0;
    Problem<TypeParam>(gemm, 2).check(2);
    gemm.a.batch = 0;
    Problem<TypeParam>(gemm, 3).check(2);
    gemm.c_batch += 5;
    Problem<TypeParam>(gemm, 4).check(2);
  }
  Gemm large = product(70, 300, 200);
  large.batches = 3;
  Problem<TypeParam>(large, 1).check(8);
}

TEST(Gemm, FloatsDoNotDependOnTheSplit) {
  const Gemm gemm = product(333, 555, 777);
  Problem<float> problem(gemm, 1);
  core::Random random(3);
  for (float& value : problem.a) value = static_cast<float>(random.fraction());
  for (float& value : problem.b) value = static_cast<float>(random.fraction()) - 0.5F;
  for (const Engine* engine : engines()) {
    const test::EngineInUse use(*engine);
    test::run_pieces(problem.gemm, cut(problem.gemm, 1));
    const std::vector<float> once = problem.c;
    for (unsigned workers : {2U, 7U, 256U}) {
      test::run_pieces(problem.gemm, cut(problem.gemm, workers));
      EXPECT_EQ(problem.c, once) << engine->name << ", " << workers << " workers";
    }
  }
}

TEST(Gemm, PiecesAreWorthTheirCost) {
  EXPECT_EQ(cut(product(64, 64, 64), 16).pieces, 1);
  EXPECT_EQ(cut(product(256, 256, 256), 2).pieces, 2);
  EXPECT_GE(cut(product(1024, 1024, 1024), 2).pieces, 8);
  EXPECT_GE(cut(product(2048, 2048, 2048), 64).pieces, 64);
  Gemm small = product(8, 8, 8);
  small.batches = 100'000;
  EXPECT_GE(cut(small, 2).pieces, 4);
  EXPECT_LE(cut(small, 2).pieces, 100);
}

}  // namespace
}  // namespace tessera::driver::cpu
