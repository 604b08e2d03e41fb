#include "tile/trace.hpp"

#include "compile/compile.hpp"
#include "support/expect_error.hpp"
#include "support/interpreted.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <source_location>
#include <string_view>
#include <thread>
#include <tuple>
#include <vector>

namespace tessera {
namespace {

using ir::Type;
using test::Dims;
using test::expect_error;
using test::Interpreted;
using tile::Border;
using tile::Input;
using tile::Output;
using tile::Tile;

// A program with an f32 output z and inputs x (f32), y (s32) and b (u8), all of rank 2.
ir::Program traced(const std::function<void()>& body) {
  return tile::trace(
      "test",
      {{"z", Type::f32, {-1, -1}}, {"x", Type::f32, {-1, -1}}, {"y", Type::s32, {-1, -1}}, {"b", Type::u8, {-1, 1}}},
      {{"a", Type::f32}}, body);
}

void expect_refused(std::string_view words, const std::function<void()>& body,
                    const std::source_location where = std::source_location::current()) {
  expect_error(Errc::invalid_kernel, words, [&] { traced(body); }, where);
}

Tile x() { return tile::load_like(Input(0), Output()); }
Tile y() { return tile::load_like(Input(1), Output()); }
Tile b() { return tile::load_like(Input(2), Output()); }

TEST(Numbers, Take_the_type_of_the_tile_they_are_combined_with) {
  EXPECT_NO_THROW(traced([] { Output().store(2 * x() + 0.5 - 1U); }));
  EXPECT_NO_THROW(traced([] { Output().store(tile::cast<float>(y() * 2.0)); }));
  EXPECT_NO_THROW(traced([] { Output().store(x() * std::numeric_limits<double>::infinity()); }));
}

TEST(Chains, That_are_too_long_are_refused) {
  const auto store_chain = [](int length) {
    Tile t = x();
    for (int i = 0; i < length; ++i) t = t * 0.999F + 1;
    Output().store(t);
  };
  EXPECT_NO_THROW(traced([&] { store_chain(1900); }));
  expect_refused("dependent operations is too long; at most 4000 are allowed", [&] { store_chain(5000); });
  expect_refused("at most 4000 are allowed", [&] {
    Output().store(tile::loop(2, x(), [&](const tile::Index&, Tile t) {
      for (int i = 0; i < 5000; ++i) t = -(t + 1);
      return t;
    }));
  });
}

TEST(Numbers, That_do_not_fit_are_refused) {
  expect_refused("[test] the number 2.5 does not fit s32, the type of the tile it is combined with", [] { y() * 2.5; });
  expect_refused("the number 300 does not fit u8", [] { b() + 300; });
  expect_refused("the number -1 does not fit u8", [] { b() + -1; });
  expect_refused("the number -1 does not fit u32", [] { tile::cast<std::uint32_t>(x()) + -1; });
  expect_refused("does not fit s64", [] { tile::cast<std::int64_t>(x()) + std::numeric_limits<std::uint64_t>::max(); });
  expect_refused("does not fit f32", [] { x() + 1e300; });
  expect_refused("does not fit s32", [] { y() + std::nan(""); });
}

TEST(Numbers, On_their_own_are_s64_if_whole_and_f32_otherwise) {
  EXPECT_EQ(Interpreted().output<std::int64_t>({1}, [] { Output().store(Tile(7) / Tile(2)); })[0], 3);
  EXPECT_EQ(Interpreted().output<float>({1}, [] { Output().store(Tile(7) / Tile(2.0)); })[0], 3.5F);
  EXPECT_EQ(Interpreted().output<float>({1}, [] { Output().store(sqrt(Tile(4))); })[0], 2);
}

TEST(Numbers, Cannot_be_combined_with_booleans) {
  expect_refused("cannot combine the number 1 with a bool tile", [] { (x() > 0) & 1; });
  expect_refused("cannot combine a bool with an f32 tile", [] { x() * true; });
}

TEST(Types, That_differ_are_refused_with_a_hint) {
  expect_refused("[test] f32 + s32: tiles must have the same type to be combined; cast<T>() one of them",
                 [] { x() + y(); });
  expect_refused("select(bool, f32, s32)", [] { select(x() > 0, x(), y()); });
  expect_refused("exp(s32): it takes floats; cast<float>() the operand", [] { exp(y()); });
  expect_refused("floor(u8)", [] { floor(b()); });
  expect_refused("bool * bool: a comparison's result works with select, &, | and ! only",
                 [] { (x() > 0) * (x() < 1); });
  expect_refused("~ is for integers", [] { ~(x() > 0); });
  expect_refused("! needs a bool, got s32", [] { !y(); });
  expect_refused("the output is f32 but the stored value is s32: cast<T>() it", [] { Output().store(y()); });
  expect_refused("full_like needs f32, got s32", [] { tile::full_like(Output(), tile::constant<std::int32_t>(1)); });
}

TEST(Shapes, That_do_not_fit_are_refused) {
  expect_refused("[test] tiles of shape [tile 0, 16] and [tile 0, dim 1 of x] cannot be broadcast together", [] {
    const Output z;
    const Tile a = Input(0).load({z.tile_dim(0), 16}, {z.block(0), 0});
    a + Input(0).load({z.tile_dim(0), Input(0).dim(1)}, {z.block(0), 0});
  });
  expect_refused("a tile of shape [16, 16] cannot be broadcast to [tile 0, tile 1]",
                 [] { Output().store(Input(0).load({16, 16}, {0, 0})); });
  expect_refused("transpose of a tile of shape []: it needs two axes", [] { transpose(Tile(1)); });
  expect_refused("each axis must be listed once", [] { transpose(x(), {0, 0}); });
  expect_refused("x has 2 axes, got 1 extents", [] { Input(0).load({16}, {0, 0}); });
  expect_refused("x has 2 axes, got 1 coordinates", [] { Input(0).load({16, 16}, {0}); });
  expect_refused("x has 2 axes, got 3 indices", [] { Input(0).at({0, 0, 0}); });
  expect_refused("z has 2 axes, got 1 offsets", [] { tile::load_shifted(Input(0), Output(), {1}); });
}

TEST(Shapes, Have_axes_that_may_be_counted_from_the_end) {
  EXPECT_NO_THROW(traced([] { Output().store(reduce_sum(x(), -1) + reduce_max(x(), -2)); }));
  expect_refused("there is no axis 2 of a tile of shape [tile 0, tile 1], which has 2 axes",
                 [] { reduce_sum(x(), 2); });
  expect_refused("there is no axis -3 of x, which has 2 axes", [] { Input(0).dim(-3); });
  expect_refused("there is no axis 2 of z", [] { Output().tile_dim(2); });
  traced([] {
    EXPECT_EQ(x().rank(), 2);
    EXPECT_EQ(Tile(3).rank(), 0);
    Output().store(tile::cast<float>(x().dim(-1)));
  });
}

TEST(Kernels, Know_only_their_buffers) {
  traced([] {
    EXPECT_EQ(Output().dtype(), f32);
    EXPECT_EQ(Output().rank(), 2);
    EXPECT_EQ(Input(1).dtype(), s32);
    EXPECT_EQ(Input(2).rank(), 2);
    Output().store(0);
  });
  expect_refused("there is no input 3: the kernel has 3", [] { Input(3).rank(); });
  expect_refused("there is no input -1", [] { Input(-1).rank(); });
  expect_refused("there is no output 1", [] { Output(1).rank(); });
  expect_refused("there is no scalar 1: the kernel has 1", [] { tile::detail::scalar(1); });
}

TEST(Kernels, Store_their_output_once) {
  expect_refused("nothing is stored: the kernel must call store() of its output", [] { x(); });
  expect_refused("z is stored twice", [] {
    Output().store(x());
    Output().store(x());
  });
  expect_refused("z is stored inside a loop", [] {
    tile::loop(3, 0, [](const tile::Index&, const Tile& sum) {
      Output().store(1);
      return sum;
    });
  });
}

TEST(Kernels, Continue_after_a_store) {
  EXPECT_NO_THROW(traced([] {
    Output().store(x());
    x() + 1;
  }));
}

TEST(Indices, Are_single_integers) {
  expect_refused("an index must be a single number of type s64, got f32[tile 0, tile 1]",
                 [] { Input(0).load({4, 4}, {x(), 0}); });
  expect_refused("the number 1.5 does not fit s64", [] { Input(0).load({4, 4}, {1.5, 0}); });
  expect_refused("an index must be of type s64, got s32; cast<std::int64_t>() it", [] { Input(0).at({y(), 0}); });
  expect_refused("an extent of a tile cannot be negative, got -4", [] { Input(0).load({-4, 4}, {0, 0}); });
  expect_refused("an extent of a tile must be computed from constants, dim() and tile_dim() only",
                 [] { Input(0).load({Output().block(0), 4}, {0, 0}); });
}

TEST(Loops, Return_what_they_carry) {
  const auto looped = [](const Tile& initial, auto next) {
    return [=] { tile::loop(3, initial, [&](const tile::Index&, const Tile& sum) { return next(sum); }); };
  };
  expect_refused("a loop carries a tile of s64, but its body returns one of f32[tile 0, tile 1]",
                 looped(0, [](const Tile&) { return x(); }));
  expect_refused("the number 2.5 does not fit s64", looped(0, [](const Tile&) -> Tile { return 2.5; }));
}

TEST(Loops, Keep_their_tiles_inside) {
  expect_refused("created inside a loop and is used outside it: return it from the loop instead", [] {
    std::optional<Tile> leaked;
    tile::loop(3, 0, [&](const tile::Index& k, const Tile& sum) {
      leaked = k + 1;
      return sum;
    });
    *leaked + 1;
  });
}

TEST(Tiles, Outside_a_kernel_are_refused) {
  expect_error(Errc::invalid_kernel, "tiles can only be used inside a kernel", [] { Tile(1) + Tile(2); });
  expect_error(Errc::invalid_kernel, "inside a kernel", [] { Output().dtype(); });
  std::optional<Tile> leaked;
  traced([&] {
    leaked = x();
    Output().store(*leaked);
  });
  expect_error(Errc::invalid_kernel, "inside a kernel", [&] { *leaked + 1; });
  expect_refused("this tile belongs to another kernel, or to another call of it", [&] { Output().store(*leaked); });
}

TEST(Tiles, Of_other_threads_are_refused) {
  traced([] {
    const Tile mine = x();
    std::thread([&] { expect_error(Errc::invalid_kernel, "on the thread that calls it", [&] { mine + 1; }); }).join();
    Output().store(mine);
  });
}

TEST(Traces, May_nest_and_run_on_many_threads) {
  traced([] {
    const Tile outer = x();
    EXPECT_NO_THROW(traced([] { Output().store(x() + 1); }));
    EXPECT_THROW(traced([] { exp(y()); }), Error);
    Output().store(outer);
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      const std::string first = to_string(traced([] { Output().store(exp(x()) + 1); }));
      for (int k = 0; k < 50; ++k) EXPECT_EQ(to_string(traced([] { Output().store(exp(x()) + 1); })), first);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Kernel, Has_a_valid_name_and_distinct_scalars) {
  const auto nothing = [] {};
  EXPECT_EQ(tile::Kernel("a.b_1", {}, nothing).name(), "a.b_1");
  for (const char* name : {"", "1a", "a b", ".a", "a-b"})
    expect_error(Errc::invalid_kernel, "is not a valid kernel name", [&] { tile::Kernel(name, {}, nothing); });
  const tile::Parameter scalar{tile::Parameter::Kind::scalar, f32, "a"};
  expect_error(Errc::invalid_kernel, "[k] there are two scalars 'a'",
               [&] { tile::Kernel("k", {scalar, scalar}, nothing); });
}

TEST(LoadLike, Broadcasts_and_records_which_extents_must_be_equal) {
  const auto program = traced([] { Output().store(tile::cast<float>(b()) + x()); });
  EXPECT_EQ(program.same_extents.size(), 3U);  // both axes of x, the first of b
  Interpreted run;
  run.input<float>({3}, {1, 2, 3}).input<float>({2, 1}, {10, 20});
  const auto sum = run.output<float>({2, 3}, [] {
    const Output z;
    z.store(tile::load_like(Input(0), z) + tile::load_like(Input(1), z));
  });
  EXPECT_EQ(sum, (std::vector<float>{11, 12, 13, 21, 22, 23}));
  expect_error(Errc::invalid_kernel, "x has 2 axes, more than the 1 of z", [] {
    Interpreted wide;
    wide.input<float>({2, 2}, {1, 2, 3, 4}).output<float>({2}, [] { tile::load_like(Input(0), Output()); });
  });
}

TEST(LoadLike, Has_the_axes_of_the_output_even_if_all_extents_are_1) {
  Interpreted run;
  run.input<float>({1, 1}, {5});
  EXPECT_EQ(run.output<float>({1, 1}, [] { Output().store(reduce_sum(tile::load_like(Input(0), Output()), 1)); })[0],
            5);
}

TEST(LoadLines, Records_that_all_extents_but_one_are_those_of_the_output) {
  const auto program = traced([] { Output().store(tile::reduce_sum(tile::load_lines(Input(0), Output(), 1), 1)); });
  EXPECT_EQ(program.same_extents, (std::vector<ir::SameExtent>{{1, 0, 0}}));
}

TEST(LoadOfGroup, Loads_one_element_of_each_group) {
  Interpreted run;
  run.input<float>({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(run.output<float>({2, 2}, [] { Output().store(tile::load_of_group(Input(0), Output(), 2, 1)); }),
            (std::vector<float>{2, 4, 6, 8}));
  const auto program = traced([] { Output().store(tile::load_of_group(Input(0), Output(), 3, 2)); });
  EXPECT_EQ(program.same_extents, (std::vector<ir::SameExtent>{{1, 0, 0}, {1, 1, 1, 3}}));
  EXPECT_NE(ir::to_string(program).find("is 3 * dim 1 of z"), std::string::npos);
}

// This tells compilers that the whole axis is inside the buffer: nothing is added to its start.
TEST(Loads, From_the_first_element_count_from_zero) {
  const auto program = traced([] {
    const Input x(0);
    Output().store(tile::reduce_sum(x.load({Output().tile_dim(0), x.dim(1)}, {Output().block(0), 0}), 1));
  });
  const auto load = std::ranges::find(program.ops, ir::Code::load, &ir::Op::code);
  ASSERT_NE(load, program.ops.end());
  EXPECT_EQ(program[load->operands[1]].code, ir::Code::iota);
}

TEST(LoadShifted, Indexes_an_axis_of_extent_1_like_any_other) {
  Interpreted run;
  run.input<float>({1, 3}, {1, 2, 3});
  const auto moved = [&](Border border) {
    return run.output<float>({1, 3}, [&] { Output().store(tile::load_shifted(Input(0), Output(), {1, 0}, border)); });
  };
  EXPECT_EQ(moved(Border::zero), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(moved(Border::clamp), (std::vector<float>{1, 2, 3}));
}

// The kernels of the public examples, compared with plain loops.

const auto saxpy =
    tile::kernel("saxpy", [](tile::Out<float> z, tile::In<float> x, tile::In<float> y, tile::Scalar<float, "a"> a) {
      z.store(a * tile::load_like(x, z) + tile::load_like(y, z));
    });

const auto softmax_rows = tile::kernel("softmax_rows", [](tile::Out<float> z, tile::In<float> x) {
  auto t = tile::load_like(x, z);
  auto e = exp(t - reduce_max(t, 1));
  z.store(e / reduce_sum(e, 1));
});

const auto gemm = tile::kernel("gemm", [](tile::Out<float> z, tile::In<float> x, tile::In<float> y) {
  constexpr int k_tile = 16;
  auto product = tile::loop(tile::ceil_div(x.dim(1), k_tile), tile::zeros_like(z), [&](tile::Index k, auto sum) {
    auto a = x.load({z.tile_dim(0), k_tile}, {z.block(0), k});
    auto b = y.load({k_tile, z.tile_dim(1)}, {k, z.block(1)});
    return tile::mma(a, b, sum);
  });
  z.store(product);
});

const auto box3 = tile::kernel("box3", [](tile::Out<float> z, tile::In<float> x) {
  auto sum = tile::zeros_like(z);
  for (int dy = -1; dy <= 1; ++dy)
    for (int dx = -1; dx <= 1; ++dx) sum = sum + tile::load_shifted(x, z, {dy, dx}, tile::Border::clamp);
  z.store(sum / 9.0f);
});

class Example : public testing::TestWithParam<Dims> {
 protected:
  // A matrix of distinct numbers.
  static std::vector<float> matrix(std::int64_t rows, std::int64_t columns) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < rows * columns; ++i) values.push_back(static_cast<float>((i * 37 + 11) % 101) / 16);
    return values;
  }
  static void expect_near(const std::vector<float>& a, const std::vector<float>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-4 * (1 + std::abs(b[i]))) << "at " << i;
  }
  std::vector<float> run(const tile::Kernel& kernel, Interpreted& inputs, const Dims& dims) const {
    return inputs.tiled(GetParam()).output<float>(dims, kernel.state()->body);
  }
};

TEST_P(Example, Saxpy_matches_a_loop) {
  const auto x = matrix(5, 7);
  const auto y = matrix(5, 7);
  std::vector<float> wanted;
  for (std::size_t i = 0; i < x.size(); ++i) wanted.push_back(2.5F * x[i] + y[i]);
  Interpreted inputs;
  inputs.input<float>({5, 7}, x).input<float>({5, 7}, y).scalar("a", 2.5);
  EXPECT_EQ(run(saxpy, inputs, {5, 7}), wanted);
}

TEST_P(Example, Softmax_matches_loops) {
  const auto x = matrix(5, 7);
  std::vector<float> wanted(x.size());
  for (std::size_t row = 0; row < 5; ++row) {
    const float greatest = *std::max_element(x.begin() + static_cast<std::ptrdiff_t>(row * 7),
                                             x.begin() + static_cast<std::ptrdiff_t>(row * 7 + 7));
    float sum = 0;
    for (std::size_t i = row * 7; i < row * 7 + 7; ++i) sum += wanted[i] = std::exp(x[i] - greatest);
    for (std::size_t i = row * 7; i < row * 7 + 7; ++i) wanted[i] /= sum;
  }
  Interpreted inputs;
  inputs.input<float>({5, 7}, x);
  inputs.tiled({GetParam()[0], 0});  // rows stay whole
  expect_near(inputs.output<float>({5, 7}, softmax_rows.state()->body), wanted);
}

TEST_P(Example, Gemm_matches_loops) {
  const auto x = matrix(5, 21);
  const auto y = matrix(21, 7);
  std::vector<float> wanted(35);
  for (std::size_t m = 0; m < 5; ++m)
    for (std::size_t k = 0; k < 21; ++k)
      for (std::size_t n = 0; n < 7; ++n) wanted[m * 7 + n] += x[m * 21 + k] * y[k * 7 + n];
  Interpreted inputs;
  inputs.input<float>({5, 21}, x).input<float>({21, 7}, y);
  expect_near(run(gemm, inputs, {5, 7}), wanted);
}

TEST_P(Example, Box3_matches_loops) {
  const auto x = matrix(5, 7);
  std::vector<float> wanted;
  for (int row = 0; row < 5; ++row) {
    for (int column = 0; column < 7; ++column) {
      float sum = 0;
      for (int dy = -1; dy <= 1; ++dy)
        for (int dx = -1; dx <= 1; ++dx)
          sum += x[static_cast<std::size_t>(std::clamp(row + dy, 0, 4) * 7 + std::clamp(column + dx, 0, 6))];
      wanted.push_back(sum / 9);
    }
  }
  Interpreted inputs;
  inputs.input<float>({5, 7}, x);
  expect_near(run(box3, inputs, {5, 7}), wanted);
}

INSTANTIATE_TEST_SUITE_P(Tilings, Example, testing::Values(Dims{0, 0}, Dims{1, 0}, Dims{2, 3}, Dims{8, 8}, Dims{1, 1}));

TEST(Examples, Do_not_depend_on_the_tiling) {
  const auto cut = [](const tile::Kernel& kernel) {
    const ir::Buffer any{"x", Type::f32, {-1, -1}};
    return compile::choose_tiling(tile::trace(kernel.name(), {any, any, any}, {{"a", Type::f32}}, kernel.state()->body))
        .extents;
  };
  EXPECT_EQ(cut(saxpy), (Dims{16, 4096}));
  EXPECT_EQ(cut(softmax_rows), (Dims{1, 0}));
  EXPECT_EQ(cut(gemm), (Dims{64, 64}));
  EXPECT_EQ(cut(box3), (Dims{16, 4096}));
}

TEST(Examples, Gemm_reads_from_the_start_of_its_tile) {
  const ir::Buffer any{"x", Type::f32, {-1, -1}};
  const std::string text = to_string(tile::trace("gemm", {any, any, any}, {}, gemm.state()->body));
  EXPECT_NE(text.find(" = origin 0\n"), std::string::npos) << text;
  EXPECT_NE(text.find(" = origin 1\n"), std::string::npos) << text;
  EXPECT_NE(text.find(": f32[tile 0, 16] = load x["), std::string::npos) << text;
}

}  // namespace
}  // namespace tessera
