#pragma once

#include <tessera/tessera.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>
#include <vector>

// Kernels called with images on the host.
namespace tessera::test {

using Byte = std::uint8_t;

template <Element T>
struct Image {
  Shape shape;
  std::vector<T> values;
};
using Bytes = Image<Byte>;
using Floats = Image<float>;

template <Element Out, Element... In>
std::vector<Out> run(std::string_view kernel, const Shape& shape, const Params& params, const Image<In>&... inputs) {
  const Device device = Device::open("cpu");
  const Buffer output = device.zeros(shape, dtype_of<Out>);
  device.run(kernel, {device.buffer<In>(inputs.values, inputs.shape)...}, output, params);
  return output.read<Out>();
}

// The output is like the input.
template <Element T>
std::vector<T> run_like(std::string_view kernel, const Image<T>& x, const Params& params = {}) {
  return run<T>(kernel, x.shape, params, x);
}

inline void expect_near(const std::vector<float>& got, const std::vector<float>& wanted, float tolerance = 1e-5f) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], tolerance) << "at " << i;
}

}  // namespace tessera::test
