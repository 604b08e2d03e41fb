// Extents and loop counts that are known only when a kernel runs: every device does what the interpreter does.
#include <tessera/tessera.hpp>

#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera {
namespace {

using test::expect_error;
using In = tile::In<float>;
using Out = tile::Out<float>;
using Number = tile::Scalar<std::int64_t, "n">;

constexpr std::int64_t huge = std::int64_t{1} << 40;

// Of a matrix; z is [1,1].
tile::Tile total(const tile::Tile& x) { return reduce_sum(reduce_sum(x, 0), 1); }

class DynamicExtents : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "simulated") {
      device_ = Device::simulated({});
      return;
    }
    for (const DeviceInfo& info : Device::devices()) {
      if (info.backend == GetParam()) device_ = Device::open(GetParam());
    }
    if (!device_) GTEST_SKIP() << "there is no " << GetParam();
  }
  Buffer matrix(std::int64_t rows, std::int64_t columns) const {
    const std::vector<float> ones(static_cast<std::size_t>(rows * columns), 1.0F);
    return device_->buffer<float>(ones, {rows, columns});
  }
  float result(const tile::Kernel& kernel, const std::vector<Buffer>& inputs) const {
    const Buffer z = device_->buffer<float>(std::vector<float>{77.0F}, {1, 1});
    device_->run(kernel, inputs, z);
    return z.read<float>().front();
  }

  std::optional<Device> device_;
};

TEST_P(DynamicExtents, That_are_negative_count_as_0) {
  const auto border =
      tile::kernel("border", [](Out z, In x) { z.store(total(x.load({x.dim(0) - 10, x.dim(1) - 10}, {0, 0}))); });
  EXPECT_EQ(result(border, {matrix(4, 4)}), 0);
  EXPECT_EQ(result(border, {matrix(4, 400)}), 0);
  EXPECT_EQ(result(border, {matrix(13, 12)}), 6);
  // Stored for the whole tile.
  const auto spread = tile::kernel("spread", [](Out z, In x) {
    const tile::Tile part = x.load({x.dim(0) - 10, x.dim(1) - 10}, {0, 0});
    z.store(total(part - reduce_max(part, 1)) + tile::cast<float>(x.dim(0)));
  });
  EXPECT_EQ(result(spread, {matrix(4, 4)}), 4);
  EXPECT_EQ(result(spread, {matrix(4, 400)}), 4);
  EXPECT_EQ(result(spread, {matrix(50, 60)}), 50);
}

TEST_P(DynamicExtents, Of_a_window_longer_than_its_row_are_0) {
  const auto valid = tile::kernel("valid", [](Out z, In x, In w) {
    const tile::Index positions = x.dim(1) - w.dim(1) + 1;
    const tile::Tile at = tile::iota({positions, 1}, 0) + tile::iota({1, w.dim(1)}, 1);
    z.store(total(x.at({0, at}) * w.at({0, tile::iota({1, w.dim(1)}, 1)})));
  });
  EXPECT_EQ(result(valid, {matrix(1, 10), matrix(1, 3)}), 24);
  EXPECT_EQ(result(valid, {matrix(1, 3), matrix(1, 4)}), 0);
  EXPECT_EQ(result(valid, {matrix(1, 3), matrix(1, 300)}), 0);
  const auto looped = tile::kernel("looped", [](Out z, In x, In w) {
    z.store(tile::loop(x.dim(1) - w.dim(1) + 1, tile::zeros_like(z),
                       [&](const tile::Index& k, const auto& sum) { return sum + x.at({0, k}); }));
  });
  EXPECT_EQ(result(looped, {matrix(1, 10), matrix(1, 3)}), 8);
  EXPECT_EQ(result(looped, {matrix(1, 3), matrix(1, 300)}), 0);
}

TEST_P(DynamicExtents, That_are_too_large_are_refused) {
  const Buffer x = matrix(4, 4);
  const auto fails = [&](Errc code, std::string_view words, const tile::Kernel& kernel) {
    expect_error(code, words, [&] { result(kernel, {x}); });
  };
  fails(Errc::out_of_memory,
        "[long] its tiles do not fit in memory: s64[dim 0 of input 0 * 1099511627776, 1] has the extents "
        "[4398046511104,1]",
        tile::kernel("long", [](Out z, In in) { z.store(total(in.load({in.dim(0) * huge, in.dim(1)}, {0, 0}))); }));
  fails(Errc::out_of_memory, "has the extents [262144,262144]", tile::kernel("wrapped", [](Out z, In in) {
          const tile::Tile part = in.load({in.dim(0) << 16, in.dim(1) << 16}, {0, 0});
          z.store(total(part - reduce_max(part, 1)));
        }));
  fails(Errc::overflow, "[overflown] the extent dim 0 of input 0 * 4611686018427387904",
        tile::kernel("overflown", [](Out z, In in) {
          z.store(total(in.load({in.dim(0) * (std::int64_t{1} << 62), in.dim(1)}, {0, 0})));
        }));
  EXPECT_EQ(
      result(tile::kernel("well", [](Out z, In in) { z.store(total(in.load({in.dim(0) * 3, in.dim(1)}, {0, 0}))); }),
             {x}),
      16);
}

