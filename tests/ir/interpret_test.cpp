#include "ir/interpret.hpp"

#include "support/expect_error.hpp"
#include "support/interpreted.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <tuple>
#include <vector>

namespace tessera {
namespace {

using test::Dims;
using test::expect_error;
using test::Interpreted;
using tile::Border;
using tile::Input;
using tile::Output;
using tile::Tile;

constexpr float nan_f = std::numeric_limits<float>::quiet_NaN();
constexpr float inf_f = std::numeric_limits<float>::infinity();
constexpr std::int32_t least = std::numeric_limits<std::int32_t>::min();
constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max();

// f of each x.
template <class To, class T, class F>
std::vector<To> each(const std::vector<T>& x, F f) {
  const Dims dims = {static_cast<std::int64_t>(x.size())};
  return Interpreted().input<T>(dims, x).template output<To>(dims, [&] {
    const Output z;
    z.store(f(tile::load_like(Input(0), z)));
  });
}
template <class T, class F>
std::vector<T> each(const std::vector<T>& x, F f) {
  return each<T, T>(x, f);
}

// f of each pair.
template <class T, class F>
std::vector<T> pairs(const std::vector<T>& x, const std::vector<T>& y, F f) {
  const Dims dims = {static_cast<std::int64_t>(x.size())};
  return Interpreted().input<T>(dims, x).input(dims, y).template output<T>(dims, [&] {
    const Output z;
    const Tile a = tile::load_like(Input(0), z);
    z.store(f(a, tile::load_like(Input(1), z)));
  });
}
// 1 where f of a pair is true.
template <class T, class F>
std::vector<T> truths(const std::vector<T>& x, const std::vector<T>& y, F f) {
  return pairs<T>(x, y, [&](const Tile& a, const Tile& b) { return tile::cast<T>(f(a, b)); });
}

// NaN equals NaN here.
void expect_same(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    EXPECT_EQ(a[i], b[i]) << "at " << i;
  }
}

const auto add = [](const Tile& a, const Tile& b) { return a + b; };
const auto sub = [](const Tile& a, const Tile& b) { return a - b; };
const auto mul = [](const Tile& a, const Tile& b) { return a * b; };
const auto divide = [](const Tile& a, const Tile& b) { return a / b; };
const auto rem = [](const Tile& a, const Tile& b) { return a % b; };
const auto power = [](const Tile& a, const Tile& b) { return pow(a, b); };

template <class T>
class Numbers : public testing::Test {};
using AllTypes = testing::Types<float, double, std::int32_t, std::int64_t, std::uint32_t, std::uint8_t>;
TYPED_TEST_SUITE(Numbers, AllTypes);

TYPED_TEST(Numbers, Of_every_type_are_added_subtracted_multiplied_and_divided) {
  using V = std::vector<TypeParam>;
  EXPECT_EQ(pairs(V{7, 9}, V{2, 3}, add), (V{9, 12}));
  EXPECT_EQ(pairs(V{7, 9}, V{2, 3}, sub), (V{5, 6}));
  EXPECT_EQ(pairs(V{7, 9}, V{2, 3}, mul), (V{14, 27}));
  EXPECT_EQ(pairs(V{8, 9}, V{2, 3}, divide), (V{4, 3}));
  EXPECT_EQ(pairs(V{7, 9}, V{4, 3}, rem), (V{3, 0}));
}

TYPED_TEST(Numbers, Of_every_type_have_a_least_a_greatest_and_a_power) {
  using V = std::vector<TypeParam>;
  EXPECT_EQ(pairs(V{7, 2}, V{2, 3}, [](const Tile& a, const Tile& b) { return min(a, b); }), (V{2, 2}));
  EXPECT_EQ(pairs(V{7, 2}, V{2, 3}, [](const Tile& a, const Tile& b) { return max(a, b); }), (V{7, 3}));
  EXPECT_EQ(pairs(V{3, 2}, V{4, 0}, power), (V{81, 1}));
  EXPECT_EQ(each(V{0, 5}, [](const Tile& a) { return abs(a); }), (V{0, 5}));
}

TYPED_TEST(Numbers, Of_every_type_are_compared) {
  using V = std::vector<TypeParam>;
  const V a = {1, 2, 3};
  const V b = {2, 2, 2};
  EXPECT_EQ(truths(a, b, [](const Tile& x, const Tile& y) { return x == y; }), (V{0, 1, 0}));
  EXPECT_EQ(truths(a, b, [](const Tile& x, const Tile& y) { return x != y; }), (V{1, 0, 1}));
  EXPECT_EQ(truths(a, b, [](const Tile& x, const Tile& y) { return x < y; }), (V{1, 0, 0}));
  EXPECT_EQ(truths(a, b, [](const Tile& x, const Tile& y) { return x <= y; }), (V{1, 1, 0}));
  EXPECT_EQ(truths(a, b, [](const Tile& x, const Tile& y) { return x > y; }), (V{0, 0, 1}));
  EXPECT_EQ(truths(a, b, [](const Tile& x, const Tile& y) { return x >= y; }), (V{0, 1, 1}));
}

TYPED_TEST(Numbers, Of_every_type_are_selected_and_multiplied_with_a_sum) {
  using V = std::vector<TypeParam>;
  EXPECT_EQ(pairs(V{1, 5}, V{3, 2}, [](const Tile& a, const Tile& b) { return select(a < b, a, b); }), (V{1, 2}));
  EXPECT_EQ(pairs(V{1, 5}, V{3, 2}, [](const Tile& a, const Tile& b) { return fma(a, b, a); }), (V{4, 15}));
}

TYPED_TEST(Numbers, Of_every_type_are_reduced) {
  using T = TypeParam;
  using V = std::vector<T>;
  const auto reduced = [](auto reduce, int axis) {
    Interpreted run;
    run.input<T>({2, 3}, {1, 5, 2, 3, 4, 1});
    return run.output<T>(axis == 0 ? Dims{1, 3} : Dims{2, 1}, [&] {
      const Output z;
      const Input x(0);
      z.store(reduce(axis == 0 ? x.load({x.dim(0), z.tile_dim(1)}, {0, z.block(1)})
                               : x.load({z.tile_dim(0), x.dim(1)}, {z.block(0), 0}),
                     axis));
    });
  };
  EXPECT_EQ(reduced(tile::reduce_sum, 1), (V{8, 8}));
  EXPECT_EQ(reduced(tile::reduce_sum, 0), (V{4, 9, 3}));
  EXPECT_EQ(reduced(tile::reduce_product, -1), (V{10, 12}));
  EXPECT_EQ(reduced(tile::reduce_max, 1), (V{5, 4}));
  EXPECT_EQ(reduced(tile::reduce_min, 0), (V{1, 4, 1}));
}

TYPED_TEST(Numbers, Of_every_type_multiply_as_matrices) {
  using T = TypeParam;
  Interpreted run;
  run.input<T>({2, 3}, {1, 2, 3, 4, 5, 6}).template input<T>({3, 2}, {1, 0, 0, 1, 1, 1});
  EXPECT_EQ(run.output<T>({2, 2},
                          [] {
                            const Output z;
                            const Input x(0);
                            const Input y(1);
                            const Tile a = x.load({z.tile_dim(0), 3}, {z.block(0), 0});
                            const Tile b = y.load({3, z.tile_dim(1)}, {0, z.block(1)});
                            z.store(tile::mma(a, b, tile::full_like(z, 10)));
                          }),
            (std::vector<T>{14, 15, 20, 21}));
}

TEST(Integers, Wrap_around) {
  using V = std::vector<std::int32_t>;
  EXPECT_EQ(pairs(V{most, least}, V{1, -1}, add), (V{least, most}));
  EXPECT_EQ(pairs(V{least, 0}, V{1, least}, sub), (V{most, least}));
  EXPECT_EQ(pairs(V{most, 65536}, V{2, 65536}, mul), (V{-2, 0}));
  EXPECT_EQ(each(V{least, 5}, [](const Tile& a) { return -a; }), (V{least, -5}));
  EXPECT_EQ(each(V{least, -5}, [](const Tile& a) { return abs(a); }), (V{least, 5}));
  using B = std::vector<std::uint8_t>;
  EXPECT_EQ(pairs(B{200, 16}, B{100, 16}, add), (B{44, 32}));
  EXPECT_EQ(pairs(B{1, 16}, B{2, 16}, sub), (B{255, 0}));
  EXPECT_EQ(pairs(B{200, 16}, B{2, 16}, mul), (B{144, 0}));
  using L = std::vector<std::int64_t>;
  constexpr std::int64_t most_l = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(pairs(L{most_l}, L{1}, add), (L{std::numeric_limits<std::int64_t>::min()}));
  using U = std::vector<std::uint32_t>;
  EXPECT_EQ(pairs(U{0}, U{1}, sub), (U{4294967295U}));
}

TEST(Integers, Divide_by_zero_to_zero_and_round_towards_zero) {
  using V = std::vector<std::int32_t>;
  EXPECT_EQ(pairs(V{7, -7, 7, 5, least}, V{2, 2, -2, 0, -1}, divide), (V{3, -3, -3, 0, least}));
  EXPECT_EQ(pairs(V{7, -7, 7, 5, least}, V{4, 4, -4, 0, -1}, rem), (V{3, -3, 3, 0, 0}));
  using U = std::vector<std::uint32_t>;
  EXPECT_EQ(pairs(U{4294967295U, 1}, U{2, 0}, divide), (U{2147483647U, 0}));
}

TEST(Integers, Have_powers_that_wrap_around_and_round_towards_zero) {
  using V = std::vector<std::int32_t>;
  EXPECT_EQ(pairs(V{2, 3, -2, 2}, V{31, 21, 3, 32}, power), (V{least, 1870418611, -8, 0}));
  EXPECT_EQ(pairs(V{2, 1, -1, -1, 0}, V{-1, -5, -3, -2, -1}, power), (V{0, 1, -1, 1, 0}));
}

TEST(Integers, Shift_by_the_amount_modulo_the_width) {
  using V = std::vector<std::int32_t>;
  EXPECT_EQ(pairs(V{12, -1}, V{10, 5}, [](const Tile& a, const Tile& b) { return a & b; }), (V{8, 5}));
  EXPECT_EQ(pairs(V{12, 0}, V{10, 5}, [](const Tile& a, const Tile& b) { return a | b; }), (V{14, 5}));
  EXPECT_EQ(pairs(V{12, -1}, V{10, 5}, [](const Tile& a, const Tile& b) { return a ^ b; }), (V{6, -6}));
  EXPECT_EQ(each(V{0, -1, 5}, [](const Tile& a) { return ~a; }), (V{-1, 0, -6}));
  EXPECT_EQ(pairs(V{1, 1, 1, 3}, V{4, 31, 33, -1}, [](const Tile& a, const Tile& b) { return a << b; }),
            (V{16, least, 2, least}));
  EXPECT_EQ(pairs(V{16, -16, least, 4}, V{2, 2, 31, 33}, [](const Tile& a, const Tile& b) { return a >> b; }),
            (V{4, -4, -1, 2}));
  using B = std::vector<std::uint8_t>;
  EXPECT_EQ(pairs(B{255, 1}, B{4, 9}, [](const Tile& a, const Tile& b) { return a << b; }), (B{240, 2}));
  EXPECT_EQ(pairs(B{255, 2}, B{4, 9}, [](const Tile& a, const Tile& b) { return a >> b; }), (B{15, 1}));
}

TEST(Floats, Propagate_nan_in_min_and_max_and_compare_unequal_to_it) {
  using V = std::vector<float>;
  const V a = {nan_f, 1, nan_f, 2};
  const V b = {1, nan_f, nan_f, 3};
  expect_same(pairs(a, b, [](const Tile& x, const Tile& y) { return min(x, y); }), {nan_f, nan_f, nan_f, 2});
  expect_same(pairs(a, b, [](const Tile& x, const Tile& y) { return max(x, y); }), {nan_f, nan_f, nan_f, 3});
  EXPECT_EQ(truths(a, b, [](const Tile& x, const Tile& y) { return x == y; }), (V{0, 0, 0, 0}));
  EXPECT_EQ(truths(a, b, [](const Tile& x, const Tile& y) { return x != y; }), (V{1, 1, 1, 1}));
  EXPECT_EQ(truths(a, b, [](const Tile& x, const Tile& y) { return x <= y; }), (V{0, 0, 0, 1}));
}

TEST(Floats, Divide_by_zero_as_in_ieee_754_and_have_fmod) {
  expect_same(pairs<float>({1, -1, 0}, {0, 0, 0}, divide), {inf_f, -inf_f, nan_f});
  expect_same(pairs<float>({5.5F, -5.5F, 1}, {2, 2, 0}, rem), {1.5F, -1.5F, nan_f});
  expect_same(pairs<float>({2, 0.25F, -8}, {0.5F, -2, 1}, power), {std::sqrt(2.0F), 16, -8});
}

TEST(Floats, Have_the_functions_of_the_standard_library) {
  const std::vector<float> x = {0.25F, 1, 2.5F};
  const auto check = [&](auto f, float (*wanted)(float)) {
    const std::vector<float> got = each(x, f);
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_FLOAT_EQ(got[i], wanted(x[i]));
  };
  check([](const Tile& a) { return exp(a); }, [](float a) { return std::exp(a); });
  check([](const Tile& a) { return log(a); }, [](float a) { return std::log(a); });
  check([](const Tile& a) { return sqrt(a); }, [](float a) { return std::sqrt(a); });
  check([](const Tile& a) { return rsqrt(a); }, [](float a) { return 1 / std::sqrt(a); });
  check([](const Tile& a) { return sin(a); }, [](float a) { return std::sin(a); });
  check([](const Tile& a) { return cos(a); }, [](float a) { return std::cos(a); });
  check([](const Tile& a) { return tanh(a); }, [](float a) { return std::tanh(a); });
  check([](const Tile& a) { return erf(a); }, [](float a) { return std::erf(a); });
  EXPECT_EQ(each<double>({1.0}, [](const Tile& a) { return exp(a); }), (std::vector<double>{std::exp(1.0)}));
}

TEST(Floats, Are_rounded_down_up_and_to_the_nearest_with_halves_away_from_zero) {
  using V = std::vector<float>;
  const V x = {-2.5F, -0.5F, 0.5F, 1.5F, 2.4F};
  EXPECT_EQ(each(x, [](const Tile& a) { return floor(a); }), (V{-3, -1, 0, 1, 2}));
  EXPECT_EQ(each(x, [](const Tile& a) { return ceil(a); }), (V{-2, 0, 1, 2, 3}));
  EXPECT_EQ(each(x, [](const Tile& a) { return round(a); }), (V{-3, -1, 1, 2, 2}));
}

TEST(Floats, Are_computed_in_their_own_type_with_one_rounding_each) {
  const float third = 1.0F / 3.0F;
  EXPECT_EQ(each<float>({third}, [](const Tile& a) { return a * 3.0F - 1.0F; }),
            (std::vector<float>{third * 3.0F - 1}));
  EXPECT_EQ(each<float>({16777216.0F}, [](const Tile& a) { return a + 1; }), (std::vector<float>{16777216.0F}));
  EXPECT_EQ(each<double>({16777216.0}, [](const Tile& a) { return a + 1; }), (std::vector<double>{16777217.0}));
}

TEST(Casts, Saturate_and_make_nan_zero) {
  using I = std::vector<std::int32_t>;
  const std::vector<float> x = {1.9F, -1.9F, 3e9F, -3e9F, nan_f, inf_f, 2147483648.0F};
  const auto to = [](DType dtype) { return [dtype](const Tile& a) { return cast(a, dtype); }; };
  EXPECT_EQ((each<std::int32_t>(x, to(s32))), (I{1, -1, most, least, 0, most, most}));
  EXPECT_EQ((each<std::uint32_t>(x, to(u32))),
            (std::vector<std::uint32_t>{1, 0, 3000000000U, 0, 0, 4294967295U, 2147483648U}));
  EXPECT_EQ((each<std::uint8_t>(x, to(u8))), (std::vector<std::uint8_t>{1, 0, 255, 0, 0, 255, 255}));
  EXPECT_EQ((each<std::int64_t>(std::vector<float>{1e19F, -1e19F, -2.5F}, to(s64))),
            (std::vector<std::int64_t>{std::numeric_limits<std::int64_t>::max(),
                                       std::numeric_limits<std::int64_t>::min(), -2}));
  EXPECT_EQ((each<std::uint8_t>(I{300, -1, 7}, to(u8))), (std::vector<std::uint8_t>{255, 0, 7}));
  EXPECT_EQ((each<std::int32_t>(std::vector<std::uint32_t>{4294967295U}, to(s32))), (I{most}));
  EXPECT_EQ((each<std::uint32_t>(std::vector<std::int64_t>{-5, 1LL << 40}, to(u32))),
            (std::vector<std::uint32_t>{0, 4294967295U}));
}

TEST(Casts, To_the_nearest_round_halves_away_from_zero) {
  const auto nearest = [](const Tile& a) { return tile::round_cast(a, s32); };
  EXPECT_EQ((each<std::int32_t>(std::vector<float>{0.5F, -0.5F, 1.4F, 2.5F, nan_f, 3e9F}, nearest)),
            (std::vector<std::int32_t>{1, -1, 1, 3, 0, most}));
}

TEST(Casts, To_floats_round_as_the_hardware_does) {
  EXPECT_EQ((each<float>(std::vector<std::int32_t>{16777217, -3}, [](const Tile& a) { return tile::cast<float>(a); })),
            (std::vector<float>{16777216.0F, -3}));
  EXPECT_EQ((each<float>(std::vector<double>{1e300, 0.1}, [](const Tile& a) { return tile::cast<float>(a); })),
            (std::vector<float>{inf_f, 0.1F}));
}

TEST(Truths, Are_combined_by_and_or_xor_and_not) {
  using V = std::vector<float>;
  const auto both = [](auto f) {
    return truths<float>({-1, -1, 1, 1}, {-1, 1, -1, 1}, [&](const Tile& a, const Tile& b) { return f(a > 0, b > 0); });
  };
  EXPECT_EQ(both([](const Tile& a, const Tile& b) { return a & b; }), (V{0, 0, 0, 1}));
  EXPECT_EQ(both([](const Tile& a, const Tile& b) { return a | b; }), (V{0, 1, 1, 1}));
  EXPECT_EQ(both([](const Tile& a, const Tile& b) { return a ^ b; }), (V{0, 1, 1, 0}));
  EXPECT_EQ(both([](const Tile& a, const Tile&) { return !a; }), (V{1, 1, 0, 0}));
  EXPECT_EQ(both([](const Tile& a, const Tile& b) { return a == b; }), (V{1, 0, 0, 1}));
  EXPECT_EQ(both([](const Tile& a, const Tile& b) { return select(a, b, true); }), (V{1, 1, 0, 1}));
}

// What loads of x return from 3 before its beginning to 3 after its end.
std::vector<float> around(const std::vector<float>& x, Border border) {
  const auto size = static_cast<std::int64_t>(x.size());
  return Interpreted().input<float>({size}, x).output<float>({size + 6}, [&] {
    const Output z;
    z.store(Input(0).at({z.index(0) - 3}, border));
  });
}

TEST(Loads, Outside_of_a_buffer_follow_the_border) {
  const std::vector<float> x = {1, 2, 3, 4};
  using V = std::vector<float>;
  EXPECT_EQ(around(x, Border::zero), (V{0, 0, 0, 1, 2, 3, 4, 0, 0, 0}));
  EXPECT_EQ(around(x, Border::clamp), (V{1, 1, 1, 1, 2, 3, 4, 4, 4, 4}));
  EXPECT_EQ(around(x, Border::reflect), (V{4, 3, 2, 1, 2, 3, 4, 3, 2, 1}));
  EXPECT_EQ(around(x, Border::wrap), (V{2, 3, 4, 1, 2, 3, 4, 1, 2, 3}));
  EXPECT_EQ(around(x, Border::symmetric), (V{3, 2, 1, 1, 2, 3, 4, 4, 3, 2}));
}

TEST(Loads, Far_outside_reflect_and_wrap_repeatedly) {
  using V = std::vector<float>;
  EXPECT_EQ(around({1, 2}, Border::reflect), (V{2, 1, 2, 1, 2, 1, 2, 1}));
  EXPECT_EQ(around({1, 2}, Border::wrap), (V{2, 1, 2, 1, 2, 1, 2, 1}));
  EXPECT_EQ(around({1, 2}, Border::symmetric), (V{2, 2, 1, 1, 2, 2, 1, 1}));
  EXPECT_EQ(around({5}, Border::symmetric), (V{5, 5, 5, 5, 5, 5, 5}));
  EXPECT_EQ(around({5}, Border::reflect), (V{5, 5, 5, 5, 5, 5, 5}));
  EXPECT_EQ(around({5}, Border::zero), (V{0, 0, 0, 5, 0, 0, 0}));
}

TEST(Loads, Of_a_buffer_without_elements_read_zero) {
  using V = std::vector<float>;
  for (const Border border : {Border::zero, Border::clamp, Border::reflect, Border::wrap, Border::symmetric})
    EXPECT_EQ(around({}, border), (V{0, 0, 0, 0, 0, 0}));
  Interpreted run;
  run.input<float>({2, 0}, {});
  EXPECT_EQ(run.output<float>({2}, [] { Output().store(Input(0).at({Output().index(0), 0}, Border::clamp)); }),
            (V{0, 0}));
}

TEST(Loads, With_steps_apply_the_border_to_groups) {
  const auto grouped = [](Border border) {
    return Interpreted().input<std::uint8_t>({6}, {1, 2, 3, 4, 5, 6}).output<std::uint8_t>({12}, [&] {
      const Output z;
      z.store(tile::at_steps(Input(0), {z.index(0) - 4}, border, {2}));
    });
  };
  using V = std::vector<std::uint8_t>;
  EXPECT_EQ(grouped(Border::zero), (V{0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 0, 0}));
  EXPECT_EQ(grouped(Border::clamp), (V{1, 2, 1, 2, 1, 2, 3, 4, 5, 6, 5, 6}));
  EXPECT_EQ(grouped(Border::reflect), (V{5, 6, 3, 4, 1, 2, 3, 4, 5, 6, 3, 4}));
  EXPECT_EQ(grouped(Border::wrap), (V{3, 4, 5, 6, 1, 2, 3, 4, 5, 6, 1, 2}));
  EXPECT_EQ(grouped(Border::symmetric), (V{3, 4, 1, 2, 1, 2, 3, 4, 5, 6, 5, 6}));
}

TEST(Loads, Take_indices_from_other_inputs) {
  Interpreted run;
  run.input<float>({3}, {10, 20, 30}).input<std::int64_t>({4}, {2, -1, 0, 9});
  EXPECT_EQ(run.output<float>({4}, [] { Output().store(Input(0).at({tile::load_like(Input(1), Output())})); }),
            (std::vector<float>{30, 0, 10, 0}));
}

TEST(Loads, At_the_greatest_and_least_indices_are_outside) {
  Interpreted run;
  run.input<float>({3}, {10, 20, 30})
      .input<std::int64_t>({2}, {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()});
  const auto read = [&](Border border) {
    return run.output<float>({2}, [&] { Output().store(Input(0).at({tile::load_like(Input(1), Output())}, border)); });
  };
  EXPECT_EQ(read(Border::zero), (std::vector<float>{0, 0}));
  EXPECT_EQ(read(Border::clamp), (std::vector<float>{10, 30}));
}

// The result of the body for [[1, 2, 3], [4, 5, 6]], in row-major order.
std::vector<float> of_six(const Dims& dims, const std::function<Tile(const Tile&)>& body) {
  Interpreted run;
  run.input<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto program = run.program<float>(dims, [&] {
    const Output z;
    std::vector<tile::Index> zeros(static_cast<std::size_t>(z.rank()), 0);
    std::vector<tile::Index> extents;
    for (int axis = 0; axis < z.rank(); ++axis) extents.push_back(z.tile_dim(axis));
    // The slice has the tile's extents, whatever the extents of the body's result.
    z.store(slice(body(Input(0).load({2, 3}, {0, 0})), tile::Indices(zeros), tile::Indices(extents)));
  });
  return run.run<float>(program, dims);
}

TEST(Points, Are_moved_by_transpose_reshape_slice_and_broadcast) {
  using V = std::vector<float>;
  EXPECT_EQ(of_six({3, 2}, [](const Tile& x) { return transpose(x); }), (V{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(of_six({3, 2}, [](const Tile& x) { return reshape(x, {3, 2}); }), (V{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(of_six({6}, [](const Tile& x) { return reshape(x, {6}); }), (V{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(of_six({2, 2}, [](const Tile& x) { return slice(x, {0, 1}, {2, 2}); }), (V{2, 3, 5, 6}));
  EXPECT_EQ(of_six({2, 2, 3}, [](const Tile& x) { return broadcast(x, {2, 2, 3}); }),
            (V{1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(of_six({3, 1, 2}, [](const Tile& x) { return transpose(reshape(x, {2, 3, 1}), {1, 2, 0}); }),
            (V{1, 4, 2, 5, 3, 6}));
}

TEST(Points, Outside_of_a_sliced_tile_are_zero) {
  using V = std::vector<float>;
  Interpreted run;
  run.input<float>({3}, {1, 2, 3});
  const auto from = [&](int start) {
    return run.output<float>({1}, [&] {
      const Tile x = Input(0).load({3}, {0});
      const Tile part = slice(x, {start}, {4});
      Output().store(reduce_sum(part * tile::cast<float>(tile::iota({4}, 0) + 1), 0));  // 1, 2, 3, 4 times the parts
    });
  };
  EXPECT_EQ(from(0), (V{1 + 4 + 9}));
  EXPECT_EQ(from(1), (V{2 + 6}));
  EXPECT_EQ(from(-1), (V{2 + 6 + 12}));
  EXPECT_EQ(from(9), (V{0}));
}

TEST(Reductions, Over_no_elements_give_the_identity) {
  const auto over_nothing = [](auto reduce) {
    return Interpreted().input<float>({0}, {}).output<float>({1}, [&] {
      const Input x(0);
      Output().store(reduce(x.load({x.dim(0)}, {0}), 0));
    })[0];
  };
  EXPECT_EQ(over_nothing(tile::reduce_sum), 0);
  EXPECT_EQ(over_nothing(tile::reduce_product), 1);
  EXPECT_EQ(over_nothing(tile::reduce_max), -inf_f);
  EXPECT_EQ(over_nothing(tile::reduce_min), inf_f);
  EXPECT_EQ(over_nothing([](const Tile& x, int axis) { return tile::cast<float>(argmax(x, axis)); }), 0);
  const auto of_bytes = Interpreted().input<std::uint8_t>({0}, {}).output<std::uint8_t>({1}, [] {
    const Input x(0);
    Output().store(reduce_min(x.load({x.dim(0)}, {0}), 0));
  });
  EXPECT_EQ(of_bytes[0], 255);
}

TEST(Reductions, Wrap_around_and_propagate_nan) {
  const auto reduced = [](std::vector<float> values, auto reduce) {
    return Interpreted().input<float>({3}, values).output<float>({1}, [&] {
      Output().store(reduce(Input(0).load({3}, {0}), 0));
    });
  };
  expect_same(reduced({1, nan_f, 3}, tile::reduce_max), {nan_f});
  expect_same(reduced({nan_f, 2, 3}, tile::reduce_min), {nan_f});
  const auto sum = Interpreted().input<std::uint8_t>({3}, {200, 100, 1}).output<std::uint8_t>({1}, [] {
    Output().store(reduce_sum(Input(0).load({3}, {0}), 0));
  });
  EXPECT_EQ(sum[0], 45);
}

TEST(Reductions, Sum_millions_as_accurately_as_a_few) {
  constexpr std::int64_t count = 1'000'003;
  const std::vector<float> tenths(2 * count, 0.1F);
  const auto along_row = Interpreted().input<float>({2 * count}, tenths).output<float>({1}, [&] {
    Output().store(reduce_sum(Input(0).load({2 * count}, {0}), 0));
  });
  const auto along_columns = Interpreted().input<float>({count, 2}, tenths).output<float>({1, 1}, [&] {
    Output().store(reduce_sum(reduce_sum(Input(0).load({count, 2}, {0, 0}), 0), 1));
  });
  EXPECT_NEAR(along_row[0], double{0.1F} * 2 * count, 0.4);
  EXPECT_NEAR(along_columns[0], double{0.1F} * 2 * count, 0.4);
}

TEST(Reductions, Argmax_is_the_first_of_the_greatest_and_nan_is_the_greatest) {
  const auto where = [](std::vector<float> values) {
    return Interpreted().input<float>({4}, values).output<std::int64_t>({1}, [] {
      Output().store(argmax(Input(0).load({4}, {0}), 0));
    })[0];
  };
  EXPECT_EQ(where({1, 3, 3, 2}), 1);
  EXPECT_EQ(where({1, nan_f, 3, nan_f}), 1);
  EXPECT_EQ(where({-inf_f, -inf_f, -inf_f, -inf_f}), 0);
}

TEST(Loops, Run_their_count_and_carry_several_values) {
  using V = std::vector<std::int64_t>;
  const auto fibonacci = [](int count) {
    return Interpreted().output<std::int64_t>({1}, [&] {
      const auto [a, b] = tile::loop(count, std::tuple(0, 1), [](const tile::Index&, auto pair) {
        const auto& [first, second] = pair;
        return std::tuple(second, first + second);
      });
      Output().store(a);
    });
  };
  EXPECT_EQ(fibonacci(0), (V{0}));
  EXPECT_EQ(fibonacci(1), (V{1}));
  EXPECT_EQ(fibonacci(10), (V{55}));
  EXPECT_EQ(fibonacci(-3), (V{0}));
}

TEST(Loops, Can_be_nested) {
  const auto result = Interpreted().output<std::int64_t>({1}, [] {
    Output().store(tile::loop(3, 0, [](const tile::Index& i, const Tile& sum) {
      return tile::loop(4, sum, [&](const tile::Index& k, const Tile& inner) { return inner + i * 10 + k; });
    }));
  });
  EXPECT_EQ(result[0], 4 * 10 * (0 + 1 + 2) + 3 * (0 + 1 + 2 + 3));
}

TEST(Tiles, Know_their_origin_and_are_clipped_at_the_edges) {
  Interpreted run;
  run.tiled({2, 2});
  const auto places = run.output<std::int64_t>({3, 3}, [] {
    const Output z;
    z.store(z.index(0) * 10 + z.index(1));
  });
  EXPECT_EQ(places, (std::vector<std::int64_t>{0, 1, 2, 10, 11, 12, 20, 21, 22}));
  const auto blocks =
      run.output<std::int64_t>({3, 3}, [] { Output().store(Output().block(0) * 10 + Output().block(1)); });
  EXPECT_EQ(blocks, (std::vector<std::int64_t>{0, 0, 1, 0, 0, 1, 10, 10, 11}));
}

TEST(Tiles, At_the_edges_are_as_large_as_the_others_and_read_zero_there) {
  Interpreted run;
  run.input<float>({3}, {1, 2, 3}).tiled({2});
  const auto sums = run.output<float>({3}, [] {
    const Output z;
    z.store(reduce_sum(tile::load_like(Input(0), z) + 1, 0));
  });
  EXPECT_EQ(sums, (std::vector<float>{5, 5, 5}));  // 2 + 3, 4 + 1
}

TEST(Tiles, Of_rank_0_and_without_elements_work) {
  Interpreted run;
  run.input<float>({}, {3}).scalar("a", 2);
  const auto body = [] { Output().store(tile::load_like(Input(0), Output()) * tile::detail::scalar(0)); };
  EXPECT_EQ(run.output<float>({}, body), (std::vector<float>{6}));
  EXPECT_EQ(run.output<float>({0, 4}, body), (std::vector<float>{}));
}

TEST(Scalars, Come_as_the_bits_of_a_double_or_of_an_s64) {
  Interpreted run;
  run.scalar("a", 0.1).scalar("b", -3, ir::Type::s32).scalar("c", 4294967295.0, ir::Type::u32);
  EXPECT_EQ(run.output<float>({1}, [] { Output().store(tile::detail::scalar(0)); }), (std::vector<float>{0.1F}));
  EXPECT_EQ(run.output<std::int32_t>({1}, [] { Output().store(tile::detail::scalar(1)); }),
            (std::vector<std::int32_t>{-3}));
  EXPECT_EQ(run.output<std::uint32_t>({1}, [] { Output().store(tile::detail::scalar(2)); }),
            (std::vector<std::uint32_t>{4294967295U}));
}

TEST(Memory, That_cannot_be_allocated_is_an_error) {
  Interpreted run;
  for (const std::int64_t extent : {1LL << 40, 1LL << 62}) {
    expect_error(Errc::out_of_memory, "[test] its tiles do not fit in memory", [&] {
      run.output<std::int64_t>({1, 1},
                               [&] { Output().store(reduce_sum(reduce_sum(tile::iota({extent, extent}, 0), 0), 1)); });
    });
  }
}

}  // namespace
}  // namespace tessera
