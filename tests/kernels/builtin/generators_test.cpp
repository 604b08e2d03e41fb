#include <tessera/tessera.hpp>

#include "support/expect_error.hpp"
#include "support/run_kernel.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

namespace tessera {
namespace {

using test::expect_error;
using test::expect_near;
using test::Limits;
using test::run;

template <class T>
class Generators : public ::testing::Test {};
TYPED_TEST_SUITE(Generators, test::EveryType);
template <class T>
class IntegerGenerators : public ::testing::Test {};
TYPED_TEST_SUITE(IntegerGenerators, test::IntegerTypes);
template <class T>
class Random : public ::testing::Test {};
TYPED_TEST_SUITE(Random, test::FloatTypes);

TYPED_TEST(Generators, Arange) {
  using T = TypeParam;
  using List = std::vector<T>;
  EXPECT_EQ(run<T>("arange", {}, {2, 3}), (List{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(run<T>("arange", {}, {3}, {{"start", 10}, {"step", -5}}), (List{10, 5, 0}));
  EXPECT_EQ(run<T>("arange", {}, {}, {{"start", 7}}), List{7});
  EXPECT_TRUE(run<T>("arange", {}, {0, 2}).empty());
  const List halves = run<T>("arange", {}, {4}, {{"step", 0.5}});
  EXPECT_EQ(halves, (std::is_integral_v<T> ? List{0, 1, 1, 2} : List{0, static_cast<T>(0.5), 1, static_cast<T>(1.5)}));
}

TYPED_TEST(IntegerGenerators, Arange_saturates) {
  using T = TypeParam;
  constexpr T greatest = Limits<T>::max();
  EXPECT_EQ(run<T>("arange", {}, {2}, {{"start", 0.5}, {"step", 1e30}}), (std::vector<T>{1, greatest}));
  if (sizeof(T) == 8) return;
  EXPECT_EQ(run<T>("arange", {}, {3}, {{"start", static_cast<std::int64_t>(greatest) - 1}}),
            (std::vector<T>{static_cast<T>(greatest - 1), greatest, greatest}));
}

// Around the limits of 32 bits, where it is computed differently.
TYPED_TEST(Generators, Arange_is_the_same_at_any_width) {
  using T = TypeParam;
  constexpr std::int64_t limit = INT32_MAX;
  for (const std::int64_t start :
       {limit - 4, limit - 3, limit - 2, limit, -limit, -limit - 1, -limit + 3, INT64_C(0)}) {
    for (const std::int64_t step : {INT64_C(-1), INT64_C(0), INT64_C(1), limit / 3, limit / 4, limit, limit + 1}) {
      std::vector<T> expected;
      for (int i = 0; i < 3; ++i) {
        const std::int64_t value = start + i * step;
        if constexpr (std::is_integral_v<T>) {
          expected.push_back(static_cast<T>(std::clamp<std::int64_t>(
              value, Limits<T>::min(),
              static_cast<std::int64_t>(std::min<std::uint64_t>(Limits<T>::max(), INT64_MAX)))));
        } else {
          expected.push_back(static_cast<T>(value));
        }
      }
      EXPECT_EQ(run<T>("arange", {}, {3}, {{"start", start}, {"step", step}}), expected) << start << ' ' << step;
    }
  }
}

TYPED_TEST(Random, Arange_keeps_the_sign_of_a_zero) {
  using T = TypeParam;
  EXPECT_TRUE(std::signbit(run<T>("arange", {}, {2}, {{"start", -0.0}, {"step", -1}})[0]));
  EXPECT_FALSE(std::signbit(run<T>("arange", {}, {2}, {{"start", 0.0}, {"step", -1}})[0]));
}

TEST(Arange, Saturates_also_where_s64_ends) {
  constexpr std::int64_t big = std::int64_t{1} << 62, most = std::numeric_limits<std::int64_t>::max(),
                         least = std::numeric_limits<std::int64_t>::min();
  using List = std::vector<std::int64_t>;
  const auto range = [](std::int64_t start, std::int64_t step) {
    return run<std::int64_t>("arange", {}, {4}, {{"start", start}, {"step", step}});
  };
  EXPECT_EQ(range(big, big), (List{big, most, most, most}));
  EXPECT_EQ(range(-big, -big), (List{-big, least, least, least}));
  EXPECT_EQ(range(most - 2, 1), (List{most - 2, most - 1, most, most}));
  EXPECT_EQ(range(least + 1, -1), (List{least + 1, least, least, least}));
  EXPECT_EQ(range(least, most), (List{least, -1, most - 1, most}));
  EXPECT_EQ(range(most, least), (List{most, -1, least, least}));
  EXPECT_EQ(range(most, 0), (List{most, most, most, most}));
  EXPECT_EQ(run<std::int32_t>("arange", {}, {3}, {{"start", big}, {"step", big}}),
            std::vector<std::int32_t>(3, std::numeric_limits<std::int32_t>::max()));
}

TEST(Arange, Is_exact_in_s64) {
  using List = std::vector<std::int64_t>;
  constexpr std::int64_t big = (1LL << 53) + 1;
  EXPECT_EQ(run<std::int64_t>("arange", {}, {2}, {{"start", big}, {"step", 2}}), (List{big, big + 2}));
  EXPECT_EQ(run<std::int64_t>("arange", {}, {2}, {{"start", INT64_MAX}}), (List{INT64_MAX, INT64_MAX}));  // saturated
}

// Philox4x32-10 with 64-bit products.
std::array<std::uint32_t, 4> philox(std::uint64_t block, std::uint64_t seed) {
  std::array<std::uint32_t, 4> x = {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0};
  auto key0 = static_cast<std::uint32_t>(seed), key1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round, key0 += 0x9E3779B9, key1 += 0xBB67AE85) {
    const std::uint64_t p = x[0] * std::uint64_t{0xD2511F53}, q = x[2] * std::uint64_t{0xCD9E8D57};
    x = {static_cast<std::uint32_t>(q >> 32) ^ x[1] ^ key0, static_cast<std::uint32_t>(q),
         static_cast<std::uint32_t>(p >> 32) ^ x[3] ^ key1, static_cast<std::uint32_t>(p)};
  }
  return x;
}

template <class T>
std::vector<double> uniform_numbers(std::size_t count, std::uint64_t seed) {
  std::vector<double> numbers;
  for (std::size_t i = 0; i < count; ++i) {
    if (sizeof(T) == 4) {
      numbers.push_back((philox(i / 4, seed)[i % 4] >> 8) * 0x1p-24);
    } else {
      const auto words = philox(i / 2, seed);
      const std::uint64_t low = words[i % 2 * 2], high = words[i % 2 * 2 + 1];
      numbers.push_back(static_cast<double>((high << 32 | low) >> 11) * 0x1p-53);
    }
  }
  return numbers;
}

TEST(Uniform, Matches_the_published_answer) {
  EXPECT_EQ(philox(0, 0), (std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const std::vector<float> numbers = run<float>("uniform", {}, {4});
  EXPECT_EQ(numbers,
            (std::vector<float>{0x6627e8 * 0x1p-24F, 0xe169c5 * 0x1p-24F, 0xbc57ac * 0x1p-24F, 0x9b00db * 0x1p-24F}));
}

TYPED_TEST(Random, Uniform) {
  using T = TypeParam;
  for (const std::int64_t seed :
       {std::int64_t{0}, std::int64_t{1}, std::int64_t{0x123456789abcdef0}, std::int64_t{-1}}) {
    const std::vector<double> expected = uniform_numbers<T>(31, static_cast<std::uint64_t>(seed));
    EXPECT_EQ(run<T>("uniform", {}, {31}, {{"seed", seed}}), std::vector<T>(expected.begin(), expected.end()));
    std::vector<double> moved;
    for (const double u : expected) moved.push_back(-3 + 8 * u);
    expect_near(run<T>("uniform", {}, {31}, {{"seed", seed}, {"min", -3}, {"max", 5}}), moved);
  }
  EXPECT_EQ(run<T>("uniform", {}, {5, 2}), run<T>("uniform", {}, {10}));
  EXPECT_EQ(run<T>("uniform", {}, {}).size(), 1U);
  EXPECT_TRUE(run<T>("uniform", {}, {0}).empty());
}

TYPED_TEST(Random, Uniform_never_reaches_its_end) {
  using T = TypeParam;
  for (const auto& [min, max] : {std::pair{1000.0, 1001.0}, {-1001.0, -1000.0}, {0x1p24, 0x1p24 + 2}, {5.0, 5.0}}) {
    for (const T x : run<T>("uniform", {}, {200000}, {{"seed", 3}, {"min", min}, {"max", max}})) {
      ASSERT_GE(x, static_cast<T>(min));
      ASSERT_TRUE(x < static_cast<T>(max) || min == max) << x;
    }
  }
}

TEST(Uniform, Refuses_invalid_bounds) {
  const auto with = [](double min, double max) {
    return [=] { run<float>("uniform", {}, {4}, {{"min", min}, {"max", max}}); };
  };
  constexpr double infinity = std::numeric_limits<double>::infinity();
  expect_error(Errc::invalid_parameter, "[uniform] parameter 'max' must be at least 'min'", with(2, 1));
  expect_error(Errc::invalid_parameter, "[uniform] parameter 'max' must be a finite f32, got inf", with(0, infinity));
  expect_error(Errc::invalid_parameter, "[uniform] parameter 'min' must be a finite f32, got nan",
               with(std::nan(""), 1));
  expect_error(Errc::invalid_parameter, "[uniform] parameter 'min' must be a finite f32", with(-1e39, 0));
  expect_error(Errc::invalid_parameter, "a finite f32 above it", with(-3e38, 3e38));
  expect_error(Errc::invalid_parameter, "[randn] parameter 'std' must be at least 0, got -1",
               [] { run<float>("randn", {}, {4}, {{"std", -1}}); });
}

TYPED_TEST(Random, Randn) {
  using T = TypeParam;
  const std::vector<double> uniform = uniform_numbers<T>(32, 42);
  std::vector<double> expected;
  for (std::size_t i = 0; i < 31; ++i) {
    const double radius = std::sqrt(-2 * std::log(1 - uniform[i / 2 * 2]));
    const double angle = 2 * std::numbers::pi * uniform[i / 2 * 2 + 1];
    expected.push_back(10 + 2 * radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle)));
  }
  expect_near(run<T>("randn", {}, {31}, {{"seed", 42}, {"mean", 10}, {"std", 2}}), expected, 8);
}

TYPED_TEST(Random, Moments) {
  using T = TypeParam;
  constexpr int count = 20000;
  double sum = 0, squares = 0;
  for (const T x : run<T>("randn", {}, {count}, {{"seed", 7}})) {
    sum += static_cast<double>(x);
    squares += static_cast<double>(x) * static_cast<double>(x);
  }
  EXPECT_NEAR(sum / count, 0, 0.03);
  EXPECT_NEAR(squares / count, 1, 0.05);
}

TEST(Gradient, Increases_to_the_right_and_down) {
  using List = std::vector<std::uint8_t>;
  EXPECT_EQ(run<std::uint8_t>("generate_gradient", {}, {2, 3, 4}, {{"phase", 1.25}}),
            (List{0, 0,   64, 255, 128, 0,   64, 255, 255, 0,   64, 255,  //
                  0, 255, 64, 255, 128, 255, 64, 255, 255, 255, 64, 255}));
  EXPECT_EQ(run<std::uint8_t>("generate_gradient", {}, {1, 1, 4}), (List{0, 0, 0, 255}));
  EXPECT_TRUE(run<std::uint8_t>("generate_gradient", {}, {0, 3, 4}).empty());
}

TEST(Gradient, Is_exact) {
  for (const std::int64_t width : {2, 255, 256, 257, 511, 1021, 4096}) {
    const std::vector<std::uint8_t> row = run<std::uint8_t>("generate_gradient", {}, {1, width, 4}, {{"phase", -0.25}});
    for (std::int64_t x = 0; x < width; ++x) {
      const auto* pixel = row.data() + x * 4;
      ASSERT_EQ(pixel[0], (510 * x + width - 1) / (2 * (width - 1))) << x << " of " << width;
      ASSERT_EQ(pixel[1], 0);
      ASSERT_EQ(pixel[2], 191);
      ASSERT_EQ(pixel[3], 255);
    }
  }
}

TEST(GeneratorErrors, Types_and_shapes) {
  expect_error(Errc::dtype_mismatch, "[uniform] output must be f32 or f64, got s32",
               [] { run<std::int32_t>("uniform", {}, {4}); });
  expect_error(Errc::dtype_mismatch, "[randn] output must be f32 or f64, got u8",
               [] { run<std::uint8_t>("randn", {}, {4}); });
  expect_error(Errc::dtype_mismatch, "[generate_gradient] output must be u8[4,4,4], got f32[4,4,4]",
               [] { run<float>("generate_gradient", {}, {4, 4, 4}); });
  expect_error(Errc::shape_mismatch, "[generate_gradient] output must be u8[H,W,4], got u8[4,4,3]",
               [] { run<std::uint8_t>("generate_gradient", {}, {4, 4, 3}); });
  expect_error(Errc::invalid_parameter, "[uniform] parameter 'seed' must be an integer, got a number, 0.5",
               [] { run<float>("uniform", {}, {4}, {{"seed", 0.5}}); });
}

}  // namespace
}  // namespace tessera
