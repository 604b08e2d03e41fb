#include <tessera/tessera.hpp>

#include "support/expect_error.hpp"
#include "support/run_kernel.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
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
constexpr double infinity = Limits<double>::infinity();

template <class T>
class Elementwise : public ::testing::Test {};
TYPED_TEST_SUITE(Elementwise, test::EveryType);
template <class T>
class ElementwiseInteger : public ::testing::Test {};
TYPED_TEST_SUITE(ElementwiseInteger, test::IntegerTypes);
template <class T>
class ElementwiseFloat : public ::testing::Test {};
TYPED_TEST_SUITE(ElementwiseFloat, test::FloatTypes);

TYPED_TEST(Elementwise, Operands_broadcast) {
  using T = TypeParam;
  using List = std::vector<T>;
  const Buffer a = make<T>({1, 2, 3, 4, 5, 6}, {2, 3}), row = make<T>({10, 20, 30}), column = make<T>({1, 2}, {2, 1});
  EXPECT_EQ(run<T>("elementwise_add", {a, row}, {2, 3}), (List{11, 22, 33, 14, 25, 36}));
  EXPECT_EQ(run<T>("elementwise_sub", {row, a}, {2, 3}), (List{9, 18, 27, 6, 15, 24}));
  EXPECT_EQ(run<T>("elementwise_mul", {a, column}, {2, 3}), (List{1, 2, 3, 8, 10, 12}));
  EXPECT_EQ(run<T>("elementwise_div", {row, column}, {2, 3}), (List{10, 20, 30, 5, 10, 15}));
  EXPECT_EQ(run<T>("elementwise_min", {a, make<T>({3}, {})}, {2, 3}), (List{1, 2, 3, 3, 3, 3}));
  EXPECT_EQ(run<T>("elementwise_max", {make<T>({3}, {1, 1}), a}, {2, 3}), (List{3, 3, 3, 4, 5, 6}));
  EXPECT_EQ(run<T>("pow", {a, column}, {2, 3}), (List{1, 2, 3, 16, 25, 36}));
}

TYPED_TEST(Elementwise, Kernels_have_their_short_names) {
  using T = TypeParam;
  const Buffer a = make<T>({6}), b = make<T>({3});
  for (const char* name : {"add", "sub", "mul", "multiply", "div", "divide", "min", "minimum", "max", "maximum"}) {
    EXPECT_EQ(run<T>(name, {a, b}, {1}).size(), 1U) << name;
  }
  EXPECT_EQ(run<T>("scalar_mul", {a}, {1}, {{"factor", 2}}), std::vector<T>{12});
}

TYPED_TEST(Elementwise, Scalars_and_empty_buffers_work) {
  using T = TypeParam;
  for (const std::string name : {"relu", "scale", "abs", "clamp", "cast", "copy", "sqrt"}) {
    EXPECT_EQ(run<T>(name, {make<T>({1}, {})}, {}), std::vector<T>{1}) << name;
    EXPECT_TRUE(run<T>(name, {make<T>({}, {3, 0})}, {3, 0}).empty()) << name;
  }
  EXPECT_EQ(run<T>("add", {make<T>({1}, {}), make<T>({2}, {})}, {}), std::vector<T>{3});
  EXPECT_TRUE(run<T>("add", {make<T>({}, {0}), make<T>({2})}, {0}).empty());
  EXPECT_TRUE(run<T>("fill", {}, {0}).empty());
}

TYPED_TEST(ElementwiseInteger, Arithmetic_wraps_around) {
  using T = TypeParam;
  constexpr T least = Limits<T>::min(), greatest = Limits<T>::max();
  EXPECT_EQ(run<T>("add", {make<T>({greatest}), make<T>({1})}, {1}), std::vector<T>{least});
  EXPECT_EQ(run<T>("sub", {make<T>({least}), make<T>({1})}, {1}), std::vector<T>{greatest});
  EXPECT_EQ(run<T>("mul", {make<T>({greatest}), make<T>({2})}, {1}), std::vector<T>{static_cast<T>(-2)});
  EXPECT_EQ(run<T>("neg", {make<T>({least, 1})}, {2}), (std::vector<T>{least, static_cast<T>(-1)}));
  EXPECT_EQ(run<T>("abs", {make<T>({least, greatest})}, {2}), (std::vector<T>{least, greatest}));
  EXPECT_EQ(run<T>("pow", {make<T>({2}), make<T>({100})}, {1}), std::vector<T>{0});
}

