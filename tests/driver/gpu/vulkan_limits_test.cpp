// Vulkan on devices that this machine does not have: see fake_vulkan.hpp. Runs in the program of vulkan_test.cpp, under
// the validation layer.
#include "driver/gpu/api_checks.hpp"
#include "driver/gpu/fake_vulkan.hpp"
#include "driver/gpu/on_device.hpp"
#include "driver/gpu/vulkan/loader.hpp"
#include "driver/gpu/watchdog.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace tessera::driver::gpu {
namespace {

using namespace test;
using tessera::test::expect_error;

constexpr VkQueueFlags graphics = VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT | VK_QUEUE_TRANSFER_BIT;
constexpr VkQueueFlags compute = VK_QUEUE_COMPUTE_BIT | VK_QUEUE_TRANSFER_BIT;
constexpr VkQueueFlags transfer = VK_QUEUE_TRANSFER_BIT | VK_QUEUE_SPARSE_BINDING_BIT;
constexpr VkQueueFlags decoding = VK_QUEUE_TRANSFER_BIT | VK_QUEUE_VIDEO_DECODE_BIT_KHR;
constexpr VkQueueFlags encoding = VK_QUEUE_TRANSFER_BIT | 0x40;  // VK_QUEUE_VIDEO_ENCODE_BIT_KHR, in a beta header

constexpr VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
constexpr VkMemoryPropertyFlags visible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT;
constexpr VkMemoryPropertyFlags coherent = VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
constexpr VkMemoryPropertyFlags cached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;

class Vulkan_limits : public testing::Test {
 protected:
  void SetUp() override {
    setenv("TESSERA_VULKAN_STAGING", "0", 1);
    setenv("TESSERA_VULKAN_SETS", "0", 1);
    if (vulkan_devices().empty()) GTEST_SKIP() << "no Vulkan device";
    fake_.emplace();
  }
  void TearDown() override {
    if (!fake_) return;
    EXPECT_EQ(fake_->violations(), std::vector<std::string>());
  }
  FakeVulkan& fake() { return *fake_; }

  // Copies and kernels work.
  void expect_all_works() {
    {
      const auto api = fake().open();
      check_copies(*api);
    }
    expect_computes(device_with(fake().open()));
  }
  void pretend_discrete() {
    fake().change_properties = [](VkPhysicalDeviceProperties& properties) {
      properties.deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
      properties.limits.nonCoherentAtomSize = 256;
    };
  }

