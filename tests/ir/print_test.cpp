#include "ir/ir.hpp"
#include "tile/trace.hpp"

#include <gtest/gtest.h>

namespace tessera {
namespace {

using ir::Type;
using tile::Input;
using tile::Output;

TEST(Print, Shows_one_op_a_line) {
  const auto program = tile::trace("scale", {{"z", Type::f32, {-1}}, {"x", Type::f32, {-1}}}, {{"a", Type::f32}}, [] {
    const Output z;
    const tile::Tile x = tile::load_shifted(Input(0), z, {1}, tile::Border::clamp);
    z.store(x * tile::detail::scalar(0) + 0.5F);
  });
  EXPECT_EQ(to_string(program),
            "kernel scale(out z: f32[?], x: f32[?]; a: f32)\n"
            "  dim 0 of x is dim 0 of z\n"
            "  %0: s64 = 1\n"
            "  %1: s64 = 0\n"
            "  %2: s64 = origin 0\n"
            "  %3: s64 = tile_dim 0\n"
            "  %4: s64[tile 0] = iota 0\n"
            "  %5: s64[tile 0] = add %2, %4\n"
            "  %6: s64[tile 0] = add %5, %0\n"
            "  %7: f32[tile 0] = load x[%6] clamp\n"
            "  %8: f32 = scalar a\n"
            "  %9: f32[tile 0] = mul %7, %8\n"
            "  %10: f32 = 0.5\n"
            "  %11: f32[tile 0] = add %9, %10\n"
            "  store %11\n");
}

TEST(Print, Indents_loops) {
  const auto program = tile::trace("count", {{"z", Type::s64, {-1}}, {"x", Type::u8, {4, -1}}}, {}, [] {
    const auto n = Input(0).dim(1);
    Output().store(tile::loop(n, 0, [](const tile::Index& k, const tile::Tile& sum) { return sum + k; }));
  });
  EXPECT_EQ(to_string(program),
            "kernel count(out z: s64[?], x: u8[4,?])\n"
            "  %0: s64 = dim 1 of x\n"
            "  %1: s64 = 0\n"
            "  %5 = loop %0 times from (%1)\n"
            "    %2: s64 = counter\n"
            "    %3: s64 = carried 0\n"
            "    %4: s64 = add %3, %2\n"
            "    next (%4)\n"
            "  %6: s64 = result 0 of %5\n"
            "  %7: s64 = tile_dim 0\n"
            "  store %6\n");
}

TEST(Print, Shows_every_attribute) {
  const auto program = tile::trace("all", {{"z", Type::f32, {-1, 3}}, {"x", Type::f32, {2, 3}}}, {},
                                   [] {
                                     const Output z;
                                     const tile::Tile x =
                                         tile::at_steps(Input(0), {tile::iota({2, 1}, 0), tile::iota({1, 3}, 1)},
                                                        tile::Border::wrap, {1, 3});
                                     const tile::Tile t = transpose(slice(x, {0, 1}, {2, 2}));
                                     z.store(tile::reduce_max(reshape(t, {1, 4}), 1));
                                   },
                                   {8, 0});
  const std::string text = to_string(program);
  for (const char* part : {"kernel all(out z: f32[?,3], x: f32[2,3]) tile [8, 0]\n", " wrap steps [1, 3]\n",
                           ": f32[2, 2] = slice %", " from [%", ": f32[2, 2] = transpose %", " [1, 0]\n",
                           ": f32[1, 4] = reshape %", ": f32[1, 1] = reduce_max %", " along 1\n"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "is not in\n" << text;
  }
}

TEST(Print, Shows_numbers_exactly) {
  const auto text = [](double number) {
    return to_string(tile::trace("n", {{"z", Type::f64, {}}}, {}, [&] { Output().store(number); }));
  };
  EXPECT_NE(text(0.1), text(0.1 + 1e-16));
  EXPECT_NE(text(0.0), text(-0.0));
}

}  // namespace
}  // namespace tessera