TEST_P(DynamicExtents, Of_several_buffers_are_refused_if_they_have_too_many_points) {
  const auto cube = tile::kernel("cube", [](Out z, In x, In y, In w) {
    const tile::Tile all = tile::iota({x.dim(0), y.dim(0), w.dim(0)}, 0);
    z.store(tile::cast<float>(reduce_sum(reduce_sum(reduce_max(all, 0), 1), 2)));
  });
  const Buffer z = device_->zeros({1, 1, 1}, f32);
  const auto run = [&](std::int64_t each) {
    const Buffer x = device_->zeros({each, 1}, f32);
    device_->run(cube, {x, x, x}, z);
  };
  // A device without s64 cannot run it in any size.
  if (GetParam() != "gles") {
    run(5);
    EXPECT_EQ(z.read<float>(), std::vector<float>{4 * 25});
    expect_error(Errc::out_of_memory,
                 "s64[dim 0 of input 0, dim 0 of input 1, dim 0 of input 2] has the extents [2097152,2097152,2097152]",
                 [&] { run(std::int64_t{1} << 21); });
  }
}

TEST_P(DynamicExtents, Of_reshapes_that_do_not_agree_are_refused) {
  const auto flat = tile::kernel("flat", [](Out z, In x) {
    const tile::Index rows = x.dim(0) - 10, columns = x.dim(1) - 10;
    z.store(total(reshape(x.load({rows, columns}, {0, 0}), {rows * columns, 1})));
  });
  EXPECT_EQ(result(flat, {matrix(12, 13)}), 6);
  expect_error(Errc::shape_mismatch, "= [-6,-6] cannot be reshaped to", [&] { result(flat, {matrix(4, 4)}); });
}

TEST_P(DynamicExtents, Of_an_empty_buffer_read_as_0) {
  const auto clamped = tile::kernel("clamped", [](Out z, In x) {
    z.store(x.at({z.index(0) - 1, z.index(1) + x.dim(1)}, tile::Border::clamp) +
            x.at({z.index(0) - 1, z.index(1) + x.dim(1)}, tile::Border::wrap) +
            x.at({z.index(0) - 1, z.index(1) + x.dim(1)}, tile::Border::reflect));
  });
  for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{0, 5}, {5, 0}, {0, 0}}) {
    EXPECT_EQ(result(clamped, {device_->zeros({rows, columns}, f32)}), 0) << rows << " " << columns;
  }
}

// OpenGL ES has no s64: what fits in 32 bits is computed in those.
TEST_P(DynamicExtents, And_loop_counts_may_be_s64_scalars) {
  const auto moved = tile::kernel("moved", [](Out z, In x, Number n) {
    const tile::Tile steps = tile::loop(n + 2, tile::zeros_like(z), [&](const tile::Index& k, const auto& sum) {
      return sum + tile::cast<float>(k + n);
    });
    z.store(steps + x.at({z.index(0), z.index(1) + n}, tile::Border::clamp) + tile::cast<float>(n * x.dim(1)));
  });
  std::vector<float> values(10);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(100 * i);
  const Buffer x = device_->buffer<float>(values, {1, 10}), z = device_->zeros({1, 1}, f32);
  for (const std::int64_t n : {3, 0, -1, -5}) {
    device_->run(moved, {x}, z, {{"n", n}});
    float wanted = static_cast<float>(n * 10 + (n > 0 ? 100 * n : 0));
    for (std::int64_t k = 0; k < n + 2; ++k) wanted += static_cast<float>(k + n);
    EXPECT_EQ(z.read<float>().front(), wanted) << n;
  }
  if (GetParam() != "gles") return;
  expect_error(Errc::unsupported, "[moved] n + 2 is 1099511627778",
               [&] { device_->run(moved, {x}, z, {{"n", huge}}); });
  expect_error(Errc::unsupported, "can have only numbers from -2147483648 to 2147483647",
               [&] { device_->run(moved, {x}, z, {{"n", -(std::int64_t{1} << 31) + 5}}); });
}

INSTANTIATE_TEST_SUITE_P(All, DynamicExtents, ::testing::Values("cpu", "simulated", "vulkan", "opencl", "gles"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace tessera
