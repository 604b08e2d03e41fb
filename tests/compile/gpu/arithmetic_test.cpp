// Arithmetic on GPUs that is printed in a shorter form where a constant allows it.
#include <tessera/tessera.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
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

// The bits; all NaNs are equal.
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

TEST(GpuArithmetic, Sums_of_many_lose_no_bits_and_infinities_stay) {
  constexpr std::int64_t count = 1'000'003;
  for (const DeviceInfo& info : Device::devices()) {
    const Device device = Device::open(info.backend);
    const Buffer tenths = device.zeros({count}), sum = device.zeros({1});
    device.run("fill", {}, tenths, {{"value", 0.1}});
    device.run("reduce_sum", {tenths}, sum);
    const double exact = static_cast<double>(0.1F) * count;
    EXPECT_NEAR(sum.read<float>()[0], exact, exact * 2e-6) << info.backend;

    const float infinity = std::numeric_limits<float>::infinity();
    device.run("reduce_sum", {device.buffer<float>({1, infinity, 2, 3e38F, 3e38F})}, sum);
    EXPECT_EQ(sum.read<float>()[0], infinity) << info.backend;
    device.run("reduce_sum", {device.buffer<float>({1, infinity, -infinity})}, sum);
    EXPECT_TRUE(std::isnan(sum.read<float>()[0])) << info.backend;
    device.run("reduce_sum", {device.buffer<float>({3e38F, 3e38F, 1})}, sum);
    EXPECT_EQ(sum.read<float>()[0], infinity) << info.backend;
  }
}

// A compiler must not see through a conversion that rounds, nor through one that widens.
TEST(GpuArithmetic, Integers_that_become_floats_are_rounded_and_widened_ones_have_powers) {
  const auto rounded = tile::kernel("rounded", [](tile::Out<std::int32_t> z, tile::In<std::int32_t> x) {
    z.store(tile::cast<std::int32_t>(tile::cast<float>(tile::load_like(x, z))));
  });
  const auto power = tile::kernel("power", [](tile::Out<std::int64_t> z, tile::In<std::int32_t> x) {
    const tile::Tile wide = tile::cast<std::int64_t>(tile::load_like(x, z));
    z.store(pow(wide, wide));
  });
  for (const DeviceInfo& info : Device::devices()) {
    const Device device = Device::open(info.backend);
    const Buffer x = device.buffer<std::int32_t>({16777217, -16777217, 33554435, 2147483647, -5, 7});
    const Buffer z = device.zeros({6}, s32);
    device.run(rounded, {x}, z);
    EXPECT_EQ(z.read<std::int32_t>(), (std::vector{16777216, -16777216, 33554436, 2147483647, -5, 7})) << info.backend;
    if (std::ranges::find(info.dtypes, s64) == info.dtypes.end()) continue;
    const Buffer small = device.buffer<std::int32_t>({-1, -2, -3, 4, -5, 6, 0, 1});
    const Buffer powers = device.zeros({8}, s64);
    device.run(power, {small}, powers);
    EXPECT_EQ(powers.read<std::int64_t>(), (std::vector<std::int64_t>{-1, 0, 0, 256, 0, 46656, 1, 1})) << info.backend;
  }
}

