#include <tessera/tessera.hpp>

#include "support/expect_error.hpp"
#include "support/run_kernel.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

namespace tessera {
namespace {

using test::expect_error;
using test::expect_near;
using test::Limits;
using test::make;
using test::make_empty;
using test::run;

constexpr double nan = Limits<double>::quiet_NaN();

template <class T>
class Reductions : public ::testing::Test {};
TYPED_TEST_SUITE(Reductions, test::EveryType);
template <class T>
class ReductionsInteger : public ::testing::Test {};
TYPED_TEST_SUITE(ReductionsInteger, test::IntegerTypes);
template <class T>
class Rows : public ::testing::Test {};
TYPED_TEST_SUITE(Rows, test::FloatTypes);

template <class T>
Buffer two_by_two_by_three() {
  return make<T>({1, 5, 3, 4, 2, 6, 9, 8, 7, 10, 12, 11}, {2, 2, 3});
}

TYPED_TEST(Reductions, Go_along_any_axis) {
  using T = TypeParam;
  using List = std::vector<T>;
  const Buffer x = two_by_two_by_three<T>();
  EXPECT_EQ(run<T>("reduce_sum", {x}, {2, 2}), (List{9, 12, 24, 33}));
  EXPECT_EQ(run<T>("reduce_sum", {x}, {2, 2, 1}), (List{9, 12, 24, 33}));
  EXPECT_EQ(run<T>("reduce_sum", {x}, {2, 3}, {{"axis", 1}}), (List{5, 7, 9, 19, 20, 18}));
  EXPECT_EQ(run<T>("reduce_sum", {x}, {1, 2, 3}, {{"axis", -3}}), (List{10, 13, 10, 14, 14, 17}));
  EXPECT_EQ(run<T>("reduce_mean", {x}, {2, 2}), (List{3, 4, 8, 11}));
  EXPECT_EQ(run<T>("reduce_max", {x}, {2, 2}), (List{5, 6, 9, 12}));
  EXPECT_EQ(run<T>("reduce_max", {x}, {2, 3}, {{"axis", 1}}), (List{4, 5, 6, 10, 12, 11}));
  EXPECT_EQ(run<T>("reduce_min", {x}, {2, 3}, {{"axis", 0}}), (List{1, 5, 3, 4, 2, 6}));
  EXPECT_EQ(run<std::int64_t>("argmax", {x}, {2, 2}), (std::vector<std::int64_t>{1, 2, 0, 1}));
  EXPECT_EQ(run<std::int32_t>("argmax", {x}, {2, 3}, {{"axis", 1}}), (std::vector<std::int32_t>{1, 0, 1, 1, 1, 1}));
  EXPECT_EQ(run<std::uint32_t>("argmax", {x}, {2, 3}, {{"axis", 0}}), (std::vector<std::uint32_t>{1, 1, 1, 1, 1, 1}));
}

TYPED_TEST(Reductions, Of_all_elements) {
  using T = TypeParam;
  const Buffer x = two_by_two_by_three<T>();
  EXPECT_EQ(run<T>("reduce_sum", {x}, {}), std::vector<T>{78});
  EXPECT_EQ(run<T>("reduce_max", {x}, {}), std::vector<T>{12});
  EXPECT_EQ(run<T>("reduce_min", {x}, {}), std::vector<T>{1});
  EXPECT_EQ(run<std::int64_t>("argmax", {x}, {}), std::vector<std::int64_t>{10});
  EXPECT_EQ(run<T>("reduce_sum", {make<T>({7}, {})}, {}), std::vector<T>{7});
  EXPECT_EQ(run<T>("reduce_sum", {make<T>({3, 4})}, {}), std::vector<T>{7});
}

// A row may start and end anywhere in a vector of any width: each of its elements must count once.
TYPED_TEST(Reductions, Of_rows_that_start_and_end_anywhere) {
  using T = TypeParam;
  constexpr std::int64_t rows = 7;
  for (const std::int64_t length : {1, 3, 7, 15, 16, 17, 31, 63, 65, 127, 129, 255, 256, 257, 1000, 1023, 1029, 2051}) {
    std::vector<T> values(static_cast<std::size_t>(rows * length));
    std::vector<T> sums(rows), greatest(rows), least(rows);
    for (std::int64_t row = 0; row < rows; ++row) {
      T* const begin = values.data() + row * length;
      for (std::int64_t i = 0; i < length; ++i) begin[i] = static_cast<T>((i * 37 + row * 11) % 101 + 1);
      // The maximum is first and the minimum last, or the other way round.
      begin[row % 2 == 0 ? 0 : length - 1] = 120;
      if (length > 1) begin[row % 2 == 0 ? length - 1 : 0] = 0;
      sums[static_cast<std::size_t>(row)] = std::accumulate(begin, begin + length, T{0});
      greatest[static_cast<std::size_t>(row)] = 120;
      least[static_cast<std::size_t>(row)] = length > 1 ? T{0} : T{120};
    }
    const Buffer x = make<T>(values, {rows, length});
    EXPECT_EQ(run<T>("reduce_sum", {x}, {rows}), sums) << length;
    EXPECT_EQ(run<T>("reduce_max", {x}, {rows}), greatest) << length;
    EXPECT_EQ(run<T>("reduce_min", {x}, {rows}), least) << length;
  }
}

TYPED_TEST(Reductions, Of_nothing) {
  using T = TypeParam;
  const Buffer none = make<T>({}, {2, 0});
  EXPECT_EQ(run<T>("reduce_sum", {none}, {2}), (std::vector<T>{0, 0}));
  const std::vector<T> mean = run<T>("reduce_mean", {none}, {2});
  EXPECT_TRUE(std::is_integral_v<T> ? mean[0] == 0 : mean[0] != mean[0]);
  EXPECT_TRUE(run<T>("reduce_max", {none}, {0}, {{"axis", 0}}).empty());
  for (const std::string name : {"reduce_max", "reduce_min"}) {
    expect_error(Errc::shape_mismatch, "[" + name + "] input 0 (x) must have elements along the axis, got ",
                 [&] { run<T>(name, {none}, {2}); });
  }
  expect_error(Errc::shape_mismatch, "[argmax] input 0 (x) must have elements",
               [&] { run<std::int64_t>("argmax", {none}, {2}); });
}

TYPED_TEST(ReductionsInteger, Sums_wrap_around_and_means_do_not) {
  using T = TypeParam;
  constexpr T greatest = Limits<T>::max();
  EXPECT_EQ(run<T>("reduce_sum", {make<T>({greatest, 1})}, {}), std::vector<T>{Limits<T>::min()});
  EXPECT_EQ(run<T>("reduce_mean", {make<T>({greatest, greatest, greatest})}, {}), std::vector<T>{greatest});
  EXPECT_EQ(run<T>("reduce_mean", {make<T>({1, 2})}, {}), std::vector<T>{2});
  EXPECT_EQ(run<float>("reduce_mean", {make<T>({1, 2})}, {}), std::vector<float>{1.5F});
  EXPECT_EQ(run<double>("reduce_mean", {make<T>({1, 2})}, {1}), std::vector<double>{1.5});
}

TYPED_TEST(Rows, Sums_of_millions_are_as_accurate_as_short_ones) {
  using T = TypeParam;
  constexpr std::int64_t count = 2'100'003;
  const std::vector<T> tenths(4 * count, T(0.1));
  const double total = static_cast<double>(T(0.1)) * count;
  const double tolerance = 2e-6 * total;
  const auto expect_totals = [&](const std::vector<T>& sums, double factor) {
    for (const T sum : sums) EXPECT_NEAR(static_cast<double>(sum), factor * total, factor * tolerance);
  };
  expect_totals(run<T>("reduce_sum", {make<T>(tenths)}, {}), 4);
  expect_totals(run<T>("reduce_mean", {make<T>(tenths)}, {}), 1.0 / count);
  expect_totals(run<T>("reduce_sum", {make<T>(tenths, {4, count})}, {4}), 1);
  expect_totals(run<T>("reduce_sum", {make<T>(tenths, {count, 4})}, {4}, {{"axis", 0}}), 1);
}

TEST(ReduceMean, Of_s64_is_exact) {
  using List = std::vector<std::int64_t>;
  constexpr std::int64_t big = std::int64_t{1} << 62, least = Limits<std::int64_t>::min();
  const auto mean = [](const List& x) { return run<std::int64_t>("reduce_mean", {make<std::int64_t>(x)}, {})[0]; };
  EXPECT_EQ(mean({big, big, big}), big);
  EXPECT_EQ(mean({big + 1}), big + 1);
  EXPECT_EQ(mean({least, least + 2}), least + 1);
  EXPECT_EQ(mean({least, Limits<std::int64_t>::max()}), -1);  // -1/2
  EXPECT_EQ(mean({1, 2}), 2);                                 // halves round away from zero
  EXPECT_EQ(mean({-1, -2}), -2);
  EXPECT_EQ(mean({-1, -1, -2}), -1);
  EXPECT_EQ(mean({5, 6, 6}), 6);
  EXPECT_EQ(run<double>("reduce_mean", {make<std::int64_t>({big, big, big})}, {}), std::vector<double>{0x1p62});
}

TEST(ReduceMean, Of_u8_is_rounded_to_the_nearest) {
  for (std::int64_t count : {1, 2, 3, 7, 64, 255, 1000}) {
    for (int sum = 0; sum < 40; ++sum) {
      std::vector<std::uint8_t> x(static_cast<std::size_t>(count), 200);
      for (int i = 0; i < sum; ++i) ++x[static_cast<std::size_t>(i) % x.size()];
      const auto expected =
          static_cast<std::uint8_t>(std::lround(200 + static_cast<double>(sum) / static_cast<double>(count)));
      EXPECT_EQ(run<std::uint8_t>("reduce_mean", {make<std::uint8_t>(x)}, {})[0], expected) << count << " " << sum;
    }
  }
}

TEST(ReduceSum, May_have_a_wider_type) {
  const Buffer bytes = make<std::uint8_t>({255, 255});
  EXPECT_EQ(run<std::uint32_t>("reduce_sum", {bytes}, {}), std::vector<std::uint32_t>{510});
  EXPECT_EQ(run<std::int32_t>("reduce_sum", {bytes}, {}), std::vector<std::int32_t>{510});
  EXPECT_EQ(run<std::int64_t>("reduce_sum", {bytes}, {}), std::vector<std::int64_t>{510});
  EXPECT_EQ(run<float>("reduce_sum", {bytes}, {}), std::vector<float>{510});
  EXPECT_EQ(run<double>("reduce_sum", {bytes}, {}), std::vector<double>{510});
  EXPECT_EQ(run<std::int64_t>("reduce_sum", {make<std::int32_t>({INT32_MIN, INT32_MIN})}, {}),
            std::vector<std::int64_t>{-(1LL << 32)});
  EXPECT_EQ(run<double>("reduce_sum", {make<std::uint32_t>({UINT32_MAX, 1})}, {}), std::vector<double>{0x1p32});
  EXPECT_EQ(run<double>("reduce_sum", {make<float>({0x1p24F, 1})}, {}), std::vector<double>{16777217});
}

TYPED_TEST(Rows, NaN_is_the_maximum_and_the_minimum) {
  using T = TypeParam;
  const Buffer x = make<T>({1, static_cast<T>(nan), 3, static_cast<T>(nan)});
  expect_near(run<T>("reduce_max", {x}, {}), {nan});
  expect_near(run<T>("reduce_min", {x}, {}), {nan});
  EXPECT_EQ(run<std::int64_t>("argmax", {x}, {}), std::vector<std::int64_t>{1});
  EXPECT_EQ(run<std::int64_t>("argmax", {make<T>({2, 3, 3})}, {}), std::vector<std::int64_t>{1});
}

TYPED_TEST(Rows, Softmax) {
  using T = TypeParam;
  const double e = std::exp(1.0), sum = 1 + e + e * e;
  expect_near(run<T>("softmax", {make<T>({0, 1, 2, 1000, 1000, 1000}, {2, 3})}, {2, 3}),
              {1 / sum, e / sum, e * e / sum, 1.0 / 3, 1.0 / 3, 1.0 / 3});
  expect_near(run<T>("softmax", {make<T>({0, 1, 0, 2}, {2, 2})}, {2, 2}, {{"axis", 0}}),
              {0.5, 1 / (1 + e), 0.5, e / (1 + e)});
  expect_near(run<T>("softmax", {make<T>({-1000, 0}, {2, 1})}, {2, 1}), {1, 1});
  EXPECT_TRUE(run<T>("softmax", {make<T>({}, {0, 3})}, {0, 3}).empty());
  EXPECT_TRUE(run<T>("softmax", {make<T>({}, {3, 0})}, {3, 0}).empty());
}

TYPED_TEST(Rows, Layer_norm) {
  using T = TypeParam;
  const Buffer x = make<T>({1, 2, 3, 5, 5, 5}, {2, 3}), gamma = make<T>({1, 2, 3}), beta = make<T>({10, 20, 30});
  const double unit = 1 / std::sqrt(2.0 / 3 + 1e-5), plain = std::sqrt(1.5);
  expect_near(run<T>("layer_norm", {x}, {2, 3}), {-unit, 0, unit, 0, 0, 0});
  expect_near(run<T>("layer_norm", {x, gamma}, {2, 3}), {-unit, 0, 3 * unit, 0, 0, 0});
  expect_near(run<T>("layer_norm", {x, gamma, beta}, {2, 3}), {10 - unit, 20, 30 + 3 * unit, 10, 20, 30});
  expect_near(run<T>("layer_norm", {make<T>({1, 2, 3})}, {3}, {{"epsilon", 0}}), {-plain, 0, plain});
  expect_near(run<T>("layer_norm", {make<T>({4, 5}, {2, 1}), make<T>({2}), make<T>({3})}, {2, 1}), {3, 3});
  EXPECT_TRUE(run<T>("layer_norm", {make<T>({}, {2, 0})}, {2, 0}).empty());
}

TEST(ReductionErrors, Types) {
  const Buffer x = make_empty({2, 3}), bytes = make_empty({2, 3}, u8);
  expect_error(Errc::dtype_mismatch, "[reduce_sum] the sum of f32 elements must be f32 or f64, got s64",
               [&] { run<std::int64_t>("reduce_sum", {x}, {2}); });
  expect_error(Errc::dtype_mismatch, "[reduce_mean] the mean of u8 elements must be u8, f32 or f64, got s32",
               [&] { run<std::int32_t>("reduce_mean", {bytes}, {2}); });
  expect_error(Errc::dtype_mismatch, "[reduce_max] input 0 (x) must be f32, got u8[2,3]",
               [&] { run<float>("reduce_max", {bytes}, {2}); });
  expect_error(Errc::dtype_mismatch, "[argmax] output must be s64, s32 or u32, got f32",
               [&] { run<float>("argmax", {x}, {2}); });
  expect_error(Errc::dtype_mismatch, "[softmax] output must be f32 or f64, got u8",
               [&] { run<std::uint8_t>("softmax", {bytes}, {2, 3}); });
  expect_error(Errc::dtype_mismatch, "[layer_norm] input 1 (gamma) must be f32, got s32[3]",
               [&] { run<float>("layer_norm", {x, make_empty({3}, s32)}, {2, 3}); });
}

TEST(ReductionErrors, Shapes) {
  const Buffer x = make_empty({2, 3});
  expect_error(Errc::shape_mismatch,
               "[reduce_sum] output must be [2] or [2,1], the input [2,3] without axis 1, got [3]",
               [&] { run<float>("reduce_sum", {x}, {3}); });
  expect_error(Errc::shape_mismatch, "[reduce_sum] output must be [2] or [2,1]",
               [&] { run<float>("reduce_sum", {x}, {}, {{"axis", 1}}); });
  expect_error(Errc::shape_mismatch, "[softmax] input 0 (x) must be f32[3,2] like the output, got f32[2,3]",
               [&] { run<float>("softmax", {x}, {3, 2}); });
  expect_error(Errc::shape_mismatch, "[layer_norm] input 2 (beta) must be f32[3], the last axis of input 0, got f32[2]",
               [&] { run<float>("layer_norm", {x, make_empty({3}), make_empty({2})}, {2, 3}); });
  expect_error(Errc::shape_mismatch, "[layer_norm] input 0 (x) must have rank 1 to 8, got f32[]",
               [&] { run<float>("layer_norm", {make_empty({})}, {}); });
}

TEST(ReductionErrors, Parameters) {
  const Buffer x = make_empty({2, 3});
  for (const std::string name : {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "softmax"}) {
    expect_error(Errc::invalid_parameter, "[" + name + "] parameter 'axis' must be between -2 and 1, got 2",
                 [&] { run<float>(name, {x}, {2, 3}, {{"axis", 2}}); });
  }
  expect_error(Errc::invalid_parameter, "[reduce_sum] parameter 'axis'",
               [&] { run<float>("reduce_sum", {make_empty({})}, {}, {{"axis", 0}}); });
  expect_error(Errc::invalid_parameter, "[layer_norm] parameter 'epsilon' must be at least 0, got -1",
               [&] { run<float>("layer_norm", {x}, {2, 3}, {{"epsilon", -1}}); });
  expect_error(Errc::count_mismatch, "[layer_norm] takes 1 to 3 inputs, got 0",
               [&] { run<float>("layer_norm", {}, {2, 3}); });
}

TEST(ReductionErrors, The_output_must_not_be_the_input) {
  const Buffer x = make_empty({2, 3});
  expect_error(Errc::invalid_argument, "[softmax]", [&] { test::cpu().run("softmax", {x}, x); });
}

}  // namespace
}  // namespace tessera
