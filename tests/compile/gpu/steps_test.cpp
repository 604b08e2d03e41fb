// Loops with many steps: a device does all of them or refuses, whatever their counts follow from.
#include <tessera/tessera.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tessera {
namespace {

using In = tile::In<std::int32_t>;
using Out = tile::Out<std::int32_t>;
using Count = tile::Scalar<std::int64_t, "n">;

// Changes x in a number of steps, none of which can be skipped.
void store_changed(const Out& z, const In& x, const tile::Index& count) {
  z.store(tile::loop(count, tile::load_like(x, z), [](const tile::Index&, const auto& s) { return s * 3 + 1; }));
}
std::vector<std::int32_t> changed(const std::vector<std::int32_t>& values, std::int64_t count) {
  std::vector<std::int32_t> result;
  for (const std::int32_t value : values) {
    auto bits = static_cast<std::uint32_t>(value);
    for (std::int64_t i = 0; i < count; ++i) bits = bits * 3 + 1;
    result.push_back(static_cast<std::int32_t>(bits));
  }
  return result;
}

struct Case {
  tile::Kernel kernel;
  std::int64_t count;  // for an operand of 10,000 elements
};
std::vector<Case> cases() {
  return {
      {tile::kernel("by_dim", [](Out z, In x, In y) { store_changed(z, x, y.dim(0)); }), 10000},
      {tile::kernel("by_shift", [](Out z, In x, In y) { store_changed(z, x, y.dim(0) << 4); }), 160000},
      {tile::kernel(
           "by_choice",
           [](Out z, In x, In y) { store_changed(z, x, tile::select(y.dim(0) > 3, y.dim(0) * 40, y.dim(0))); }),
       400000},
      {tile::kernel(
           "by_small_choice",
           [](Out z, In x, In y) { store_changed(z, x, tile::select(y.dim(0) > 3, y.dim(0), y.dim(0) * 40)); }),
       10000},
      {tile::kernel("by_element",
                    [](Out z, In x, In y) {
                      store_changed(z, x, tile::cast<std::int64_t>(y.at({tile::constant<std::int64_t>(7)})));
                    }),
       100000},
      {tile::kernel("by_bounded_element",
                    [](Out z, In x, In y) {
                      const auto element = tile::cast<std::int64_t>(y.at({tile::constant<std::int64_t>(7)}));
                      store_changed(z, x, tile::min(element, 50000));
                    }),
       50000},
  };
}

// Whether it ran rather than being refused; if it ran, the result must be right.
bool is_done(const std::string& what, const std::function<void()>& run, const std::function<void()>& check) {
  try {
    run();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::unsupported) << what << ": " << error.what();
    return false;
  }
  check();
  return true;
}

class GpuSteps : public ::testing::TestWithParam<std::string> {
 protected:
  bool has_device() const {
    for (const DeviceInfo& info : Device::devices()) {
      if (info.backend == GetParam()) return true;
    }
    return false;
  }
  void SetUp() override {
    if (!has_device()) GTEST_SKIP() << "there is no " << GetParam();
    device_.emplace(Device::open(GetParam()));
    // PoCL and real GPUs have no limit.
    has_limit_ = GetParam() != "opencl" && device_->info().name.find("llvmpipe") != std::string::npos;
  }

  std::optional<Device> device_;
  bool has_limit_ = false;
};

TEST_P(GpuSteps, A_loop_completes_or_is_refused_whatever_its_count_depends_on) {
  const std::vector<std::int32_t> values = {1, 2, 3, 4, 5};
  const Buffer x = device_->buffer<std::int32_t>(values), z = device_->zeros({5}, s32);
  const Buffer y = device_->zeros({10000}, s32);
  device_->run("fill", {}, y, {{"value", 100000}});
  for (const auto& [kernel, count] : cases()) {
    const bool done = is_done(
        kernel.name(), [&] { device_->run(kernel, {x, y}, z); },
        [&] { EXPECT_EQ(z.read<std::int32_t>(), changed(values, count)) << kernel.name(); });
    EXPECT_EQ(done, !has_limit_ || count < 65000) << kernel.name();
  }
}

TEST_P(GpuSteps, A_loop_completes_or_is_refused_if_its_count_is_a_parameter) {
  if (GetParam() == "gles") GTEST_SKIP() << "has no s64";
  const auto kernel = tile::kernel("by_parameter", [](Out z, In x, Count n) { store_changed(z, x, n); });
  const std::vector<std::int32_t> values = {1, 2, 3, 4, 5};
  const Buffer x = device_->buffer<std::int32_t>(values), z = device_->zeros({5}, s32);
  for (const std::int64_t count : {1000, 60000, 66000, 1000000}) {
    const bool done = is_done(
        "by_parameter", [&] { device_->run(kernel, {x}, z, {{"n", count}}); },
        [&] { EXPECT_EQ(z.read<std::int32_t>(), changed(values, count)) << count; });
    EXPECT_EQ(done, !has_limit_ || count < 65000) << count;
  }
}

TEST_P(GpuSteps, Loops_inside_functions_count_too) {
  const auto remainders = tile::kernel("remainders", [](tile::Out<float> z, tile::In<float> x, tile::In<float> y) {
    z.store(tile::reduce_max(x.load({1, x.dim(1)}, {0, 0}) % y.load({1, x.dim(1)}, {0, 0}), 1));
  });
  const auto powers = tile::kernel("powers", [](Out z, In x, In y) {
    z.store(tile::reduce_sum(tile::pow(x.load({1, x.dim(1)}, {0, 0}), y.load({1, x.dim(1)}, {0, 0})), 1));
  });
  for (const std::int64_t count : {200000, 2000000}) {
    std::vector<float> a, b;
    std::vector<std::int32_t> base, exponent;
    float want_rest = 0;
    std::uint32_t want_sum = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      a.push_back(3.0e38F - static_cast<float>(i) * 1e31F);
      b.push_back(1.1e-30F * static_cast<float>(i % 7 + 1));
      base.push_back(static_cast<std::int32_t>(i % 11 - 5));
      exponent.push_back(static_cast<std::int32_t>(0x7ffffff0 + i % 13));
      want_rest = std::max(want_rest, std::fmod(a.back(), b.back()));
      std::uint32_t power = 1, x = static_cast<std::uint32_t>(base.back());
      for (std::int32_t y = exponent.back(); y != 0; y >>= 1, x *= x) power *= (y & 1) != 0 ? x : 1;
      want_sum += power;
    }
    const Buffer rest = device_->zeros({1, 1}), sum = device_->zeros({1, 1}, s32);
    is_done(
        "remainders",
        [&] {
          device_->run(remainders, {device_->buffer<float>(a, {1, count}), device_->buffer<float>(b, {1, count})},
                       rest);
        },
        [&] { EXPECT_EQ(rest.read<float>()[0], want_rest) << count; });
    is_done(
        "powers",
        [&] {
          device_->run(
              powers,
              {device_->buffer<std::int32_t>(base, {1, count}), device_->buffer<std::int32_t>(exponent, {1, count})},
              sum);
        },
        [&] { EXPECT_EQ(sum.read<std::int32_t>()[0], static_cast<std::int32_t>(want_sum)) << count; });
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, GpuSteps, ::testing::Values("vulkan", "opencl", "gles"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace tessera
