#include "compile/cpu/llvm/widths.hpp"

#include "compile/cpu/llvm/lane_analysis.hpp"
#include "ir/builder.hpp"
#include "ir/ranges.hpp"
#include "tile/trace.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

namespace tessera::compile::cpu {
namespace {

using ir::Type;
using tile::Input;
using tile::Output;
using tile::Tile;

// A program that stores a function of the elements of x, a row of u8.
ir::Program program_of(Type stored, const std::function<Tile(const Tile&)>& make) {
  return tile::trace("test", {{"z", stored, {-1}}, {"x", Type::u8, {-1}}}, {{"weight", Type::s32}}, [&] {
    const Output z;
    z.store(make(tile::load_like(Input(0), z)));
  });
}

Tile u32_of(const Tile& x) { return tile::cast<std::uint32_t>(x); }
Tile s32_of(const Tile& x) { return tile::cast<std::int32_t>(x); }

Range range_of_u32(const std::function<Tile(const Tile&)>& make) {
  const ir::Program program = program_of(Type::u32, [&](const Tile& x) { return make(u32_of(x)); });
  return ir::find_ranges(program)[static_cast<std::size_t>(program.stored())];
}
Range range_of_s32(const std::function<Tile(const Tile&)>& make) {
  const ir::Program program = program_of(Type::s32, [&](const Tile& x) { return make(s32_of(x)); });
  return ir::find_ranges(program)[static_cast<std::size_t>(program.stored())];
}

constexpr Range all_u32 = {0, std::numeric_limits<std::uint32_t>::max()};
constexpr Range all_s32 = {std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()};

TEST(Ranges, Of_sums_and_products_follow_from_their_operands) {
  EXPECT_EQ(range_of_u32([](const Tile& x) { return x; }), (Range{0, 255}));
  EXPECT_EQ(range_of_u32([](const Tile& x) { return x * 70 + 5; }), (Range{5, 17855}));
  EXPECT_EQ(range_of_s32([](const Tile& x) { return 10 - x; }), (Range{-245, 10}));
  EXPECT_EQ(range_of_s32([](const Tile& x) { return (x - 100) * (x - 50); }), (Range{-20500, 31775}));
  EXPECT_EQ(range_of_s32([](const Tile& x) { return tile::abs(x - 100); }), (Range{0, 155}));
  EXPECT_EQ(range_of_s32([](const Tile& x) { return -x; }), (Range{-255, 0}));
}

TEST(Ranges, Of_values_that_wrap_around_are_those_of_the_type) {
  EXPECT_EQ(range_of_u32([](const Tile& x) { return x - 1; }), all_u32);
  EXPECT_EQ(range_of_u32([](const Tile& x) { return x << 25; }), all_u32);
  EXPECT_EQ(range_of_s32([](const Tile& x) { return x * 10000000; }), all_s32);
  const Range least = range_of_s32([](const Tile& x) { return tile::abs(x * 10000000); });
  EXPECT_EQ(least, all_s32) << "abs of the least number is itself";
}

TEST(Ranges, Of_shifts_masks_and_bounds) {
  EXPECT_EQ(range_of_u32([](const Tile& x) { return x << 8; }), (Range{0, 65280}));
  EXPECT_EQ(range_of_u32([](const Tile& x) { return (x << 8) >> 4; }), (Range{0, 4080}));
  EXPECT_EQ(range_of_s32([](const Tile& x) { return (x - 128) >> 1; }), (Range{-64, 63}));
  EXPECT_EQ(range_of_u32([](const Tile& x) { return (x - 1) & 65535; }), (Range{0, 65535}));
  EXPECT_EQ(range_of_u32([](const Tile& x) { return x ^ 256; }), (Range{0, 511}));
  EXPECT_EQ(range_of_s32([](const Tile& x) { return tile::min(tile::max(x - 100, -3), 7); }), (Range{-3, 7}));
  EXPECT_EQ(range_of_u32([](const Tile& x) { return (x * 1000) % 7; }), (Range{0, 6}));
  EXPECT_EQ(range_of_s32([](const Tile& x) { return (x - 100) / 10; }), (Range{-10, 15}));
}

TEST(Ranges, Need_8_16_32_or_64_bits) {
  EXPECT_EQ(bits_for({0, 255}), 8);
  EXPECT_EQ(bits_for({-1, 127}), 8);
  EXPECT_EQ(bits_for({-1, 128}), 16);
  EXPECT_EQ(bits_for({0, 65535}), 16);
  EXPECT_EQ(bits_for({0, 65536}), 32);
  EXPECT_EQ(bits_for(all_u32), 32);
  EXPECT_EQ(bits_for({-1, 4294967295}), 64);
}

// What is known about a launch makes extents, scalars and loop counts exact.
TEST(Ranges, Of_one_launch_follow_from_its_dims_and_scalars) {
  ir::Builder make("test", {{"z", Type::f32, {-1, 4}}, {"x", Type::f32, {-1}}}, {{"n", Type::s64}, {"f", Type::f32}});
  const ir::Id rows = make.dim(0, 0), length = make.dim(1, 0), tile = make.tile_dim(0);
  const ir::Id area = make.binary(ir::Code::mul, make.binary(ir::Code::mul, rows, length), make.index(4));
  const ir::Id n = make.scalar(0), whole = make.convert(ir::Code::nearest, Type::s64, make.scalar(1));
  const ir::Id chosen = make.select(make.binary(ir::Code::lt, n, length), n, length);
  const std::int64_t dims[] = {30, 4, 7};
  const std::uint64_t scalars[] = {5, std::bit_cast<std::uint64_t>(2.5)};
  const std::int64_t extents[] = {8, 0};
  const ir::Facts facts{.dims = dims, .scalars = scalars, .tile = extents};
  const auto range = [&](ir::Id id, const ir::Facts& of) { return ir::find_range(make.program(), id, of); };
  EXPECT_EQ(range(area, facts), (Range{840, 840}));
  EXPECT_EQ(range(tile, facts), (Range{8, 8}));
  EXPECT_EQ(range(make.tile_dim(1), facts), (Range{4, 4}));
  EXPECT_EQ(range(make.origin(0), facts), (Range{0, 29}));
  EXPECT_EQ(range(chosen, facts), (Range{5, 5}));
  EXPECT_EQ(range(whole, facts), (Range{3, 3}));
  EXPECT_EQ(range(rows, {}), (Range{0, std::numeric_limits<std::int64_t>::max()}));
  EXPECT_EQ(range(area, {}), Range{}) << "it may overflow";
}

TEST(Ranges, Of_quotients_and_remainders_hold_for_every_divisor) {
  const auto with = [](ir::Code code, const Range& a, const Range& b) {
    ir::Builder make("test", {{"z", Type::s64, {}}}, {{"a", Type::s64}, {"b", Type::s64}});
    const ir::Id id = make.binary(code, make.scalar(0), make.scalar(1));
    return ir::range_of_op(make.program(), make[id], {},
                           [&](ir::Id operand) { return make[operand].index == 0 ? a : b; });
  };
  EXPECT_EQ(with(ir::Code::div, {-9, 20}, {2, 4}), (Range{-4, 10}));
  EXPECT_EQ(with(ir::Code::div, {-9, 20}, {-1, 4}), (Range{-20, 20}));
  EXPECT_EQ(with(ir::Code::div, {3, 20}, {0, 4}), (Range{0, 20}));
  EXPECT_EQ(with(ir::Code::div, {3, 20}, {0, 0}), (Range{0, 0}));
  EXPECT_EQ(with(ir::Code::div, Range{}, {-1, 1}), Range{}) << "the least number by -1 wraps around";
  EXPECT_EQ(with(ir::Code::rem, {-9, 20}, {-4, 3}), (Range{-3, 3}));
  EXPECT_EQ(with(ir::Code::rem, {0, 2}, {5, 9}), (Range{0, 2}));
  EXPECT_EQ(with(ir::Code::rem, {7, 7}, {0, 0}), (Range{0, 0}));
  EXPECT_EQ(with(ir::Code::bit_xor, {-3, 4}, {0, 9}), (Range{-16, 15}));
  EXPECT_EQ(with(ir::Code::shr, {-64, 64}, {1, 3}), (Range{-32, 32}));
}

// Of the widest vectors of a program that stores u8.
int lane_bits(const std::function<Tile(const Tile&)>& make) {
  const ir::Program program = program_of(Type::u8, [&](const Tile& x) { return tile::cast<std::uint8_t>(make(x)); });
  return LaneAnalysis(program, Tiling{{16384}}, false, false).lane_bits;
}

TEST(Widths, Are_those_that_the_ranges_need) {
  EXPECT_EQ(lane_bits([](const Tile& x) { return x; }), 8);
  EXPECT_EQ(lane_bits([](const Tile& x) { return (u32_of(x) * 255 + 128) >> 8; }), 16);
  EXPECT_EQ(lane_bits([](const Tile& x) { return (u32_of(x) * 300) >> 1; }), 32);
  EXPECT_EQ(lane_bits([](const Tile& x) { return s32_of(x) * 2 - 300; }), 16);
}

TEST(Widths, Are_those_that_users_need) {
  // Only the lower 16 bits of the product are used.
  EXPECT_EQ(lane_bits([](const Tile& x) { return ((u32_of(x) * 70000 + 9) & 65535) >> 8; }), 16);
  EXPECT_EQ(lane_bits([](const Tile& x) { return (u32_of(x) * 70000 + 9) >> 8; }), 32);
}

TEST(Widths, Of_the_upper_half_of_a_product_and_of_a_mean_are_those_of_their_operands) {
  const auto h = [](const Tile& x) { return u32_of(x) * 256; };
  EXPECT_EQ(lane_bits([&](const Tile& x) { return h(x) * 70 >> 8; }), 16);
  EXPECT_EQ(lane_bits([&](const Tile& x) { return h(x) * 257 >> 8; }), 32) << "257 * 256 does not fit 16 bits";
  EXPECT_EQ(lane_bits([&](const Tile& x) { return h(x) * (h(x) + 255) >> 16; }), 16);
  EXPECT_EQ(lane_bits([&](const Tile& x) { return h(x) * (h(x) + 256) >> 16; }), 32);
  EXPECT_EQ(lane_bits([&](const Tile& x) { return (s32_of(x) * 128 - 99) * (s32_of(x) - 128) >> 16; }), 16);
  EXPECT_EQ(lane_bits([&](const Tile& x) { return (s32_of(x) * 128 - 99) * (s32_of(x) - 128) >> 15; }), 32);
  EXPECT_EQ(lane_bits([&](const Tile& x) { return (h(x) + (h(x) ^ 77) + 1) >> 1; }), 16);
  EXPECT_EQ(lane_bits([&](const Tile& x) { return (h(x) + (h(x) ^ 77) + 2) >> 1; }), 32);
}

TEST(Widths, Of_a_sum_of_products_that_is_shifted_are_those_of_its_factors) {
  const auto sum = [](const Tile& x, int factor, int shift) {
    return (u32_of(x) * factor + (u32_of(x) ^ 77) * 19235 + 16384) >> shift;
  };
  EXPECT_EQ(lane_bits([&](const Tile& x) { return sum(x, 9798, 15); }), 16);
  EXPECT_EQ(lane_bits([&](const Tile& x) { return sum(x, 32767, 15); }), 16);
  EXPECT_EQ(lane_bits([&](const Tile& x) { return sum(x, 32768, 15); }), 32) << "the factor has 17 bits with its sign";
  EXPECT_EQ(lane_bits([&](const Tile& x) { return sum(x, 9798, 6); }), 32) << "the result has 17 bits";
  EXPECT_EQ(lane_bits([&](const Tile& x) { return (u32_of(x) * 300 + 5) >> 1; }), 32) << "one product";
  const auto weighted = [&](const Tile& x, const Tile& weight) { return (s32_of(x) * weight - s32_of(x) * 300) >> 8; };
  const auto small = [] { return tile::min(tile::max(tile::detail::scalar(0), -99), 32767); };
  EXPECT_EQ(lane_bits([&](const Tile& x) { return weighted(x, small()); }), 16);
  EXPECT_EQ(lane_bits([&](const Tile& x) { return weighted(x, tile::detail::scalar(0)); }), 32) << "any weight";
  const auto bounded = [&](const Tile& x, int most) {
    return tile::min(tile::max((s32_of(x) * small() - s32_of(x) * 300) >> 3, -32768), most);
  };
  EXPECT_EQ(lane_bits([&](const Tile& x) { return bounded(x, 32767); }), 16) << "what 16 bits hold";
  EXPECT_EQ(lane_bits([&](const Tile& x) { return bounded(x, 32766); }), 32) << "other bounds";
  const auto difference = [](const Tile& x) { return (s32_of(x) * -300 + (s32_of(x) - 255) * 128 + 9) >> 3; };
  EXPECT_EQ(lane_bits(difference), 16);
}

// Whether a program that stores u8 has a sum of products of bytes.
bool has_byte_sum(const std::function<Tile(const Tile&)>& make) {
  const ir::Program program = program_of(Type::u8, [&](const Tile& x) { return tile::cast<std::uint8_t>(make(x)); });
  return LaneAnalysis(program, Tiling{{16384}}, true, false).has_byte_sum(program.stored());
}

TEST(Widths, Of_a_sum_of_products_of_bytes_are_8_where_its_lower_16_bits_are_wanted) {
  const auto pixel = [](const Tile& x, int offset) { return s32_of(x ^ offset) - 128; };
  const auto small = [] { return tile::min(tile::max(tile::detail::scalar(0), 0), 127); };
  const auto sum = [&](const Tile& x, const Tile& weight) {
    return (pixel(x, 0) + pixel(x, 1)) * weight + pixel(x, 2) * 70;
  };
  const auto low = [](const Tile& all) { return (((all + 32768) & 65535) - 32768) >> 8; };
  EXPECT_TRUE(has_byte_sum([&](const Tile& x) { return low(sum(x, small())); }));
  EXPECT_TRUE(has_byte_sum([&](const Tile& x) { return low(s32_of(x) + s32_of(x ^ 1) * 3 + s32_of(x ^ 2)); }));
  EXPECT_FALSE(has_byte_sum([&](const Tile& x) { return sum(x, small()) >> 8; })) << "more than 16 bits";
  EXPECT_FALSE(has_byte_sum([&](const Tile& x) { return low(sum(x, small() + 1)); })) << "a weight of 128";
  EXPECT_FALSE(has_byte_sum([&](const Tile& x) { return low(sum(x, -small())); })) << "a weight below 0";
  EXPECT_FALSE(has_byte_sum([&](const Tile& x) { return low(pixel(x, 0) * 3 + pixel(x, 1)); })) << "two terms";
  EXPECT_FALSE(has_byte_sum([&](const Tile& x) { return low(pixel(x, 0) + pixel(x, 1) + s32_of(x) * s32_of(x)); }))
      << "a product of two values";
}

}  // namespace
}  // namespace tessera::compile::cpu