TYPED_TEST(ElementwiseInteger, Division_rounds_towards_zero_and_by_zero_is_zero) {
  using T = TypeParam;
  EXPECT_EQ(run<T>("div", {make<T>({7, 8, 9}), make<T>({2, 0, 5})}, {3}), (std::vector<T>{3, 0, 1}));
}

TEST(ElementwiseSigned, Division_and_powers_of_negative_numbers) {
  using T = std::int32_t;
  EXPECT_EQ(run<T>("div", {make<T>({-7, Limits<T>::min()}), make<T>({2, -1})}, {2}),
            (std::vector<T>{-3, Limits<T>::min()}));
  EXPECT_EQ(run<T>("pow", {make<T>({3, 1, -1, -1, 0, -2}), make<T>({-1, -5, -3, -4, -1, 3})}, {6}),
            (std::vector<T>{0, 1, -1, 1, 0, -8}));
}

TYPED_TEST(ElementwiseFloat, NaN_stays) {
  using T = TypeParam;
  const auto list = [](std::vector<double> values) { return std::vector<T>(values.begin(), values.end()); };
  const Buffer a = make<T>(list({nan, 1, nan})), b = make<T>(list({1, nan, nan}));
  for (const char* name : {"min", "max", "add"}) expect_near(run<T>(name, {a, b}, {3}), {nan, nan, nan});
  expect_near(run<T>("relu", {a}, {3}), {nan, 1, nan});
  expect_near(run<T>("clamp", {a}, {3}), {nan, 1, nan});
  expect_near(run<T>("div", {make<T>({1, -1, 0}), make<T>({0, 0, 0})}, {3}), {infinity, -infinity, nan});
}

TYPED_TEST(ElementwiseFloat, Relu_with_slope_zero_is_plus_zero) {
  using T = TypeParam;
  const std::vector<T> result = run<T>("relu", {make<T>({-Limits<T>::infinity(), -1, 2})}, {3});
  EXPECT_EQ(result, (std::vector<T>{0, 0, 2}));
  EXPECT_FALSE(std::signbit(result[0]));
  EXPECT_FALSE(std::signbit(result[1]));
  EXPECT_EQ(run<T>("relu", {make<T>({-4, 2})}, {2}, {{"slope", 0.25}}), (std::vector<T>{-1, 2}));
  EXPECT_EQ(run<T>("scale", {make<T>({-4, 2})}, {2}, {{"factor", 0.25}}), (std::vector<T>{-1, 0.5}));
}

TEST(ElementwiseScale, Whole_factors_are_exact_and_saturate) {
  const auto scaled = []<class T>(std::vector<T> x, Value factor) {
    return run<T>("scale", {make<T>(x)}, Shape(x.size()), {{"factor", factor}});
  };
  using S32 = std::vector<std::int32_t>;
  using S64 = std::vector<std::int64_t>;
  using U32 = std::vector<std::uint32_t>;
  using U8 = std::vector<std::uint8_t>;
  constexpr std::int32_t low = INT32_MIN, high = INT32_MAX;
  EXPECT_EQ(scaled(S32{low, -3, 0, 3, high}, -1), (S32{high, 3, 0, -3, -high}));
  EXPECT_EQ(scaled(S32{low, -3, 3, high / 2 + 1}, 2), (S32{low, -6, 6, high}));
  EXPECT_EQ(scaled(S32{-1, 0, 1}, std::int64_t{1} << 40), (S32{low, 0, high}));
  EXPECT_EQ(scaled(S32{-2, -1, 0, 1}, std::int64_t{1} << 31), (S32{low, low, 0, high}));
  EXPECT_EQ(scaled(S32{-1, 0, 1}, INT64_MIN), (S32{high, 0, low}));
  EXPECT_EQ(scaled(S64{INT64_MIN, (1LL << 53) + 1, INT64_MAX}, 1), (S64{INT64_MIN, (1LL << 53) + 1, INT64_MAX}));
  EXPECT_EQ(scaled(S64{INT64_MIN, 5, INT64_MAX}, -1), (S64{INT64_MAX, -5, -INT64_MAX}));
  EXPECT_EQ(scaled(S64{INT64_MIN, 5, INT64_MAX / 3}, 3), (S64{INT64_MIN, 15, INT64_MAX / 3 * 3}));
  EXPECT_EQ(scaled(U32{0, 2, UINT32_MAX / 2 + 1}, 2), (U32{0, 4, UINT32_MAX}));
  EXPECT_EQ(scaled(U32{0, 2, UINT32_MAX}, -2), (U32{0, 0, 0}));
  EXPECT_EQ(scaled(U8{0, 85, 86}, 3), (U8{0, 255, 255}));
  EXPECT_EQ(scaled(U8{0, 85, 86}, 0), (U8{0, 0, 0}));
  EXPECT_EQ(scaled(U8{0, 1}, 1e30), (U8{0, 255}));
}

