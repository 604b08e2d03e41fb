#include "ir/builder.hpp"
#include "ir/ir.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <source_location>
#include <string_view>

namespace tessera::ir {
namespace {

using test::expect_error;

// z = exp(x) along the first axis of x, with a loop that adds it up three times.
Program good() {
  Builder make("test", {{"z", Type::f32, {-1}}, {"x", Type::f32, {-1, 1}}}, {{"a", Type::f32}});
  const Id extent = make.tile_dim(0);
  const Id index = make.binary(Code::add, make.origin(0), make.iota({extent}, 0));
  const Id x = make.load(1, {index, make.index(0)}, Border::zero);
  const Id zero = make.broadcast(make.number(Type::f32, 0), {extent});
  make.begin_loop(make.index(3), {zero});
  const Id sum = make.arguments()[1];
  const Id result = make.end_loop({make.binary(Code::add, sum, make.unary(Code::exp, x))})[0];
  make.same_extent({1, 0, 0});
  return std::move(make).store(result);
}

Op& op_of(Program& program, Code code) { return *std::ranges::find(program.ops, code, &Op::code); }
Id id_of(Program& program, Code code) { return static_cast<Id>(&op_of(program, code) - program.ops.data()); }

void expect_refused(std::string_view words, const std::function<void(Program&)>& change,
                    const std::source_location where = std::source_location::current()) {
  Program program = good();
  change(program);
  expect_error(Errc::invalid_kernel, words, [&] { verify(program); }, where);
}

TEST(Verify, Accepts_a_valid_program) { EXPECT_NO_THROW(verify(good())); }

TEST(Verify, Names_the_kernel_and_the_op) {
  expect_refused("[test] %", [](Program& p) { op_of(p, Code::exp).type = Type::f64; });
  expect_refused("(exp): its type must be f32", [](Program& p) { op_of(p, Code::exp).type = Type::f64; });
}

TEST(Verify, Refuses_an_empty_program) {
  expect_error(Errc::invalid_kernel, "it has no output", [] { verify(Program{}); });
  expect_refused("it has no ops", [](Program& p) { p.regions[0].ops.clear(); });
}

TEST(Verify, Refuses_values_that_are_used_before_they_are_computed) {
  expect_refused("which is not computed before it", [](Program& p) { op_of(p, Code::exp).operands[0] = 1000; });
  expect_refused("which is not computed before it", [](Program& p) { op_of(p, Code::exp).operands[0] = -1; });
  expect_refused("which is not computed before it",
                 [](Program& p) { op_of(p, Code::load).operands[0] = id_of(p, Code::exp); });
}

TEST(Verify, Refuses_values_from_inside_of_a_loop) {
  expect_refused("which is computed inside a loop",
                 [](Program& p) { op_of(p, Code::store).operands[0] = id_of(p, Code::exp); });
}

TEST(Verify, Refuses_ops_in_no_region_or_in_two) {
  expect_refused("it is in no region", [](Program& p) { p.regions[1].ops.pop_back(); });
  expect_refused("it is in two regions", [](Program& p) { p.regions[1].ops.push_back(p.regions[1].ops.back()); });
  expect_refused("listed in a region other than its own", [](Program& p) { op_of(p, Code::exp).region = 0; });
  expect_refused("out of order", [](Program& p) { std::swap(p.regions[0].ops[0], p.regions[0].ops[1]); });
}

TEST(Verify, Refuses_references_to_nothing) {
  expect_refused("there is no such input", [](Program& p) { op_of(p, Code::load).index = 0; });
  expect_refused("there is no such input", [](Program& p) { op_of(p, Code::load).index = 2; });
  expect_refused("there is no such axis", [](Program& p) { op_of(p, Code::tile_dim).axis = 1; });
  expect_refused("there is no such axis", [](Program& p) { op_of(p, Code::iota).axis = -1; });
  expect_refused("an equal-extent rule names an axis that does not exist",
                 [](Program& p) { p.same_extents[0].axis = 2; });
  expect_refused("an equal-extent rule has the factor 0", [](Program& p) { p.same_extents[0].factor = 0; });
}

TEST(Verify, Refuses_wrong_counts_types_and_shapes) {
  expect_refused("it takes an index for each axis", [](Program& p) { op_of(p, Code::load).operands.pop_back(); });
  expect_refused("it takes 1 operands", [](Program& p) { op_of(p, Code::exp).operands.clear(); });
  expect_refused("its shape must be that of its operands", [](Program& p) { op_of(p, Code::exp).shape.clear(); });
  expect_refused("its type must be the buffer's", [](Program& p) { op_of(p, Code::load).type = Type::f64; });
  expect_refused("it takes a step for each axis", [](Program& p) { op_of(p, Code::load).list = {1}; });
  expect_refused("a step must be 1 or more", [](Program& p) { op_of(p, Code::load).list = {1, 0}; });
}

TEST(Verify, Refuses_loops_with_mismatched_bodies) {
  expect_refused("its body must take and return the carried values", [](Program& p) { p.regions[1].results.clear(); });
  expect_refused("its body belongs to another loop", [](Program& p) { p.regions[1].loop = 0; });
  expect_refused("it carries a tile of f32[tile 0], but its body returns one of s64",
                 [](Program& p) { p.regions[1].results[0] = p.regions[1].arguments[0]; });
}

TEST(Verify, Refuses_all_but_one_store_at_the_end) {
  expect_refused("the output must be stored once, at the end", [](Program& p) {
    Op& store = op_of(p, Code::store);
    store.code = Code::neg;
  });
  expect_refused("its shape must be that of the tile", [](Program& p) { op_of(p, Code::store).shape.clear(); });
}

TEST(Verify, Refuses_tiles_of_another_rank_than_the_output) {
  expect_refused("the tile has 2 extents, but the output has 1 axis", [](Program& p) { p.tile = {4, 4}; });
  expect_refused("the tile has a negative extent, -4", [](Program& p) { p.tile = {-4}; });
}

}  // namespace
}  // namespace tessera::ir