TEST(GpuArithmetic, Arithmetic_with_zero_keeps_NaN_and_the_sign_of_zero) {
  using Limits = std::numeric_limits<float>;
  const std::vector<float> values = {
      Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity(), 0.0F, -0.0F, 1, -1, 3e38F, 1e-40F};
  const auto kernel = [](const char* name, const auto& value) {
    return tile::kernel(name, [value](Out z, In x) { z.store(value(tile::load_like(x, z))); });
  };
  using T = tile::Tile;
  const tile::Kernel with_zero[] = {
      kernel("times_zero", [](const T& x) { return x * 0.0F; }),
      kernel("zero_times", [](const T& x) { return -0.0F * x; }),
      kernel("zero_by", [](const T& x) { return 0.0F / x; }),
      kernel("by_zero", [](const T& x) { return x / -0.0F; }),
      kernel("plus_zero", [](const T& x) { return x + 0.0F; }),
      kernel("minus_zero", [](const T& x) { return x - 0.0F; }),
      kernel("zero_minus", [](const T& x) { return 0.0F - x; }),
      kernel("minus_itself_times_zero", [](const T& x) { return (x - x) * 0.0F + 1.0F; }),
  };
  const Device cpu = Device::open("cpu");
  for (const DeviceInfo& info : Device::devices()) {
    if (info.backend == "cpu") continue;
    const Device device = Device::open(info.backend);
    for (const tile::Kernel& one : with_zero) {
      EXPECT_EQ(run(device, one, values), run(cpu, one, values)) << one.name() << " on " << info.backend;
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

// The result, or nothing if the device refuses the kernel.
std::optional<std::vector<float>> run_or_refuse(const Device& device, const tile::Kernel& kernel,
                                                const std::vector<float>& table, const std::vector<float>& values) {
  const Buffer z = device.zeros(Shape(values.size()));
  try {
    device.run(kernel, {device.buffer<float>(table), device.buffer<float>(values)}, z);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::unsupported) << kernel.name() << ": " << error.what();
    return std::nullopt;
  }
  return z.read<float>();
}

struct FromFloats {
  tile::Kernel kernel;
  bool is_for_all;  // devices, also those without 64-bit integers
};
std::vector<FromFloats> places_from_floats() {
  using Place = std::int64_t;
  using tile::Border;
  const auto kernel = [](const char* name, const auto& value) {
    return tile::kernel(name,
                        [value](Out z, In x, In y) { z.store(value(z, x, tile::cast<Place>(tile::load_like(y, z)))); });
  };
  using T = tile::Tile;
  using O = tile::Output;
  using I = tile::Input;
  return {
      {kernel("nearest", [](const O&, const I& x, const T& i) { return x.at({i}, Border::clamp); }), true},
      {kernel("next", [](const O&, const I& x, const T& i) { return x.at({i + 1}, Border::clamp); }), true},
      {kernel("mirrored", [](const O&, const I& x, const T& i) { return x.at({5 - i}, Border::clamp); }), true},
      {kernel("or_zero", [](const O&, const I& x, const T& i) { return x.at({i - 3}); }), true},
      {kernel("moved", [](const O& z, const I& x, const T& i) { return x.at({z.index(0) + i}, Border::clamp); }), true},
      {kernel("clamped",
              [](const O&, const I& x, const T& i) {
                return tile::cast<float>(tile::max(tile::min(i, x.dim(0) - 1), 0) * x.dim(0));
              }),
       true},
      {kernel("below", [](const O&, const I& x, const T& i) { return tile::cast<float>(i < x.dim(0)); }), true},
      {kernel("as_byte", [](const O&, const I&, const T& i) { return tile::cast<float>(tile::cast<std::uint8_t>(i)); }),
       true},
      {kernel("number", [](const O&, const I&, const T& i) { return tile::cast<float>(i); }), false},
      {kernel("small_number", [](const O&, const I&, const T& i) { return tile::cast<float>(i / 1000); }), false},
      {kernel("rest", [](const O&, const I&, const T& i) { return tile::cast<float>(i % 7); }), false},
      {kernel("around", [](const O&, const I& x, const T& i) { return x.at({i}, Border::wrap); }), false},
      {kernel("far", [](const O&, const I&, const T& i) { return tile::cast<float>(i > 2000000000); }), false},
      {kernel("near_end", [](const O&, const I& x, const T& i) { return x.at({i - 2000000000}, Border::clamp); }),
       false},
      {kernel("s32", [](const O&, const I&, const T& i) { return tile::cast<float>(tile::cast<std::int32_t>(i)); }),
       false},
  };
}

TEST(GpuArithmetic, Indices_converted_from_floats_are_right_or_refused) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> table = {10, 11, 12, 13, 14, 15, 16};
  const std::vector<float> values = {
      0,    2.9F,  -1.5F, 5,     1e6F, -1e6F, 1.0737418e9F, 2147483520.0F, -3e9, 2147483648.0F,
      3e9F, 1e12F, 9e18,  -1e30, inf,  -inf,  std::nanf("")};
  const Device cpu = Device::open("cpu");
  for (const DeviceInfo& info : Device::devices()) {
    const Device device = Device::open(info.backend);
    for (const auto& [kernel, is_for_all] : places_from_floats()) {
      const auto got = run_or_refuse(device, kernel, table, values);
      if (got) {
        EXPECT_EQ(*got, *run_or_refuse(cpu, kernel, table, values)) << kernel.name() << " on " << info.backend;
      }
      EXPECT_EQ(got.has_value(), is_for_all || info.backend != "gles") << kernel.name() << " on " << info.backend;
    }
  }
}

}  // namespace
}  // namespace tessera