TEST(ElementwiseScale, Other_factors_round_halves_away_from_zero) {
  using T = std::int32_t;
  const Buffer x = make<T>({-3, -1, 1, 3});
  EXPECT_EQ(run<T>("scale", {x}, {4}, {{"factor", 0.5}}), (std::vector<T>{-2, -1, 1, 2}));
  EXPECT_EQ(run<T>("scale", {x}, {4}, {{"factor", nan}}), (std::vector<T>{0, 0, 0, 0}));
  EXPECT_EQ(run<T>("scale", {x}, {4}, {{"factor", -infinity}}),
            (std::vector<T>{Limits<T>::max(), Limits<T>::max(), Limits<T>::min(), Limits<T>::min()}));
  EXPECT_EQ(run<T>("relu", {x}, {4}, {{"slope", 0.5}}), (std::vector<T>{-2, -1, 1, 3}));
  EXPECT_EQ(run<T>("relu", {x}, {4}, {{"slope", -2}}), (std::vector<T>{6, 2, 1, 3}));
  EXPECT_EQ(run<T>("relu", {x}, {4}), (std::vector<T>{0, 0, 1, 3}));
}

TYPED_TEST(ElementwiseFloat, Functions) {
  using T = TypeParam;
  const Buffer x = make<T>({-2, 0, 0.5, 3});
  const auto expected = [](double (*function)(double)) {
    return std::vector<double>{function(-2), function(0), function(0.5), function(3)};
  };
  expect_near(run<T>("sigmoid", {x}, {4}), expected([](double v) { return 1 / (1 + std::exp(-v)); }));
  expect_near(run<T>("silu", {x}, {4}), expected([](double v) { return v / (1 + std::exp(-v)); }));
  expect_near(run<T>("gelu", {x}, {4}), expected([](double v) { return v / 2 * std::erfc(-v / std::sqrt(2.0)); }));
  expect_near(run<T>("tanh", {x}, {4}), expected(std::tanh));
  expect_near(run<T>("exp", {x}, {4}), expected(std::exp));
  expect_near(run<T>("log", {x}, {4}), expected(std::log));
  expect_near(run<T>("sqrt", {x}, {4}), expected(std::sqrt));
  expect_near(run<T>("abs", {x}, {4}), {2, 0, 0.5, 3});
  expect_near(run<T>("neg", {x}, {4}), {2, 0, -0.5, -3});
}

TYPED_TEST(ElementwiseInteger, Functions_are_rounded_and_saturated) {
  using T = TypeParam;
  using List = std::vector<T>;
  const Buffer x = make<T>({0, 2, 10});
  EXPECT_EQ(run<T>("sigmoid", {x}, {3}), (List{1, 1, 1}));
  EXPECT_EQ(run<T>("silu", {x}, {3}), (List{0, 2, 10}));
  EXPECT_EQ(run<T>("gelu", {x}, {3}), (List{0, 2, 10}));
  EXPECT_EQ(run<T>("tanh", {x}, {3}), (List{0, 1, 1}));
  EXPECT_EQ(run<T>("sqrt", {x}, {3}), (List{0, 1, 3}));
  EXPECT_EQ(run<T>("log", {x}, {3}), (List{Limits<T>::min(), 1, 2}));
  EXPECT_EQ(run<T>("exp", {x}, {3}), (List{1, 7, sizeof(T) == 1 ? Limits<T>::max() : static_cast<T>(22026)}));
}

TYPED_TEST(Elementwise, Clamp) {
  using T = TypeParam;
  const Buffer x = make<T>({0, 1, 2, 3});
  EXPECT_EQ(run<T>("clamp", {x}, {4}), (std::vector<T>{0, 1, 1, 1}));
  EXPECT_EQ(run<T>("clamp", {x}, {4}, {{"min", 1}, {"max", 2}}), (std::vector<T>{1, 1, 2, 2}));
  EXPECT_EQ(run<T>("clamp", {x}, {4}, {{"min", -1e30}, {"max", infinity}}), (std::vector<T>{0, 1, 2, 3}));
}

