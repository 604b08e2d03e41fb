// Arithmetic on GPUs that is printed in a shorter form where a constant allows it.
#include <tessera/tessera.hpp>

#include <gtest/gtest.h>

#include <bit>
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

}  // namespace
}  // namespace tessera