 private:
  std::optional<FakeVulkan> fake_;
};

TEST_F(Vulkan_limits, Without_limits_the_fake_changes_nothing) {
  expect_all_works();
  EXPECT_EQ(fake().used_families(), std::set<std::uint32_t>{0});
}

TEST_F(Vulkan_limits, Copies_on_a_queue_that_only_copies) {
  fake().families = {graphics, transfer};
  fake().memory_types = {local, visible | coherent | cached};
  pretend_discrete();
  expect_all_works();
  EXPECT_EQ(fake().used_families(), (std::set<std::uint32_t>{0, 1}));
  EXPECT_EQ(fake().mapped_types(), std::set<std::uint32_t>{1});
}

TEST_F(Vulkan_limits, Leaves_video_queues_alone) {
  const auto expect_queues = [&](std::vector<VkQueueFlags> families, vulkan::QueueChoice computing,
                                 vulkan::QueueChoice copying) {
    fake().families = std::move(families);
    const vulkan::PhysicalDevice& device = fake().device();
    EXPECT_EQ(device.compute, computing);
    EXPECT_EQ(device.transfer, copying);
  };
  expect_queues({graphics, decoding, encoding, transfer}, {0, 0}, {3, 0});
  expect_queues({graphics, decoding, encoding}, {0, 0}, {0, 0});
  expect_queues({graphics, compute | VK_QUEUE_VIDEO_DECODE_BIT_KHR, compute}, {2, 0}, {2, 0});
  expect_queues({compute | VK_QUEUE_VIDEO_DECODE_BIT_KHR}, {0, 0}, {0, 0});
  expect_queues({decoding, graphics, compute, transfer}, {2, 0}, {3, 0});
}

TEST_F(Vulkan_limits, Computes_on_the_second_of_three_families) {
  fake().families = {graphics, compute, transfer, decoding};
  fake().memory_types = {local, visible | coherent, visible | cached | coherent};
  pretend_discrete();
  expect_all_works();
  EXPECT_EQ(fake().used_families(), (std::set<std::uint32_t>{1, 2}));
  EXPECT_EQ(fake().mapped_types(), std::set<std::uint32_t>{2});
}

TEST_F(Vulkan_limits, Flushes_and_invalidates_memory_that_is_not_coherent) {
  fake().memory_types = {local, visible | coherent, visible | cached};
  pretend_discrete();
  expect_all_works();
  EXPECT_EQ(fake().mapped_types(), std::set<std::uint32_t>{2}) << "uncached memory is slow to read";
}

TEST_F(Vulkan_limits, Flushes_arguments_in_memory_that_is_not_coherent) {
  fake().memory_types = {local, visible | coherent, visible | cached};
  fake().change_properties = [](VkPhysicalDeviceProperties& properties) {
    properties.deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    properties.limits.nonCoherentAtomSize = 256;
    properties.limits.maxPushConstantsSize = 0;
  };
  expect_computes(device_with(fake().open()));
}

TEST_F(Vulkan_limits, Shares_memory_with_the_host_only_if_it_is_cached) {
  const auto is_shared = [&](std::vector<VkMemoryPropertyFlags> types) {
    fake().memory_types = std::move(types);
    return fake().open()->allocate(64)->host_address() != nullptr;
  };
  EXPECT_TRUE(is_shared({local | visible | coherent | cached}));
  EXPECT_TRUE(is_shared({local, local | visible | coherent, local | visible | coherent | cached}));
  EXPECT_FALSE(is_shared({local | visible | coherent}));
  EXPECT_FALSE(is_shared({local | visible | cached}));
  EXPECT_FALSE(is_shared({local | visible | coherent, visible | coherent | cached}));
}

TEST_F(Vulkan_limits, Reads_uncached_memory_through_a_cached_stage) {
  fake().memory_types = {local | visible | coherent, visible | coherent | cached};
  expect_all_works();
  EXPECT_EQ(fake().mapped_types(), std::set<std::uint32_t>{1});
}

// lavapipe runs one submission after the other anyway.
TEST_F(Vulkan_limits, Submissions_wait_for_earlier_ones_by_a_barrier) {
  const auto api = fake().open();
  compile::gpu::Kernel source = kernel(*api, "#version 450\nlayout(local_size_x = 1) in;\nvoid main() {}\n", 0, 0);
  const auto module = api->compile(source, "nothing");
  Dispatch call;
  call.module = module.get();
  run(*api, {&call, 1});
  EXPECT_EQ(fake().leading_barriers(), 0);
  call.waits_for_submissions = true;
  run(*api, {&call, 1});
  EXPECT_EQ(fake().leading_barriers(), 1);
}

// ---- floats

constexpr std::uint32_t denormals = 4459, specials = 4461;  // execution modes

class Vulkan_floats : public Vulkan_limits {
 protected:
  // The execution modes of a kernel of floats and one of doubles.
  std::set<std::vector<std::uint32_t>> modes(std::function<void(VkPhysicalDeviceFloatControlsProperties&)> change) {
    fake().change_floats = [change = std::move(change)](VkPhysicalDeviceFloatControlsProperties& floats) {
      const VkStructureType type = floats.sType;
      void* const next = floats.pNext;
      floats = {};
      floats.sType = type;
      floats.pNext = next;
      floats.denormBehaviorIndependence = VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_ALL;
      change(floats);
    };
    const Device device = device_with(fake().open());
    expect_works(device);
    const Buffer wide = device.zeros({4}, f64);
    device.run("scale", {wide}, wide, {{"factor", 2}});
    auto all = fake().modes();
    std::erase_if(all, [](const auto& mode) { return mode[0] != denormals && mode[0] != specials; });
    return all;
  }
};

TEST_F(Vulkan_floats, Asks_for_nothing_that_the_device_lacks) {
  EXPECT_TRUE(modes([](auto&) {}).empty());
  EXPECT_FALSE(fake().capabilities().contains(4464));
  EXPECT_FALSE(fake().capabilities().contains(4466));
}

TEST_F(Vulkan_floats, Asks_to_keep_denormals) {
  const auto all = modes([](auto& floats) { floats.shaderDenormPreserveFloat32 = VK_TRUE; });
  EXPECT_EQ(all, (std::set<std::vector<std::uint32_t>>{{denormals, 32}}));
  EXPECT_TRUE(fake().capabilities().contains(4464));
}

TEST_F(Vulkan_floats, Asks_to_keep_NaN_infinity_and_signed_zero) {
  const auto all = modes([](auto& floats) {
    floats.shaderSignedZeroInfNanPreserveFloat32 = floats.shaderSignedZeroInfNanPreserveFloat64 = VK_TRUE;
  });
  EXPECT_EQ(all, (std::set<std::vector<std::uint32_t>>{{specials, 32}, {specials, 64}}));
  EXPECT_TRUE(fake().capabilities().contains(4466));
}

TEST_F(Vulkan_floats, Treats_the_denormals_of_all_widths_alike_if_it_must) {
  const auto all = modes([](auto& floats) {
    floats.denormBehaviorIndependence = VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE;
    floats.shaderDenormPreserveFloat32 = VK_TRUE;
  });
  EXPECT_TRUE(all.empty());
}

TEST_F(Vulkan_floats, What_this_device_has_is_asked_for_and_valid) {
  expect_computes(device_with(fake().open()));
  const vulkan::FloatControls& has = fake().device().floats;
  const auto asked = fake().modes();
  EXPECT_EQ(asked.contains({denormals, 32}), has.denormals.f32);
  EXPECT_EQ(asked.contains({specials, 32}), has.specials.f32);
}

// ---- workgroups and subgroups

// Kernels that used subgroups would have one of these capabilities, and might depend on their size, which is 4 to 128.
TEST_F(Vulkan_limits, Kernels_do_not_depend_on_the_size_of_subgroups) {
  expect_computes(device_with(fake().open()));
  for (const std::uint32_t used : fake().capabilities()) {
    EXPECT_FALSE((used >= 61 && used <= 68) || used == 4423 || used == 4431) << used;
  }
  for (std::uint32_t subgroup = 4; subgroup <= 128; subgroup *= 2)
    EXPECT_EQ(fake().device().target.group % subgroup, 0);
}

TEST_F(Vulkan_limits, Workgroups_are_a_power_of_two_within_the_limits) {
  for (const std::uint32_t most : {1024U, 128U, 100U, 33U, 4U}) {
    fake().change_properties = [&](VkPhysicalDeviceProperties& properties) {
      properties.limits.maxComputeWorkGroupInvocations = most;
    };
    const int group = fake().device().target.group;
    EXPECT_EQ(group, static_cast<int>(std::min(128U, std::bit_floor(most))));
    if (most == 100 || most == 4) expect_computes(device_with(fake().open()));
  }
}

// ---- portability

TEST_F(Vulkan_limits, Enables_the_portability_subset_where_a_device_has_it) {
  fake().more_extensions = {"VK_KHR_portability_subset"};
  expect_works(device_with(fake().open()));
  const std::vector<std::string> enabled = fake().enabled_extensions();
  EXPECT_NE(std::ranges::find(enabled, "VK_KHR_portability_subset"), enabled.end());
}

TEST_F(Vulkan_limits, Does_not_enable_extensions_that_a_device_lacks) {
  expect_works(device_with(fake().open()));
  const std::vector<std::string> enabled = fake().enabled_extensions();
  EXPECT_EQ(std::ranges::find(enabled, "VK_KHR_portability_subset"), enabled.end());
}

// An entry whose instances are not created; it notes how they would have been.
struct Portability {
  static inline bool is_offered = false, is_enumerated = false;
  static inline std::vector<std::string> enabled;