TYPED_TEST(ElementwiseInteger, Clamp_rounds_its_bounds_inward) {
  using T = TypeParam;
  EXPECT_EQ(run<T>("clamp", {make<T>({0, 1, 2, 3})}, {4}, {{"min", 0.1}, {"max", 2.9}}), (std::vector<T>{1, 1, 2, 2}));
}

TEST(ElementwiseCast, Truncates_and_saturates) {
  const Buffer x = make<float>({1.9F, -1.9F, 1e10F, -1e10F, static_cast<float>(nan)});
  EXPECT_EQ(run<std::uint8_t>("cast", {x}, {5}), (std::vector<std::uint8_t>{1, 0, 255, 0, 0}));
  EXPECT_EQ(run<std::int32_t>("cast", {x}, {5}), (std::vector<std::int32_t>{1, -1, INT32_MAX, INT32_MIN, 0}));
  EXPECT_EQ(run<std::uint32_t>("cast", {x}, {5}), (std::vector<std::uint32_t>{1, 0, UINT32_MAX, 0, 0}));
  EXPECT_EQ(run<std::int64_t>("cast", {x}, {5}), (std::vector<std::int64_t>{1, -1, 10000000000, -10000000000, 0}));
  const Buffer whole = make<std::int64_t>({-1, 300, (1 << 24) + 3});
  EXPECT_EQ(run<std::uint8_t>("cast", {whole}, {3}), (std::vector<std::uint8_t>{0, 255, 255}));
  EXPECT_EQ(run<float>("cast", {whole}, {3}), (std::vector<float>{-1, 300, 16777220}));
  EXPECT_EQ(run<double>("cast", {whole}, {3}), (std::vector<double>{-1, 300, 16777219}));
}

TYPED_TEST(Elementwise, Fill) {
  using T = TypeParam;
  const T expected = std::is_integral_v<T> ? 3 : static_cast<T>(2.5);
  EXPECT_EQ(run<T>("fill", {}, {2, 2}, {{"value", 2.5}}), std::vector<T>(4, expected));
  EXPECT_EQ(run<T>("fill", {}, {}), std::vector<T>{0});
}

TYPED_TEST(ElementwiseInteger, Fill_saturates) {
  using T = TypeParam;
  EXPECT_EQ(run<T>("fill", {}, {1}, {{"value", 1e30}}), std::vector<T>{Limits<T>::max()});
  EXPECT_EQ(run<T>("fill", {}, {1}, {{"value", INT64_MIN}}), std::vector<T>{Limits<T>::min()});
  EXPECT_EQ(run<T>("fill", {}, {1}, {{"value", nan}}), std::vector<T>{0});
}

TEST(ElementwiseErrors, Types_must_match_the_output) {
  const Buffer x = make_empty({4}), whole = make_empty({4}, s32);
  expect_error(Errc::dtype_mismatch, "[elementwise_add] input 1 (b) must be f32[4] like the output, got s32[4]",
               [&] { run<float>("add", {x, whole}, {4}); });
  for (const std::string name : {"relu", "scale", "exp", "clamp", "copy"}) {
    expect_error(Errc::dtype_mismatch, "[" + name + "] input 0 (x) must be f32[4] like the output, got s32[4]",
                 [&] { run<float>(name, {whole}, {4}); });
    expect_error(Errc::shape_mismatch, "[" + name + "] input 0 (x) must be f32[5] like the output, got f32[4]",
                 [&] { run<float>(name, {x}, {5}); });
  }
}

TEST(ElementwiseErrors, The_output_has_the_broadcast_shape) {
  const Buffer row = make_empty({3}), matrix = make_empty({2, 3}), one = make_empty({1});
  expect_error(Errc::shape_mismatch, "[elementwise_mul] output must be f32[3]",
               [&] { run<float>("mul", {row, one}, {2, 3}); });
  expect_error(Errc::shape_mismatch, "[elementwise_mul] input 0 (a)", [&] { run<float>("mul", {matrix, row}, {3}); });
  expect_error(Errc::shape_mismatch, "[cast] output must be", [&] { run<std::int32_t>("cast", {row}, {2, 3}); });
}

TEST(ElementwiseErrors, Bounds_in_the_wrong_order) {
  const Buffer x = make_empty({4});
  expect_error(Errc::invalid_parameter, "[clamp] parameter 'min' must not be above parameter 'max', got 2 and 1",
               [&] { run<float>("clamp", {x}, {4}, {{"min", 2}}); });
  expect_error(Errc::invalid_parameter, "[clamp] parameter 'min'",
               [&] { run<float>("clamp", {x}, {4}, {{"max", nan}}); });
}

}  // namespace
}  // namespace tessera
