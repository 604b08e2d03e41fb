#pragma once

#include <tessera/tessera.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <string_view>
#include <type_traits>
#include <vector>

// Kernels by name on the CPU: what goes in, what comes out.
namespace tessera::test {

template <class T>
using Limits = std::numeric_limits<T>;

inline const Device& cpu() {
  static const Device device = Device::open("cpu");
  return device;
}

template <Element T>
Buffer make(const std::vector<T>& values, const Shape& shape) {
  return cpu().buffer<T>(values, shape);
}
template <Element T>
Buffer make(const std::vector<T>& values) {
  return cpu().buffer<T>(values);
}
inline Buffer make_empty(const Shape& shape, DType dtype = f32) { return cpu().zeros(shape, dtype); }

// The output holds other bytes before, so that an element that is not written shows.
template <Element T>
std::vector<T> run(std::string_view kernel, const std::vector<Buffer>& inputs, const Shape& shape,
                   const Params& params = {}) {
  const std::vector<std::byte> before(shape.size_bytes(dtype_of<T>), std::byte{0xA5});
  const Buffer output = cpu().from_bytes(before, shape, dtype_of<T>);
  cpu().run(kernel, inputs, output, params);
  return output.template read<T>();
}

// Within a few roundings; NaN is like NaN.
template <class T>
void expect_near(const std::vector<T>& values, const std::vector<double>& expected, double tolerance = 4) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = static_cast<double>(values[i]), wanted = expected[i];
    if (std::isnan(wanted) || std::isinf(wanted)) {
      EXPECT_TRUE(std::isnan(wanted) ? std::isnan(value) : value == wanted) << "element " << i << " is " << value;
    } else {
      EXPECT_NEAR(value, wanted, tolerance * Limits<T>::epsilon() * std::max(1.0, std::abs(wanted))) << "element " << i;
    }
  }
}

using EveryType = ::testing::Types<float, double, std::int32_t, std::int64_t, std::uint32_t, std::uint8_t>;
using FloatTypes = ::testing::Types<float, double>;
using IntegerTypes = ::testing::Types<std::int32_t, std::int64_t, std::uint32_t, std::uint8_t>;

}  // namespace tessera::test