  static VkResult extensions(const char*, std::uint32_t* count, VkExtensionProperties* properties) {
    *count = is_offered ? 1 : 0;
    if (is_offered && properties) {
      *properties = {};
      std::string("VK_KHR_portability_enumeration").copy(properties->extensionName, VK_MAX_EXTENSION_NAME_SIZE - 1);
    }
    return VK_SUCCESS;
  }
  static VkResult create(const VkInstanceCreateInfo* info, const VkAllocationCallbacks*, VkInstance*) {
    is_enumerated = (info->flags & VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR) != 0;
    enabled.assign(info->ppEnabledExtensionNames, info->ppEnabledExtensionNames + info->enabledExtensionCount);
    return VK_ERROR_INCOMPATIBLE_DRIVER;
  }
  static PFN_vkVoidFunction entry(VkInstance instance, const char* name) {
    if (std::string_view(name) == "vkEnumerateInstanceExtensionProperties") {
      return reinterpret_cast<PFN_vkVoidFunction>(extensions);
    }
    if (std::string_view(name) == "vkCreateInstance") return reinterpret_cast<PFN_vkVoidFunction>(create);
    return vulkan::find_entry()(instance, name);
  }
};

TEST_F(Vulkan_limits, Lists_portability_devices_where_the_loader_hides_them) {
  const auto has = [](const char* name) {
    return std::ranges::find(Portability::enabled, name) != Portability::enabled.end();
  };
  for (const bool is_offered : {false, true}) {
    Portability::is_offered = is_offered;
    const vulkan::Instance instance(Portability::entry);
    EXPECT_TRUE(instance.devices().empty());
    EXPECT_EQ(Portability::is_enumerated, is_offered);
    EXPECT_EQ(has("VK_KHR_portability_enumeration"), is_offered);
  }
  EXPECT_TRUE(vulkan::Instance(nullptr).devices().empty());
}

// ---- hanging kernels

class Vulkan_watchdog : public Vulkan_limits {
 protected:
  void SetUp() override {
    setenv("TESSERA_GPU_TIMEOUT", "0.2", 1);
    Vulkan_limits::SetUp();
  }
  void TearDown() override {
    Vulkan_limits::TearDown();
    unsetenv("TESSERA_GPU_TIMEOUT");
  }
};

TEST_F(Vulkan_watchdog, A_kernel_that_hangs_is_an_error_after_the_time_and_others_go_on) {
  std::optional<Device> device(device_with(fake().open()));
  const Device other = device_with(open_vulkan(0));
  expect_computes(*device);
  const Buffer x = device->buffer<float>({1, 2, 3}), z = device->zeros({3});
  const Clock::time_point begin = Clock::now();
  fake().hangs = true;
  const Command hanging = device->submit("relu", {x}, z);
  const Command after = device->submit("relu", {z}, z);
  std::jthread beside([&] { expect_works(other); });
  expect_error(Errc::device_failure, "a kernel has not finished within 0.2 s", [&] { hanging.wait(); });
  EXPECT_GE(Clock::now() - begin, 200ms);
  EXPECT_LT(Clock::now() - begin, 5s);
  expect_error(Errc::device_failure, "TESSERA_GPU_TIMEOUT", [&] { after.wait(); });
  expect_error(Errc::device_failure, "is lost", [&] { device->run("relu", {x}, z); });
  expect_error(Errc::device_failure, "is lost", [&] { z.read<float>(); });
  device.reset();  // does not wait for the kernel
  EXPECT_LT(Clock::now() - begin, 5s);
}

TEST_F(Vulkan_watchdog, A_copy_that_hangs_is_an_error) {
  fake().memory_types = {local, visible | coherent | cached};
  pretend_discrete();
  const auto api = fake().open();
  const auto memory = memory_with(*api, counted(100));
  fake().hangs = true;
  expect_error(Errc::device_failure, "a copy has not finished within 0.2 s",
               [&] { values_of<std::int32_t>(*api, *memory, 100); });
  expect_error(Errc::device_failure, "is lost", [&] { memory_with(*api, counted(100)); });
}

TEST_F(Vulkan_watchdog, Slow_progress_is_progress) {
  const Device device = device_with(fake().open());
  const Buffer x = device.zeros({192, 192}), z = device.zeros({192, 192});
  const Clock::time_point begin = Clock::now();
  std::vector<Command> commands;
  // Each takes far less than the limit, all together more.
  while (Clock::now() - begin < 400ms) {
    for (int i = 0; i < 16; ++i) commands.push_back(device.submit("matmul", {x, x}, z));
    commands[commands.size() - 8].wait();
  }
  for (const Command& command : commands) command.wait();
}

TEST_F(Vulkan_watchdog, A_limit_that_is_no_number_is_refused) {
  for (const char* wrong : {"soon", "-1", "5s", "nan", "inf"}) {
    setenv("TESSERA_GPU_TIMEOUT", wrong, 1);
    expect_error(Errc::invalid_argument, std::string("TESSERA_GPU_TIMEOUT is '") + wrong,
                 [&] { device_with(fake().open()); });
  }
}

TEST_F(Vulkan_watchdog, Zero_means_no_limit) {
  setenv("TESSERA_GPU_TIMEOUT", "0", 1);
  const auto api = fake().open();
  Watchdog watchdog(*api);
  fake().hangs = true;
  const std::uint64_t number = watchdog.started(api->submit({}));
  const Progress progress = watchdog.wait(number, Clock::now() + 300ms);
  EXPECT_LT(progress.ended, number);
  EXPECT_FALSE(progress.failure);
  setenv("TESSERA_GPU_TIMEOUT", "0.2", 1);
  api->lose("the test is over");  // otherwise it would wait for the submission
}

}  // namespace
}  // namespace tessera::driver::gpu
