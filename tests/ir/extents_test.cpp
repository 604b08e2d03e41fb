#include "ir/extents.hpp"

#include "ir/known_numbers.hpp"
#include "support/expect_error.hpp"
#include "support/interpreted.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

namespace tessera {
namespace {

using test::Dims;
using test::expect_error;
using test::Interpreted;
using tile::Index;
using tile::Input;
using tile::Output;
using tile::Tile;

constexpr std::int64_t huge = std::int64_t{1} << 40;

Tile total(Tile x) {
  for (int axis = 0; axis < x.rank(); ++axis) x = reduce_sum(x, axis);
  return x;
}

// The program of a kernel with z f32[1,1], x f32[?,?] and y f32[?].
ir::Program program_of(const std::function<Tile()>& value) {
  return Interpreted()
      .input<float>({4, 4}, std::vector<float>(16, 1.0F))
      .input<float>({9}, std::vector<float>(9))
      .program<float>({1, 1}, [&] { Output().store(value()); });
}
float result_of(const std::function<Tile()>& value) {
  return Interpreted()
      .input<float>({4, 4}, std::vector<float>(16, 1.0F))
      .input<float>({9}, std::vector<float>(9, 1.0F))
      .output<float>({1, 1}, [&] { Output().store(value()); })
      .front();
}

TEST(Extents, Usual_programs_need_no_checks) {
  const auto needs_checks = [](const std::function<Tile()>& value) {
    return !ir::ExtentChecks(program_of(value), Dims{0, 0}).empty();
  };
  const Input x(0);
  const Input y(1);
  EXPECT_FALSE(needs_checks([&] { return total(x.load({x.dim(0), x.dim(1)}, {0, 0})); }));
  EXPECT_FALSE(needs_checks([&] { return total(x.load({x.dim(0) + 2, x.dim(1)}, {0, 0})); }));
  EXPECT_FALSE(needs_checks([&] { return total(x.load({x.dim(0) + 2 + 8, x.dim(1)}, {0, 0})); }));
  EXPECT_FALSE(needs_checks([&] { return total(x.load({16, x.dim(1)}, {0, 0})); }));
  EXPECT_TRUE(needs_checks([&] { return total(x.load({x.dim(0) * 2, x.dim(1)}, {0, 0})); }));
  EXPECT_TRUE(needs_checks([&] { return total(x.load({x.dim(0), x.dim(0)}, {0, 0})); }));
  EXPECT_TRUE(needs_checks([&] { return total(x.load({x.dim(0), y.dim(0)}, {0, 0})); }));
  EXPECT_TRUE(needs_checks([&] { return total(x.load({huge, 1}, {0, 0})); }));
}

TEST(Extents, A_negative_extent_counts_as_0) {
  const Input x(0);
  EXPECT_EQ(result_of([&] { return total(x.load({x.dim(0) - 10, x.dim(1) - 10}, {0, 0})); }), 0);
  EXPECT_EQ(result_of([&] { return total(x.load({x.dim(0) - 1, x.dim(1) - 2}, {0, 0})); }), 6);
}

TEST(Extents, Tiles_that_are_too_large_are_refused) {
  const Input x(0);
  const Input y(1);
  expect_error(Errc::out_of_memory,
               "[test] its tiles do not fit in memory: s64[dim 0 of x * 1099511627776, 1] has the extents "
               "[4398046511104,1]",
               [&] { result_of([&] { return total(x.load({x.dim(0) * huge, x.dim(1)}, {0, 0})); }); });
  // In 32 bits the number of points wraps around to 0.
  expect_error(Errc::out_of_memory, "has the extents [262144,262144]",
               [&] { result_of([&] { return total(x.load({x.dim(0) << 16, x.dim(1) << 16}, {0, 0})); }); });
}

TEST(Extents, That_overflow_are_refused) {
  const Input x(0);
  expect_error(Errc::overflow, "[test] the extent dim 0 of x * 4611686018427387904 of", [&] {
    result_of([&] { return total(x.load({x.dim(0) * (std::int64_t{1} << 62), x.dim(1)}, {0, 0})); });
  });
  expect_error(Errc::overflow, "overflows an s64", [&] {
    result_of([&] {
      const Index most = std::numeric_limits<std::int64_t>::max();
      return total(x.load({x.dim(0) + most, x.dim(1)}, {0, 0}));
    });
  });
}

TEST(Extents, A_reshape_cannot_make_elements_of_negative_extents) {
  const Input x(0);
  expect_error(Errc::shape_mismatch, "= [-6,-5] cannot be reshaped to", [&] {
    result_of([&] {
      const Index rows = x.dim(0) - 10, columns = x.dim(1) - 9;
      return total(reshape(x.load({rows, columns}, {0, 0}), {rows * columns, 1}));
    });
  });
}

TEST(KnownNumbers, Are_those_of_the_interpreter) {
  const auto number = [](const Tile& x) { return tile::broadcast(tile::cast<float>(x), {1, 1}); };
  const std::vector<std::function<Tile()>> values = {
      [] { return Input(0).dim(0) - Input(1).dim(0) + 1; },
      [] { return -Input(1).dim(0) / 2; },
      [] { return Input(1).dim(0) % 4 * 3; },
      [] { return select(Input(0).dim(0) > 3, Input(1).dim(0) << 2, Input(0).dim(1)); },
      [] { return tile::cast<std::int64_t>(sqrt(tile::cast<double>(Input(1).dim(0) * 3))); },
      [] { return tile::round_cast<std::int64_t>(tile::cast<float>(Input(1).dim(0)) / 2.0F); },
      [] { return tile::max(Input(0).dim(0), 7) ^ tile::min(Input(1).dim(0), 3); },
      [] { return abs(Input(0).dim(0) - 20) & 12; },
      [] { return tile::pow(Input(0).dim(0), 3) | 1; },
      [] { return tile::fma(Input(0).dim(0), Input(1).dim(0), Output().tile_dim(0)); },
  };
  const Dims dims = {1, 1, 4, 4, 9}, tile = {0, 0};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const ir::Program program = program_of([&] { return number(values[i]()); });
    const std::vector<bool> is_known = ir::known_at_launch(program);
    // What is converted to the stored float.
    ir::Id id = program.stored();
    while (program[id].type != ir::Type::s64) id = program[id].operands[0];
    ASSERT_TRUE(is_known[static_cast<std::size_t>(id)]) << i;
    const ir::KnownNumbers numbers(program, {&id, 1});
    const auto found = numbers.evaluate({.dims = dims.data(), .tile = tile});
    EXPECT_EQ(static_cast<float>(found[0].value), result_of([&] { return number(values[i]()); })) << i;
    EXPECT_FALSE(found[0].has_overflowed) << i;
  }
}

}  // namespace
}  // namespace tessera
