#include <tessera/tessera.hpp>

#include "support/expect_error.hpp"
#include "support/run_kernel.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

namespace tessera {
namespace {

using test::expect_error;
using test::expect_near;
using test::Limits;
using test::make;
using test::make_empty;
using test::run;

constexpr double nan = Limits<double>::quiet_NaN();

template <class T>
class Linear : public ::testing::Test {};
TYPED_TEST_SUITE(Linear, test::EveryType);
template <class T>
class LinearInteger : public ::testing::Test {};
TYPED_TEST_SUITE(LinearInteger, test::IntegerTypes);

// first, first + 1, …
template <class T>
Buffer counting(const Shape& shape, T first = 1) {
  std::vector<T> values(static_cast<std::size_t>(shape.elements()));
  std::iota(values.begin(), values.end(), first);
  return make<T>(values, shape);
}

TYPED_TEST(Linear, Matmul) {
  using T = TypeParam;
  using List = std::vector<T>;
  const Buffer a = counting<T>({2, 3}), b = counting<T>({3, 2});
  EXPECT_EQ(run<T>("matmul", {a, b}, {2, 2}), (List{22, 28, 49, 64}));
  EXPECT_EQ(run<T>("matmul", {b, a}, {3, 3}), (List{9, 12, 15, 19, 26, 33, 29, 40, 51}));
  EXPECT_EQ(run<T>("matmul", {counting<T>({1, 4}), counting<T>({4, 1})}, {1, 1}), List{30});
}

TYPED_TEST(Linear, Matmul_with_a_batch) {
  using T = TypeParam;
  using List = std::vector<T>;
  const Buffer a = counting<T>({2, 1, 2}), b = counting<T>({2, 2, 1}), one = counting<T>({2, 1});
  EXPECT_EQ(run<T>("matmul", {a, b}, {2, 1, 1}), (List{5, 25}));
  EXPECT_EQ(run<T>("matmul", {a, one}, {2, 1, 1}), (List{5, 11}));
  EXPECT_EQ(run<T>("matmul", {counting<T>({1, 2}), b}, {2, 1, 1}), (List{5, 11}));
  // [2,1,1,2] times [3,2,1]: each with each.
  EXPECT_EQ(run<T>("matmul", {counting<T>({2, 1, 1, 2}), counting<T>({3, 2, 1})}, {2, 3, 1, 1}),
            (List{5, 11, 17, 11, 25, 39}));
  EXPECT_EQ(run<T>("matmul", {counting<T>({1, 3, 1, 1}), counting<T>({2, 1, 1, 1})}, {2, 3, 1, 1}),
            (List{1, 2, 3, 2, 4, 6}));
}

TYPED_TEST(Linear, Matmul_of_nothing) {
  using T = TypeParam;
  EXPECT_EQ(run<T>("matmul", {make<T>({}, {2, 0}), make<T>({}, {0, 2})}, {2, 2}), (std::vector<T>{0, 0, 0, 0}));
  EXPECT_TRUE(run<T>("matmul", {make<T>({}, {0, 2}), counting<T>({2, 2})}, {0, 2}).empty());
  EXPECT_TRUE(run<T>("matmul", {make<T>({}, {0, 2, 2}), counting<T>({2, 2})}, {0, 2, 2}).empty());
}

TYPED_TEST(Linear, Matmul_of_odd_sizes) {
  using T = TypeParam;
  // Rows of ones times a column of ones: each sum is k, which is not a multiple of any tile.
  constexpr std::int64_t m = 67, k = 71, n = 19;
  const Buffer a = make<T>(std::vector<T>(m * k, 1), {m, k}), b = make<T>(std::vector<T>(k * n, 1), {k, n});
  EXPECT_EQ(run<T>("matmul", {a, b}, {m, n}), std::vector<T>(m * n, k));
}

TYPED_TEST(LinearInteger, Matmul_wraps_around) {
  using T = TypeParam;
  EXPECT_EQ(run<T>("matmul", {make<T>({Limits<T>::max(), 1}, {1, 2}), make<T>({1, 1}, {2, 1})}, {1, 1}),
            std::vector<T>{Limits<T>::min()});
}

TYPED_TEST(Linear, Transpose) {
  using T = TypeParam;
  using List = std::vector<T>;
  const Buffer x = counting<T>({2, 3});
  EXPECT_EQ(run<T>("transpose", {x}, {3, 2}), (List{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(run<T>("transpose", {x}, {2, 3}, {{"perm", {0, 1}}}), (List{1, 2, 3, 4, 5, 6}));
  const Buffer cube = counting<T>({2, 2, 3});
  EXPECT_EQ(run<T>("transpose", {cube}, {3, 2, 2}), (List{1, 7, 4, 10, 2, 8, 5, 11, 3, 9, 6, 12}));
  EXPECT_EQ(run<T>("transpose", {cube}, {2, 2, 3}, {{"perm", {1, 0, 2}}}),
            (List{1, 2, 3, 7, 8, 9, 4, 5, 6, 10, 11, 12}));
  EXPECT_EQ(run<T>("transpose", {cube}, {3, 2, 2}, {{"perm", {2, 0, 1}}}),
            (List{1, 4, 7, 10, 2, 5, 8, 11, 3, 6, 9, 12}));
  EXPECT_EQ(run<T>("transpose", {counting<T>({1, 2, 1, 2})}, {2, 1, 2, 1}), (List{1, 3, 2, 4}));
}

// The kernel merges and drops axes: every order, with extents of 1 anywhere.
TEST(Transpose, Every_order_of_five_axes) {
  const std::vector<std::int64_t> dims = {2, 1, 3, 1, 2};
  const Buffer x = counting<std::int32_t>(Shape(dims), 0);
  std::vector<std::int64_t> perm = {0, 1, 2, 3, 4};
  do {
    std::vector<std::int64_t> shape, strides;  // of the output, and where its axes lie in x
    for (const std::int64_t axis : perm) {
      shape.push_back(dims[static_cast<std::size_t>(axis)]);
      strides.push_back(std::accumulate(dims.begin() + axis + 1, dims.end(), std::int64_t{1}, std::multiplies<>()));
    }
    const std::vector<std::int32_t> result = run<std::int32_t>("transpose", {x}, Shape(shape), {{"perm", perm}});
    for (std::size_t i = 0; i < result.size(); ++i) {
      std::int64_t rest = static_cast<std::int64_t>(i), expected = 0;
      for (std::size_t axis = 5; axis-- > 0; rest /= shape[axis]) expected += rest % shape[axis] * strides[axis];
      ASSERT_EQ(result[i], expected) << to_string(Value(perm)) << " element " << i;
    }
  } while (std::ranges::next_permutation(perm).found);
}

TYPED_TEST(Linear, Transpose_of_few_elements) {
  using T = TypeParam;
  EXPECT_EQ(run<T>("transpose", {make<T>({5}, {})}, {}), std::vector<T>{5});
  EXPECT_EQ(run<T>("transpose", {make<T>({5}, {1, 1})}, {1, 1}), std::vector<T>{5});
  EXPECT_EQ(run<T>("transpose", {make<T>({5, 6})}, {2}, {{"perm", Value::list(0)}}), (std::vector<T>{5, 6}));
  EXPECT_TRUE(run<T>("transpose", {make<T>({}, {0, 3})}, {3, 0}).empty());
}

TYPED_TEST(Linear, Conv2d) {
  using T = TypeParam;
  using List = std::vector<T>;
  const Buffer x = counting<T>({1, 1, 3, 3}), w = make<T>({1, 0, 0, 1}, {1, 1, 2, 2});
  EXPECT_EQ(run<T>("conv2d", {x, w}, {1, 1, 2, 2}), (List{6, 8, 12, 14}));
  EXPECT_EQ(run<T>("conv2d", {x, w, make<T>({10})}, {1, 1, 2, 2}), (List{16, 18, 22, 24}));
  EXPECT_EQ(run<T>("conv2d", {x, w}, {1, 1, 4, 4}, {{"padding", 1}}),
            (List{1, 2, 3, 0, 4, 6, 8, 3, 7, 12, 14, 6, 0, 7, 8, 9}));
  EXPECT_EQ(run<T>("conv2d", {x, w}, {1, 1, 1, 1}, {{"dilation", 2}}), (List{10}));
  EXPECT_EQ(run<T>("conv2d", {x, w}, {1, 1, 2, 1}, {{"padding", {1, 0}}, {"stride", {2, 2}}}), (List{2, 12}));
}

TYPED_TEST(Linear, Conv2d_with_channels_and_groups) {
  using T = TypeParam;
  using List = std::vector<T>;
  const Buffer x = counting<T>({2, 2, 1, 2});
  EXPECT_EQ(run<T>("conv2d", {x, make<T>({1, 2, 3, 0}, {2, 2, 1, 1}), make<T>({0, 1})}, {2, 2, 1, 2}),
            (List{7, 10, 4, 7, 19, 22, 16, 19}));
  EXPECT_EQ(run<T>("conv2d", {x, make<T>({1, 2, 3, 4}, {4, 1, 1, 1})}, {2, 4, 1, 2}, {{"groups", 2}}),
            (List{1, 2, 2, 4, 9, 12, 12, 16, 5, 6, 10, 12, 21, 24, 28, 32}));
  EXPECT_TRUE(run<T>("conv2d", {make<T>({}, {0, 2, 1, 2}), counting<T>({1, 2, 1, 1})}, {0, 1, 1, 2}).empty());
}

TYPED_TEST(Linear, Max_pool2d) {
  using T = TypeParam;
  using List = std::vector<T>;
  const Buffer x = counting<T>({1, 1, 4, 4});
  EXPECT_EQ(run<T>("max_pool2d", {x}, {1, 1, 2, 2}), (List{6, 8, 14, 16}));
  EXPECT_EQ(run<T>("max_pool2d", {x}, {1, 1, 2, 2}, {{"kernel", 3}, {"stride", 1}}), (List{11, 12, 15, 16}));
  EXPECT_EQ(run<T>("max_pool2d", {x}, {1, 1, 4, 2}, {{"kernel", {1, 2}}}), (List{2, 4, 6, 8, 10, 12, 14, 16}));
  const Buffer low = make<T>(std::vector<T>(4, Limits<T>::lowest()), {2, 1, 1, 2});
  EXPECT_EQ(run<T>("max_pool2d", {low}, {2, 1, 1, 2}, {{"kernel", 2}, {"stride", {2, 2}}, {"padding", 1}}),
            std::vector<T>(4, Limits<T>::lowest()));
}

TYPED_TEST(Linear, Avg_pool2d) {
  using T = TypeParam;
  const bool is_float = !std::is_integral_v<T>;
  const Buffer x = counting<T>({1, 1, 4, 4});
  const auto either = [&](double real, int whole) { return is_float ? static_cast<T>(real) : static_cast<T>(whole); };
  EXPECT_EQ(run<T>("avg_pool2d", {x}, {1, 1, 2, 2}),
            (std::vector<T>{either(3.5, 4), either(5.5, 6), either(11.5, 12), either(13.5, 14)}));
  EXPECT_EQ(run<T>("avg_pool2d", {x}, {1, 1, 1, 1}, {{"kernel", 4}}), std::vector<T>{either(8.5, 9)});
  const Params padded = {{"kernel", 3}, {"stride", 3}, {"padding", 1}};
  EXPECT_EQ(run<T>("avg_pool2d", {x}, {1, 1, 2, 2}, padded),
            (std::vector<T>{either(3.5, 4), either(5.5, 6), either(11.5, 12), either(13.5, 14)}));
  Params counted = padded;
  counted.set("count_include_pad", true);
  const std::vector<T> result = run<T>("avg_pool2d", {x}, {1, 1, 2, 2}, counted);
  if (is_float) {
    expect_near(result, {14.0 / 9, 22.0 / 9, 46.0 / 9, 54.0 / 9});
  } else {
    EXPECT_EQ(result, (std::vector<T>{2, 2, 5, 6}));
  }
}

TEST(AvgPool2d, Of_bytes_is_rounded_half_up_on_every_device) {
  constexpr std::int64_t height = 23, width = 31, window = 5, padding = 2, stride = 3, rows = 8, columns = 11;
  std::vector<std::uint8_t> values;
  for (std::int64_t i = 0; i < height * width; ++i) values.push_back(static_cast<std::uint8_t>(i * i * 7 % 256));
  std::vector<std::uint8_t> wanted;
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    const std::int64_t y = i / columns * stride - padding, x = i % columns * stride - padding;
    std::int64_t sum = 0, count = 0;
    for (std::int64_t k = 0; k < window * window; ++k) {
      const std::int64_t at_y = y + k / window, at_x = x + k % window;
      if (at_y < 0 || at_y >= height || at_x < 0 || at_x >= width) continue;
      sum += values[static_cast<std::size_t>(at_y * width + at_x)];
      ++count;
    }
    wanted.push_back(static_cast<std::uint8_t>((2 * sum + count) / (2 * count)));
  }
  for (const DeviceInfo& info : Device::devices()) {
    const Device device = Device::open(info.backend);
    const Buffer z = device.zeros({1, 1, rows, columns}, u8);
    device.run("avg_pool2d", {device.buffer<std::uint8_t>(values, {1, 1, height, width})}, z,
               {{"kernel", window}, {"stride", stride}, {"padding", padding}});
    EXPECT_EQ(z.read<std::uint8_t>(), wanted) << "on " << info.backend;
  }
}

TEST(MaxPool2d, Lets_NaN_through) {
  const Buffer x = make<float>({1, static_cast<float>(nan), 2, 3}, {1, 1, 1, 4});
  expect_near(run<float>("max_pool2d", {x}, {1, 1, 1, 2}, {{"kernel", {1, 2}}}), {nan, 3});
}

TEST(LinearErrors, Matmul) {
  const Buffer a = make_empty({2, 3}), b = make_empty({3, 4});
  const auto matmul = [&](const Buffer& x, const Buffer& y, const Shape& shape) {
    run<float>("matmul", {x, y}, shape);
  };
  expect_error(Errc::shape_mismatch,
               "[matmul] input 1 (b) must have 3 rows, the number of columns of input 0, got f32[2,3]",
               [&] { matmul(a, a, {2, 3}); });
  expect_error(Errc::shape_mismatch, "[matmul] output must be f32[2,4], got f32[4,2]", [&] { matmul(a, b, {4, 2}); });
  expect_error(Errc::shape_mismatch, "[matmul] input 0 (a) must have rank 2 to 8, got f32[3]",
               [&] { matmul(make_empty({3}), b, {4}); });
  expect_error(Errc::shape_mismatch, "the batch axes of its inputs must be equal or 1, got f32[2,2,3] and f32[3,3,4]",
               [&] { matmul(make_empty({2, 2, 3}), make_empty({3, 3, 4}), {3, 2, 4}); });
  expect_error(Errc::dtype_mismatch, "[matmul] input 1 (b) must be f32, got s32[3,4]",
               [&] { matmul(a, make_empty({3, 4}, s32), {2, 4}); });
  expect_error(Errc::invalid_argument, "[matmul]", [] {
    const Buffer square = make_empty({2, 2});
    test::cpu().run("matmul", {square, square}, square);
  });
}

TEST(LinearErrors, Transpose) {
  const Buffer x = make_empty({2, 3});
  const auto transpose = [&](const Shape& shape, const Value& perm) {
    run<float>("transpose", {x}, shape, {{"perm", perm}});
  };
  expect_error(Errc::shape_mismatch, "[transpose] output must be f32[3,2], got f32[2,3]",
               [&] { run<float>("transpose", {x}, {2, 3}); });
  for (const Value& perm : {Value(0, 0), Value(0, 2), Value::list(0), Value(1, 0, 2)}) {
    expect_error(Errc::invalid_parameter,
                 "[transpose] parameter 'perm' must contain each axis from 0 to 1 once, got " + to_string(perm),
                 [&] { transpose({3, 2}, perm); });
  }
  expect_error(Errc::invalid_parameter, "[transpose] parameter 'perm' must be", [&] { transpose({3, 2}, {-1, 0}); });
  expect_error(Errc::dtype_mismatch, "[transpose] input 0 (x) must be s32, got f32[2,3]",
               [&] { run<std::int32_t>("transpose", {x}, {3, 2}); });
}

TEST(LinearErrors, Conv2d) {
  const Buffer x = make_empty({1, 4, 5, 5}), w = make_empty({2, 4, 3, 3});
  const auto conv = [](const std::vector<Buffer>& inputs, const Shape& shape, const Params& params = {}) {
    run<float>("conv2d", inputs, shape, params);
  };
  expect_error(Errc::shape_mismatch, "[conv2d] output must be f32[1,2,3,3], got f32[1,2,5,5]",
               [&] { conv({x, w}, {1, 2, 5, 5}); });
  expect_error(Errc::shape_mismatch, "[conv2d] input 0 (x) must have rank 4, got f32[4]",
               [&] { conv({make_empty({4}), w}, {1, 2, 3, 3}); });
  expect_error(Errc::shape_mismatch,
               "input 0 (x) must have a multiple of 3 channels, the number of groups, got f32[1,4,5,5]",
               [&] { conv({x, w}, {1, 2, 3, 3}, {{"groups", 3}}); });
  expect_error(Errc::shape_mismatch,
               "input 1 (w) must have a multiple of 4 outputs, the number of groups, got f32[2,4,3,3]",
               [&] { conv({x, w}, {1, 2, 3, 3}, {{"groups", 4}}); });
  expect_error(Errc::shape_mismatch,
               "input 1 (w) must have 2 channels, as many as a group of input 0, got f32[2,4,3,3]",
               [&] { conv({x, w}, {1, 2, 3, 3}, {{"groups", 2}}); });
  expect_error(Errc::shape_mismatch, "input 1 (w) must have a window of at least [1,1], got f32[2,4,0,3]",
               [&] { conv({x, make_empty({2, 4, 0, 3})}, {1, 2, 3, 3}); });
  expect_error(Errc::shape_mismatch, "input 2 (bias) must have 2 elements, one for each output channel, got f32[3]",
               [&] { conv({x, w, make_empty({3})}, {1, 2, 3, 3}); });
  expect_error(Errc::shape_mismatch, "input 0 (x) must be at least as large as the window: axis 2 has 5",
               [&] { conv({x, w}, {1, 2, 3, 3}, {{"dilation", 3}}); });
  expect_error(Errc::invalid_parameter,
               "parameter 'stride' must be an integer or a list of two, y and x, got [1, 1, 1]",
               [&] { conv({x, w}, {1, 2, 3, 3}, {{"stride", {1, 1, 1}}}); });
  expect_error(Errc::invalid_parameter, "[conv2d] parameter 'stride' must be between 1 and 65535, got 0",
               [&] { conv({x, w}, {1, 2, 3, 3}, {{"stride", 0}}); });
}

// Pooling takes as long as the part of the window that is inside the image: this was 4 billion steps an element.
TEST(Pooling, A_window_far_larger_than_the_image_costs_no_more_than_the_image) {
  std::vector<float> values(16);
  std::iota(values.begin(), values.end(), 1.0F);
  const Buffer x = make(values, {1, 1, 4, 4});
  const Params params = {{"kernel", 65535}, {"stride", 65534}, {"padding", 65534}};
  // Of 131072 padded rows the window takes 65535: at the first position it ends with the first row of the image, at the
  // second it begins with it.
  EXPECT_EQ(run<float>("max_pool2d", {x}, {1, 1, 2, 2}, params), (std::vector<float>{1, 4, 13, 16}));
  EXPECT_EQ(run<float>("avg_pool2d", {x}, {1, 1, 2, 2}, params), (std::vector<float>{1, 2.5F, 7, 8.5F}));
}

TEST(LinearErrors, Pooling) {
  const Buffer x = make_empty({1, 1, 4, 4});
  for (const std::string name : {"max_pool2d", "avg_pool2d"}) {
    const auto pool = [&](const Shape& shape, const Params& params) { run<float>(name, {x}, shape, params); };
    expect_error(Errc::invalid_parameter, "[" + name + "] parameter 'padding' must be less than 'kernel', got 2 and 2",
                 [&] { pool({1, 1, 4, 4}, {{"padding", 2}}); });
    expect_error(Errc::shape_mismatch, "[" + name + "] output must be f32[1,1,2,2], got f32[1,1,4,4]",
                 [&] { pool({1, 1, 4, 4}, {}); });
    expect_error(Errc::shape_mismatch, "[" + name + "] input 0 (x) must be at least as large as the window",
                 [&] { pool({1, 1, 1, 1}, {{"kernel", 5}}); });
    expect_error(Errc::shape_mismatch, "[" + name + "] input 0 (x) must have elements to pool, got f32[1,1,0,2]",
                 [&] { run<float>(name, {make_empty({1, 1, 0, 2})}, {1, 1, 1, 2}, {{"padding", 1}}); });
  }
}

}  // namespace
}  // namespace tessera
