#include "driver/cpu/gemm/conv2d.hpp"

#include "core/random.hpp"
#include "driver/cpu/gemm/engine.hpp"
#include "support/pieces.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace tessera::driver::cpu {
namespace {

// A convolution with its operands, chosen so that sums of floats are exact in any order.
template <class T>
struct Problem {
  Conv2d conv;
  std::vector<T> x, weights, bias, y;

  Problem(Conv2d shape, bool has_bias, std::uint64_t seed) : conv(shape) {
    conv.dtype = dtype_of<T>;
    core::Random random(seed);
    fill(x, conv.images * conv.channels * conv.h.size * conv.w.size, random);
    fill(weights, conv.outputs * (conv.channels / conv.groups) * conv.h.kernel * conv.w.kernel, random);
    fill(bias, conv.outputs, random);
    y.resize(conv.images * conv.outputs * conv.h.output() * conv.w.output());
    conv.x = reinterpret_cast<const std::byte*>(x.data());
    conv.weights = reinterpret_cast<const std::byte*>(weights.data());
    if (has_bias) conv.bias = reinterpret_cast<const std::byte*>(bias.data());
    conv.y = reinterpret_cast<std::byte*>(y.data());
  }

  static void fill(std::vector<T>& values, std::int64_t count, core::Random& random) {
    values.resize(count);
    for (T& value : values) {
      value = std::is_floating_point_v<T> ? static_cast<T>(static_cast<int>(random.below(33)) - 16)
                                          : static_cast<T>(random.next());
    }
  }

  using Wide = std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>;

  Wide window(std::int64_t image, std::int64_t output, std::int64_t row, std::int64_t column) const {
    const std::int64_t inputs = conv.channels / conv.groups;
    const std::int64_t first = output / (conv.outputs / conv.groups) * inputs;
    Wide sum = conv.bias == nullptr ? Wide{0} : static_cast<Wide>(bias[output]);
    for (std::int64_t channel = 0; channel < inputs; ++channel) {
      for (std::int64_t i = 0; i < conv.h.kernel; ++i) {
        for (std::int64_t j = 0; j < conv.w.kernel; ++j) {
          const std::int64_t h = row * conv.h.stride - conv.h.padding + i * conv.h.dilation;
          const std::int64_t w = column * conv.w.stride - conv.w.padding + j * conv.w.dilation;
          if (h < 0 || h >= conv.h.size || w < 0 || w >= conv.w.size) continue;
          sum += static_cast<Wide>(x[((image * conv.channels + first + channel) * conv.h.size + h) * conv.w.size + w]) *
                 static_cast<Wide>(weights[((output * inputs + channel) * conv.h.kernel + i) * conv.w.kernel + j]);
        }
      }
    }
    return sum;
  }

  std::vector<T> expected() const {
    std::vector<T> result;
    for (std::int64_t image = 0; image < conv.images; ++image) {
      for (std::int64_t output = 0; output < conv.outputs; ++output) {
        for (std::int64_t row = 0; row < conv.h.output(); ++row) {
          for (std::int64_t column = 0; column < conv.w.output(); ++column) {
            result.push_back(static_cast<T>(window(image, output, row, column)));
          }
        }
      }
    }
    return result;
  }

  void check(unsigned workers) {
    const std::vector<T> right = expected();
    for (const Engine* engine : engines()) {
      const test::EngineInUse use(*engine);
      std::fill(y.begin(), y.end(), T{77});
      test::run_pieces(conv, cut(conv, workers));
      ASSERT_EQ(y, right) << engine->name << ", " << conv.channels << " channels, " << conv.outputs << " outputs, "
                          << conv.groups << " groups, " << conv.h.size << " x " << conv.w.size << ", kernel "
                          << conv.h.kernel << " x " << conv.w.kernel << ", stride " << conv.h.stride << " x "
                          << conv.w.stride << ", padding " << conv.h.padding << " x " << conv.w.padding << ", dilation "
                          << conv.h.dilation << " x " << conv.w.dilation;
    }
  }
};

template <class T>
class Conv2dTest : public testing::Test {};
using Types = testing::Types<float, double, std::int32_t, std::int64_t, std::uint32_t, std::uint8_t>;
TYPED_TEST_SUITE(Conv2dTest, Types);

// Every combination of strides, padding and dilation, with random sizes, kernels and bias.
TYPED_TEST(Conv2dTest, Geometry) {
  core::Random random(1);
  std::uint64_t seed = 0;
  for (std::int64_t groups : {1, 2, 6}) {
    for (std::int64_t stride : {1, 2, 3}) {
      for (std::int64_t padding : {0, 1, 3}) {
        for (std::int64_t dilation : {1, 2}) {
          const auto axis = [&] {
            return ConvAxis{static_cast<std::int64_t>(random.below(40)), static_cast<std::int64_t>(1 + random.below(5)),
                            stride, padding, dilation};
          };
          const std::int64_t outputs = groups * static_cast<std::int64_t>(1 + random.below(3));
          const Conv2d conv{.images = 2, .channels = 6, .outputs = outputs, .groups = groups, .h = axis(), .w = axis()};
          Problem<TypeParam>(conv, random.below(2) != 0, ++seed).check(3);
          if (this->HasFatalFailure()) return;
        }
      }
    }
  }
}

TYPED_TEST(Conv2dTest, Usual) {
  const ConvAxis same{29, 3, 1, 1, 1}, half{29, 3, 2, 1, 1}, point{29, 1, 1, 0, 1}, tall{50, 7, 2, 3, 1};
  for (const auto& [h, w] : {std::pair{same, same}, {half, half}, {point, point}, {tall, same}, {point, half}}) {
    for (std::int64_t groups : {1, 20}) {
      const Conv2d conv{.images = 2, .channels = 20, .outputs = 40, .groups = groups, .h = h, .w = w};
      Problem<TypeParam>(conv, true, 1).check(8);
      if (this->HasFatalFailure()) return;
    }
  }
}

TYPED_TEST(Conv2dTest, Empty) {
  const ConvAxis none{0, 3, 1, 1, 1}, zeros{0, 3, 1, 2, 1}, small{2, 3, 1, 0, 1}, same{5, 3, 1, 1, 1};
  for (const ConvAxis& h : {none, zeros, small, same}) {
    for (std::int64_t channels : {0, 1, 4}) {
      for (std::int64_t images : {0, 1}) {
        Problem<TypeParam>({.images = images, .channels = channels, .outputs = 4, .h = h, .w = same}, true, 1).check(2);
        if (channels == 0) continue;
        const Conv2d depthwise{
            .images = images, .channels = channels, .outputs = 4, .groups = channels, .h = h, .w = same};
        Problem<TypeParam>(depthwise, true, 1).check(2);
      }
    }
  }
}

TEST(Conv2d, DepthwiseRowsLongerThanABand) {
  const Conv2d conv{.channels = 2, .outputs = 2, .groups = 2, .h = {3, 3, 1, 1, 1}, .w = {5000, 5, 2, 2, 2}};
  Problem<float>(conv, false, 1).check(2);
  Problem<std::uint8_t>(conv, false, 1).check(2);
}

}  // namespace
}  // namespace tessera::driver::cpu
