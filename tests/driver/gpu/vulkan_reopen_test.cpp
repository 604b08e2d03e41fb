// A lost device is opened again by Device::open. The fake, and what it replaces, stay for the whole process: the
// devices that go through it do too.
#include <tessera/tessera.hpp>

#include "driver/gpu/fake_vulkan.hpp"
#include "driver/gpu/on_device.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

namespace tessera {
namespace {

using driver::gpu::test::expect_computes;
using driver::gpu::test::expect_works;
using driver::gpu::test::FakeVulkan;
using test::expect_error;

class Vulkan_reopening : public testing::Test {
 protected:
  void SetUp() override {
    setenv("TESSERA_GPU_TIMEOUT", "0.2", 1);
    setenv("TESSERA_DEVICE", "vulkan", 1);
    if (driver::gpu::vulkan_devices().empty()) GTEST_SKIP() << "no Vulkan device";
  }
  void TearDown() override { EXPECT_EQ(fake().violations(), std::vector<std::string>()); }

  static FakeVulkan& fake() {
    static auto& made = *new FakeVulkan();
    static auto& everywhere = *new FakeVulkan::Everywhere(made);
    static_cast<void>(everywhere);
    return made;
  }
};

TEST_F(Vulkan_reopening, A_lost_device_is_opened_again) {
  fake().is_lost = false;
  const Device first = Device::open("vulkan");
  expect_computes(first);
  const Buffer x = first.buffer<float>({1, 2, 3}), z = first.zeros({3});
  EXPECT_EQ(z.device(), first);
  EXPECT_EQ(Device::open("vulkan"), first);
  fake().is_lost = true;
  expect_error(Errc::device_failure, "is lost", [&] { first.run("relu", {x}, z); });
  fake().is_lost = false;
  const Device second = Device::open("vulkan");
  EXPECT_NE(second, first);
  expect_computes(second);
  EXPECT_EQ(Device::open("vulkan"), second);
  EXPECT_EQ(Device::open("vulkan:0"), second);
  EXPECT_EQ(Device::best(), second);
  // The lost one stays lost.
  expect_error(Errc::device_failure, "is lost", [&] { first.run("relu", {x}, z); });
  expect_error(Errc::device_failure, "is lost", [&] { first.zeros({3}); });
  expect_error(Errc::wrong_device, "", [&] { second.run("relu", {x}, second.zeros({3})); });
  expect_works(second);
}

TEST_F(Vulkan_reopening, So_is_one_that_hangs) {
  const Device first = Device::open("vulkan");
  const Buffer x = first.buffer<float>({1, 2, 3}), z = first.zeros({3});
  fake().hangs = true;
  const Command hanging = first.submit("relu", {x}, z);
  expect_error(Errc::device_failure, "has not finished within 0.2 s", [&] { hanging.wait(); });
  fake().hangs = false;
  expect_works(Device::open("vulkan"));
  expect_error(Errc::device_failure, "is lost", [&] { first.run("relu", {x}, z); });
}

TEST_F(Vulkan_reopening, If_it_cannot_be_opened_that_is_an_error_until_it_can) {
  const Device first = Device::open("vulkan");
  const Buffer z = first.zeros({3});
  fake().is_lost = true;
  expect_error(Errc::device_failure, "is lost", [&] { first.run("fill", {}, z, {{"value", 1}}); });
  {
    const driver::gpu::test::Replaced none(
        driver::gpu::vulkan::Instance::get().functions().CreateDevice,
        PFN_vkCreateDevice(+[](VkPhysicalDevice, const VkDeviceCreateInfo*, const VkAllocationCallbacks*, VkDevice*) {
          return VK_ERROR_INITIALIZATION_FAILED;
        }));
    expect_error(Errc::device_failure, "cannot be opened", [] { Device::open("vulkan"); });
  }
  fake().is_lost = false;
  expect_works(Device::open("vulkan"));
}

}  // namespace
}  // namespace tessera
