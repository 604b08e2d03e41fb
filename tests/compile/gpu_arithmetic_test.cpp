// Arithmetic on GPUs that is printed in a shorter form where a constant allows it.
#include <tessera/tessera.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace tessera {
namespace {

using In = tile::In<float>;
using Out = tile::Out<float>;

const tile::Kernel kernels[] = {
    tile::kernel("max_of_x", [](Out z, In x) { z.store(max(tile::load_like(x, z), 0.0F)); }),
    tile::kernel("max_of_number", [](Out z, In x) { z.store(max(-0.0F, tile::load_like(x, z))); }),
    tile::kernel("min_of_x", [](Out z, In x) { z.store(min(tile::load_like(x, z), -0.0F)); }),
    tile::kernel("min_of_number", [](Out z, In x) { z.store(min(1.5F, tile::load_like(x, z))); }),
};

// The bits, but all NaN alike.
std::vector<std::uint32_t> run(const Device& device, const tile::Kernel& kernel, const std::vector<float>& values) {
  const Buffer z = device.zeros(Shape(values.size()));
  device.run(kernel, {device.buffer<float>(values)}, z);
  std::vector<std::uint32_t> bits;
  for (const float value : z.read<float>())
    bits.push_back(value != value ? 0 - 1U : std::bit_cast<std::uint32_t>(value));
  return bits;
}

TEST(GpuArithmetic, Max_and_min_with_a_number_keep_NaN_and_the_sign_of_zero) {
  using Limits = std::numeric_limits<float>;
  const std::vector<float> values = {Limits::quiet_NaN(), -Limits::quiet_NaN(), 0.0F, -0.0F, 1, -1, 2,
                                     Limits::infinity(),  -Limits::infinity()};
  const Device cpu = Device::open("cpu");
  for (const DeviceInfo& info : Device::devices()) {
    if (info.backend == "cpu") continue;
    const Device device = Device::open(info.backend);
    for (const tile::Kernel& kernel : kernels) {
      EXPECT_EQ(run(device, kernel, values), run(cpu, kernel, values)) << kernel.name() << " on " << info.backend;
    }
  }
}

template <class T>
std::vector<T> whole_range(int first, int last) {
  std::vector<T> values;
  for (int exponent = first; exponent < last; ++exponent) {
    for (const double m : {1.0, 1.1415926535, 1.5707963267948966, 1.7320508, 1.9999999}) {
      values.push_back(static_cast<T>(std::ldexp(m, exponent)));
      values.push_back(-values.back());
    }
  }
  // Of all numbers these are nearest to a multiple of pi / 2: that of 24 digits and that of 53.
  values.push_back(static_cast<T>(std::ldexp(16367173.0, 72)));
  if (sizeof(T) == 8) values.push_back(static_cast<T>(std::ldexp(6381956970095103.0, 797)));
  return values;
}

template <class T>
void expect_sine_and_cosine(const Device& device, const std::vector<T>& values, double tolerance) {
  const auto sine =
      tile::kernel("sine", [](tile::Out<T> z, tile::In<T> x) { z.store(tile::sin(tile::load_like(x, z))); });
  const auto cosine =
      tile::kernel("cosine", [](tile::Out<T> z, tile::In<T> x) { z.store(tile::cos(tile::load_like(x, z))); });
  const Buffer x = device.buffer<T>(values);
  const Buffer sines = device.zeros(Shape(values.size()), dtype_of<T>);
  const Buffer cosines = device.zeros(Shape(values.size()), dtype_of<T>);
  device.run(sine, {x}, sines);
  device.run(cosine, {x}, cosines);
  const std::vector<T> s = sines.read<T>(), c = cosines.read<T>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto angle = static_cast<long double>(values[i]);  // glibc's own of f64 are 7 ulp off at the last one
    const auto want_s = static_cast<double>(std::sin(angle)), want_c = static_cast<double>(std::cos(angle));
    ASSERT_NEAR(static_cast<double>(s[i]), want_s, tolerance * std::abs(want_s))
        << angle << " on " << device.info().backend;
    ASSERT_NEAR(static_cast<double>(c[i]), want_c, tolerance * std::abs(want_c))
        << angle << " on " << device.info().backend;
  }
}

TEST(GpuArithmetic, Sine_and_cosine_are_right_however_large_the_angle_is) {
  for (const DeviceInfo& info : Device::devices()) {
    if (info.backend == "cpu") continue;
    const Device device = Device::open(info.backend);
    expect_sine_and_cosine(device, whole_range<float>(-20, 128), 1e-6);
    if (info.backend != "gles") expect_sine_and_cosine(device, whole_range<double>(-20, 1024), 4e-16);
  }
}

TEST(GpuArithmetic, The_remainder_of_infinity_is_no_number_and_that_of_others_is_exact) {
  using Limits = std::numeric_limits<float>;
  const std::vector<float> a = {Limits::infinity(),
                                1e10F,
                                7.5F,
                                5,
                                -7.5F,
                                Limits::max(),
                                Limits::max(),
                                3e38F,
                                -Limits::infinity(),
                                1e-30F,
                                6e-45F,
                                9,
                                1e5F,
                                Limits::max(),
                                1,
                                0};
  const std::vector<float> b = {
      3, 3, 3, 5, 2, 3, 1.1e-30F, 2e-38F, 3, 7e-31F, 3e-45F, Limits::infinity(), 0.1F, 3e-45F, Limits::quiet_NaN(), 0};
  const auto rest =
      tile::kernel("rest", [](Out z, In x, In y) { z.store(tile::load_like(x, z) % tile::load_like(y, z)); });
  for (const DeviceInfo& info : Device::devices()) {
    const Device device = Device::open(info.backend);
    const Buffer z = device.zeros(Shape(a.size()));
    device.run(rest, {device.buffer<float>(a), device.buffer<float>(b)}, z);
    const std::vector<float> got = z.read<float>();
    for (std::size_t i = 0; i < a.size(); ++i) {
      const float want = std::fmod(a[i], b[i]);
      EXPECT_TRUE(got[i] == want || (want != want && got[i] != got[i]))
          << a[i] << " % " << b[i] << " is " << got[i] << ", not " << want << " on " << info.backend;
    }
  }
}

}  // namespace
}  // namespace tessera
