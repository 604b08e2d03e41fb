#include "ir/builder.hpp"

#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <optional>

namespace tessera::ir {
namespace {

using test::expect_error;

class Building : public testing::Test {
 protected:
  Builder make{
      "test", {{"z", Type::f32, {-1, -1}}, {"x", Type::f32, {-1, -1}}, {"y", Type::s32, {-1, 7}}}, {{"a", Type::f32}}};

  // Any tile of this type and shape.
  Id tile(Type type, const Extents& shape) {
    return make.broadcast(is_float(type) ? make.number(type, 1) : make.integer(type, 1), shape);
  }
  std::optional<std::int64_t> constant(Id id) {
    std::int64_t value = 0;
    return is_constant(make.program(), id, value) ? std::optional(value) : std::nullopt;
  }
};

TEST_F(Building, The_same_op_on_the_same_operands_is_the_same_value) {
  const Id a = make.tile_dim(0);
  EXPECT_EQ(make.tile_dim(0), a);
  EXPECT_NE(make.tile_dim(1), a);
  EXPECT_EQ(make.iota({a}, 0), make.iota({a}, 0));
  const Id index = make.iota({a}, 0);
  const Id loaded = make.load(1, {index, index}, Border::zero);
  EXPECT_EQ(make.load(1, {index, index}, Border::zero), loaded);
  EXPECT_NE(make.load(1, {index, index}, Border::clamp), loaded);
  EXPECT_EQ(make.unary(Code::exp, loaded), make.unary(Code::exp, loaded));
}

TEST_F(Building, Constants_of_different_types_or_bits_differ) {
  EXPECT_EQ(make.number(Type::f32, 0.1), make.number(Type::f32, static_cast<double>(0.1F)));
  EXPECT_NE(make.number(Type::f32, 1), make.number(Type::f64, 1));
  EXPECT_NE(make.number(Type::f32, 0.0), make.number(Type::f32, -0.0));
  EXPECT_NE(make.integer(Type::s32, 1), make.integer(Type::s64, 1));
}

TEST_F(Building, Integer_arithmetic_is_folded) {
  const auto of = [&](Code code, std::int64_t a, std::int64_t b) {
    return constant(make.binary(code, make.index(a), make.index(b)));
  };
  EXPECT_EQ(of(Code::add, 2, 3), 5);
  EXPECT_EQ(of(Code::sub, 2, 3), -1);
  EXPECT_EQ(of(Code::mul, 2, 3), 6);
  EXPECT_EQ(of(Code::div, 7, 2), 3);
  EXPECT_EQ(of(Code::div, 7, 0), 0);
  EXPECT_EQ(of(Code::rem, -7, 4), -3);
  EXPECT_EQ(of(Code::min, 2, 3), 2);
  EXPECT_EQ(of(Code::max, 2, 3), 3);
  EXPECT_EQ(of(Code::lt, 2, 3), 1);
  EXPECT_EQ(of(Code::add, std::numeric_limits<std::int64_t>::max(), 1), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(constant(make.unary(Code::neg, make.index(4))), -4);
}

TEST_F(Building, Operations_without_effect_are_omitted) {
  const Id n = make.dim(1, 0);
  const Id zero = make.index(0);
  const Id one = make.index(1);
  EXPECT_EQ(make.binary(Code::add, n, zero), n);
  EXPECT_EQ(make.binary(Code::add, zero, n), n);
  EXPECT_EQ(make.binary(Code::sub, n, zero), n);
  EXPECT_EQ(make.binary(Code::sub, n, n), zero);
  EXPECT_EQ(make.binary(Code::mul, one, n), n);
  EXPECT_EQ(make.binary(Code::mul, n, zero), zero);
  EXPECT_EQ(make.binary(Code::div, n, one), n);
  EXPECT_EQ(make.binary(Code::min, n, n), n);
  EXPECT_NE(make.binary(Code::sub, zero, n), n);
  EXPECT_EQ(make.select(make.binary(Code::eq, one, one), n, zero), n);
}

TEST_F(Building, The_number_of_a_tile_times_its_extent_is_its_origin) {
  EXPECT_EQ(make.binary(Code::mul, make.block(1), make.tile_dim(1)), make.origin(1));
  EXPECT_EQ(make.binary(Code::mul, make.tile_dim(1), make.block(1)), make.origin(1));
  EXPECT_NE(make.binary(Code::mul, make.block(0), make.tile_dim(1)), make.origin(0));
}

TEST_F(Building, Known_extents_of_buffers_are_constants) {
  EXPECT_EQ(constant(make.dim(2, 1)), 7);
  EXPECT_EQ(constant(make.dim(2, 0)), std::nullopt);
}

TEST_F(Building, Conversions_and_moves_without_effect_are_omitted) {
  const Id a = tile(Type::f32, {make.tile_dim(0), make.index(3)});
  EXPECT_EQ(make.convert(Code::convert, Type::f32, a), a);
  EXPECT_EQ(make.broadcast(a, make[a].shape), a);
  EXPECT_EQ(make.reshape(a, make[a].shape), a);
  EXPECT_EQ(make.transpose(a, {0, 1}), a);
}

TEST_F(Building, Shapes_broadcast_as_in_numpy) {
  const Id rows = make.tile_dim(0);
  const Id columns = make.tile_dim(1);
  const Id one = make.index(1);
  const Id column = tile(Type::f32, {rows, one});
  const Id row = tile(Type::f32, {columns});
  EXPECT_EQ(make[make.binary(Code::add, column, row)].shape, (Extents{rows, columns}));
  EXPECT_EQ(make[make.binary(Code::add, row, make.number(Type::f32, 1))].shape, (Extents{columns}));
}

TEST_F(Building, Shapes_that_may_differ_do_not_broadcast) {
  const Id rows = make.tile_dim(0);
  const Id a = tile(Type::f32, {rows, make.index(16)});
  const Id b = tile(Type::f32, {rows, make.dim(1, 1)});
  expect_error(Errc::invalid_kernel,
               "[test] tiles of shape [tile 0, 16] and [tile 0, dim 1 of x] cannot be broadcast together",
               [&] { make.binary(Code::add, a, b); });
  const Id c = tile(Type::f32, {rows, make.index(17)});
  expect_error(Errc::invalid_kernel, "[tile 0, 16] and [tile 0, 17] cannot be broadcast together",
               [&] { make.binary(Code::mul, a, c); });
  expect_error(Errc::invalid_kernel, "a tile of shape [tile 0, 16] cannot be broadcast to [tile 0, 17]",
               [&] { make.broadcast(a, make[c].shape); });
}

TEST_F(Building, Messages_show_extents_as_they_were_computed) {
  const Id n = make.binary(Code::div, make.binary(Code::add, make.dim(1, 0), make.index(3)), make.index(4));
  const Id a = tile(Type::f32, {make.binary(Code::min, n, make.tile_dim(1))});
  EXPECT_EQ(value_text(make.program(), a), "f32[min((dim 0 of x + 3) / 4, tile 1)]");
}

TEST_F(Building, Operands_must_have_the_same_type) {
  const Id f = make.number(Type::f32, 1);
  const Id i = make.integer(Type::s32, 1);
  expect_error(Errc::invalid_kernel, "[test] f32 + s32: tiles must have the same type to be combined; cast<T>() one",
               [&] { make.binary(Code::add, f, i); });
  expect_error(Errc::invalid_kernel, "fma(f32, f32, s32)", [&] { make.fma(f, f, i); });
  expect_error(Errc::invalid_kernel, "exp(s32): it takes floats; cast<float>() the operand",
               [&] { make.unary(Code::exp, i); });
  expect_error(Errc::invalid_kernel, "f32 << f32: it takes integers", [&] { make.binary(Code::shl, f, f); });
  expect_error(Errc::invalid_kernel, "f32 & f32", [&] { make.binary(Code::bit_and, f, f); });
  const Id truth = make.binary(Code::lt, f, f);
  EXPECT_EQ(make[truth].type, Type::boolean);
  expect_error(Errc::invalid_kernel, "bool + bool: a comparison's result works with select",
               [&] { make.binary(Code::add, truth, truth); });
  expect_error(Errc::invalid_kernel, "the condition must be the result of a comparison", [&] { make.select(f, f, f); });
}

TEST_F(Building, Reshape_needs_the_same_number_of_elements) {
  const Id rows = make.tile_dim(0);
  const Id a = tile(Type::f32, {rows, make.index(12)});
  EXPECT_EQ(make[make.reshape(a, {make.index(3), rows, make.index(4)})].shape.size(), 3U);
  EXPECT_EQ(make[make.reshape(a, {make.binary(Code::mul, make.index(12), rows)})].shape.size(), 1U);
  expect_error(Errc::invalid_kernel, "[tile 0, 12] cannot be reshaped to [tile 0, 13]",
               [&] { make.reshape(a, {rows, make.index(13)}); });
  expect_error(Errc::invalid_kernel, "[tile 0, 12] cannot be reshaped to [tile 1, 12]",
               [&] { make.reshape(a, {make.tile_dim(1), make.index(12)}); });
}

TEST_F(Building, Matrices_must_have_matching_shapes) {
  const Id m = make.tile_dim(0);
  const Id n = make.tile_dim(1);
  const Id k = make.index(16);
  const Id a = tile(Type::f32, {m, k});
  const Id b = tile(Type::f32, {k, n});
  const Id c = tile(Type::f32, {m, n});
  EXPECT_EQ(make[make.mma(a, b, c)].shape, (Extents{m, n}));
  expect_error(Errc::invalid_kernel,
               "mma of [16, tile 1], [tile 0, 16] and the sum [tile 0, tile 1]: they must be [m, k], [k, n] and [m, n]",
               [&] { make.mma(b, a, c); });
  expect_error(Errc::invalid_kernel, "each needs at least two axes",
               [&] { make.mma(a, b, make.number(Type::f32, 0)); });
  const Id batch = make.index(3);
  const Id batched = tile(Type::f32, {batch, m, k});
  const Id sum = tile(Type::f32, {batch, m, n});
  EXPECT_EQ(make[make.mma(batched, b, sum)].shape, (Extents{batch, m, n}));
  expect_error(Errc::invalid_kernel, "the batch axes must be those of the sum, or 1", [&] { make.mma(batched, b, c); });
}

TEST_F(Building, Extents_are_known_before_a_tile_is_computed) {
  const Id index = make.index(0);
  const Id read = make.convert(Code::convert, Type::s64, make.load(2, {index, index}, Border::zero));
  expect_error(Errc::invalid_kernel, "must be computed from constants, dim() and tile_dim() only",
               [&] { make.iota({read}, 0); });
  expect_error(Errc::invalid_kernel, "cannot be negative, got -2", [&] { make.iota({make.index(-2)}, 0); });
  expect_error(Errc::invalid_kernel, "must be of type s64, got s32",
               [&] { make.iota({make.integer(Type::s32, 2)}, 0); });
}

TEST_F(Building, A_load_takes_an_index_for_each_axis) {
  const Id index = make.index(0);
  expect_error(Errc::invalid_kernel, "x has 2 axes, got 1 index", [&] { make.load(1, {index}, Border::zero); });
  expect_error(Errc::invalid_kernel, "an index must be of type s64, got f32",
               [&] { make.load(1, {index, make.number(Type::f32, 1)}, Border::zero); });
}

TEST_F(Building, A_loop_uses_outer_values_and_its_own_are_not_visible_outside) {
  const Id outer = make.tile_dim(0);
  make.begin_loop(make.index(3), {make.index(0)});
  EXPECT_EQ(make.tile_dim(0), outer);
  const Id inner = make.tile_dim(1);
  EXPECT_EQ(make.tile_dim(1), inner);
  const std::vector<Id> arguments = make.arguments();
  const Id next = make.binary(Code::add, arguments[1], inner);
  const Id result = make.end_loop({next})[0];
  EXPECT_FALSE(make.is_visible(inner));
  EXPECT_NE(make.tile_dim(1), inner);
  EXPECT_EQ(make[result].code, Code::result);
  EXPECT_EQ(make.program().regions[1].loop, make[result].operands[0]);
}

TEST_F(Building, A_loop_returns_values_of_the_carried_types) {
  make.begin_loop(make.index(3), {make.index(0)});
  const Id other = make.number(Type::f32, 0);
  expect_error(Errc::invalid_kernel, "a loop carries a tile of s64, but its body returns one of f32",
               [&] { make.end_loop({other}); });
}

TEST_F(Building, The_stored_tile_has_the_outputs_type_and_shape) {
  expect_error(Errc::invalid_kernel, "the output z is f32, but the stored tile is s32: cast<T>() it", [&] {
    const Id value = make.integer(Type::s32, 1);
    std::move(make).store(value);
  });
}

}  // namespace
}  // namespace tessera::ir
