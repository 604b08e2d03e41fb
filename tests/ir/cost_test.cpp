// How much work a launch is.
#include "ir/cost.hpp"

#include "tile/trace.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace tessera::ir {
namespace {

using tile::Input;
using tile::Output;

std::int64_t steps_of(const Program& program, const std::vector<std::int64_t>& dims) { return steps(program, dims); }

Program summing(const std::function<tile::Index()>& count) {
  return tile::trace("count", {{"z", Type::s64, {-1}}, {"x", Type::f32, {-1, -1}}}, {{"n", Type::s64}}, [&] {
    Output().store(tile::loop(count(), 0, [](const tile::Index& k, const tile::Tile& sum) { return sum + k; }));
  });
}

TEST(Cost, A_pointwise_program_takes_as_many_steps_as_it_has_points) {
  const Program program = tile::trace("scale", {{"z", Type::f32, {-1}}, {"x", Type::f32, {-1}}}, {},
                                      [] { Output().store(tile::load_like(Input(0), Output()) * 2); });
  const std::int64_t one = steps_of(program, {100, 100}), two = steps_of(program, {1100, 1100});
  EXPECT_GT(one, 100);
  EXPECT_EQ((two - one) % 1000, 0);
  EXPECT_EQ(cost(program, std::vector<std::int64_t>{1000, 1000}, 8000), 8000);
}

TEST(Cost, A_loop_repeats_its_body) {
  EXPECT_GT(steps_of(summing([] { return tile::Index(1'000'000); }), {1, 1, 1}), 1'000'000);
  const Program by_dim = summing([] { return Input(0).dim(1); });
  EXPECT_LT(steps_of(by_dim, {1, 1, 10}), 100);
  EXPECT_GT(steps_of(by_dim, {1, 1, 1'000'000}), 1'000'000);
  const Program by_product = summing([] { return Input(0).dim(0) * Input(0).dim(1); });
  EXPECT_GT(steps_of(by_product, {1, 1000, 1000}), 1'000'000);
  EXPECT_GT(cost(by_product, std::vector<std::int64_t>{1, 1000, 1000}, 8), 100'000);
}

TEST(Cost, Nested_loops_saturate) {
  const Program program = tile::trace("nested", {{"z", Type::s64, {-1}}}, {}, [] {
    const tile::Index many = std::int64_t{1} << 40;
    const auto inner = [&](const tile::Index&, const tile::Tile& sum) {
      return tile::loop(many, sum, [](const tile::Index& k, const tile::Tile& inside) { return inside + k; });
    };
    Output().store(tile::loop(many, 0, inner));
  });
  EXPECT_EQ(steps_of(program, {1}), unlimited);
}

TEST(Cost, A_count_that_the_extents_do_not_tell_is_unlimited) {
  const Program program = summing([] { return tile::Index(tile::detail::scalar(0)); });
  EXPECT_EQ(steps_of(program, {1, 1, 1}), unlimited);
  EXPECT_EQ(cost(program, std::vector<std::int64_t>{1, 1, 1}, 8), unlimited);
}

TEST(Cost, Tiles_that_the_caller_chose_are_counted) {
  Program program = summing([] { return Input(0).dim(1); });
  program.tile = {1};
  EXPECT_GT(steps_of(program, {1000, 1, 1000}), 1'000'000);
}

}  // namespace
}  // namespace tessera::ir
