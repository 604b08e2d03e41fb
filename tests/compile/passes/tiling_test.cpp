#include "compile/compile.hpp"
#include "tile/trace.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace tessera {
namespace {

using compile::Tiling;
using ir::Type;
using tile::Input;
using tile::Output;
using Extents = std::vector<std::int64_t>;

// The tiles of a kernel whose output and two inputs have this rank.
Extents cut(int rank, const std::function<void()>& body, Extents tile = {}) {
  const Extents any(static_cast<std::size_t>(rank), -1);
  return compile::choose_tiling(
             tile::trace("test", {{"z", Type::f32, any}, {"x", Type::f32, any}, {"y", Type::f32, any}}, {}, body, tile))
      .extents;
}

TEST(Tiles, Are_rows_for_pointwise_kernels) {
  const auto copy = [] { Output().store(tile::load_like(Input(0), Output())); };
  EXPECT_EQ(cut(0, copy), (Extents{}));
  EXPECT_EQ(cut(1, copy), (Extents{16384}));
  EXPECT_EQ(cut(3, copy), (Extents{1, 16, 4096}));
}

TEST(Tiles, Contain_the_whole_of_an_axis_that_is_known_to_be_short) {
  const auto cut_known = [](const Extents& dims) {
    return compile::choose_tiling(tile::trace("test", {{"z", Type::f32, dims}}, {}, [] { Output().store(0); })).extents;
  };
  EXPECT_EQ(cut_known({-1, 4}), (Extents{4096, 0}));
  EXPECT_EQ(cut_known({-1, 4096}), (Extents{16, 0}));
  EXPECT_EQ(cut_known({-1, 4097}), (Extents{16, 4096}));
  EXPECT_EQ(cut_known({16, 0}), (Extents{0, 0}));
}

TEST(Tiles, Are_those_that_the_caller_chose) {
  EXPECT_EQ(cut(2, [] { Output().store(0); }, {8, 0}), (Extents{8, 0}));
}

TEST(Tiles, Are_whole_along_reduced_axes) {
  const auto sum_along = [](int axis) {
    return [axis] {
      const tile::Tile x = tile::load_like(Input(0), Output());
      Output().store(x - tile::reduce_sum(x, axis));
    };
  };
  EXPECT_EQ(cut(2, sum_along(1)), (Extents{1, 0}));
  EXPECT_EQ(cut(2, sum_along(0)), (Extents{0, 4096}));
}

TEST(Tiles, Are_whole_along_axes_whose_extent_or_origin_is_used_in_arithmetic) {
  EXPECT_EQ(cut(2, [] { Output().store(tile::cast<float>(Output().tile_dim(0))); }), (Extents{0, 4096}));
  EXPECT_EQ(cut(2, [] { Output().store(tile::cast<float>(Output().block(1))); }), (Extents{16, 0}));
  EXPECT_EQ(cut(2, [] { Output().store(tile::cast<float>(tile::iota({Output().tile_dim(0), 1}, 0))); }),
            (Extents{0, 4096}));
  EXPECT_EQ(cut(2, [] { Output().store(tile::cast<float>(Output().index(1) + Output().index(0))); }),
            (Extents{16, 4096}));
}

TEST(Tiles, Are_whole_along_axes_whose_extent_a_loop_returns) {
  EXPECT_EQ(cut(2,
                [] {
                  const auto body = [](const tile::Index&, const tile::Tile&) { return Output().tile_dim(0); };
                  Output().store(tile::cast<float>(tile::loop(3, 0, body)));
                }),
            (Extents{0, 4096}));
}

TEST(Tiles, Are_whole_along_axes_that_are_reshaped_or_sliced) {
  const auto sliced = [] {
    const Output z;
    z.store(slice(tile::load_like(Input(0), z), {1, 0}, {z.tile_dim(0), z.tile_dim(1)}));
  };
  EXPECT_EQ(cut(2, sliced), (Extents{0, 4096}));
  const auto sliced_too_far = [] {
    const Output z;
    z.store(slice(Input(0).at({z.index(0, 1, 1), z.index(1)}), {3, 0}, {z.tile_dim(0), z.tile_dim(1)}));
  };
  EXPECT_EQ(cut(2, sliced_too_far), (Extents{0, 256}));
  const auto reshaped = [] {
    const Output z;
    z.store(reshape(reshape(tile::load_like(Input(0), z), {z.tile_dim(1) * z.tile_dim(0)}),
                    {z.tile_dim(0), z.tile_dim(1)}));
  };
  EXPECT_EQ(cut(2, reshaped), (Extents{0, 0}));
}

TEST(Tiles, Are_square_for_matrix_products) {
  EXPECT_EQ(cut(3,
                [] {
                  const Output z;
                  const tile::Tile a = Input(0).load({z.tile_dim(0), z.tile_dim(1), 16}, {z.block(0), z.block(1), 0});
                  const tile::Tile b = Input(1).load({z.tile_dim(0), 16, z.tile_dim(2)}, {z.block(0), 0, z.block(2)});
                  z.store(tile::mma(a, b, tile::zeros_like(z)));
                }),
            (Extents{1, 64, 64}));
}

TEST(Tiles, Are_square_if_inputs_are_read_across) {
  EXPECT_EQ(cut(2, [] { Output().store(Input(0).at({Output().index(1), Output().index(0)})); }), (Extents{64, 64}));
  const auto transposed = [] {
    const Output z;
    z.store(transpose(Input(0).load({z.tile_dim(1), z.tile_dim(0)}, {z.block(1), z.block(0)})));
  };
  EXPECT_EQ(cut(2, transposed), (Extents{64, 64}));
}

TEST(Tiles, Allow_for_their_neighbours_and_are_taller_with_many) {
  const auto with = [](int neighbours) {
    return cut(2, [=] {
      const Output z;
      const tile::Tile wide = Input(0).at({z.index(0, neighbours, neighbours), z.index(1)});
      z.store(slice(wide, {2 * neighbours, 0}, {z.tile_dim(0), z.tile_dim(1)}));
    });
  };
  EXPECT_EQ(with(1), (Extents{72, 1024}));
  EXPECT_EQ(with(8), (Extents{72, 1024}));
  EXPECT_EQ(with(9), (Extents{128, 1024}));
}

TEST(Tiles, Are_counted) {
  const Tiling tiling{{2, 0}};
  const auto count = [&](Extents dims) { return tiling.tiles(dims); };
  EXPECT_EQ(count({5, 7}), 3);
  EXPECT_EQ(count({4, 7}), 2);
  EXPECT_EQ(count({0, 7}), 0);
  EXPECT_EQ(count({4, 0}), 0);
  EXPECT_EQ(Tiling{}.tiles({}), 1);
}

}  // namespace
}  // namespace tessera
