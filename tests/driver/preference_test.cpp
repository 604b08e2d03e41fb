// The choice of the default device.
#include "driver/preference.hpp"

#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace tessera::driver {
namespace {

using tessera::test::expect_error;
using Names = std::vector<std::string>;

enum class Kind : std::uint8_t { software, integrated, discrete };

DeviceInfo device(std::string backend, Kind kind) {
  DeviceInfo info;
  info.backend = std::move(backend);
  info.is_gpu = kind != Kind::software;
  info.is_discrete = kind == Kind::discrete;
  return info;
}

const DeviceInfo cpu = device("cpu", Kind::software);

TEST(Preference, A_software_GPU_never_wins_over_the_CPU) {
  EXPECT_EQ(by_preference({cpu}), Names({"cpu"}));
  EXPECT_EQ(by_preference({cpu, device("vulkan", Kind::software), device("opencl", Kind::software)}), Names({"cpu"}));
}

TEST(Preference, A_discrete_GPU_wins_whatever_its_backend) {
  EXPECT_EQ(by_preference({cpu, device("vulkan", Kind::integrated), device("vulkan:1", Kind::software),
                           device("opencl", Kind::discrete), device("gles", Kind::integrated)}),
            Names({"opencl", "vulkan", "gles", "cpu"}));
}

TEST(Preference, GPUs_of_a_kind_stay_in_the_order_of_the_list) {
  EXPECT_EQ(by_preference({cpu, device("vulkan", Kind::discrete), device("vulkan:1", Kind::discrete),
                           device("opencl", Kind::discrete)}),
            Names({"vulkan", "vulkan:1", "opencl", "cpu"}));
}

TEST(Preference, Devices_that_cannot_be_opened_are_skipped) {
  const std::set<std::string> broken = {"vulkan", "opencl"};
  const auto open = [&](const std::string& name) {
    if (broken.contains(name)) throw Error(Errc::device_failure, name + " does not work");
    return name;
  };
  EXPECT_EQ(open_first({"vulkan", "opencl", "gles", "cpu"}, open), "gles");
  EXPECT_EQ(open_first({"vulkan", "opencl", "cpu"}, open), "cpu");
  expect_error(Errc::device_failure, "opencl does not work", [&] { open_first({"vulkan", "opencl"}, open); });
}

}  // namespace
}  // namespace tessera::driver
