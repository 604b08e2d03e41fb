#include "driver/gpu/api_checks.hpp"
#include "driver/gpu/forwarding_api.hpp"
#include "driver/gpu/on_device.hpp"
#include "driver/gpu/opencl/functions.hpp"
#include "driver/gpu/opencl/open.hpp"
#include "driver/gpu/opencl/waitable_children.hpp"
#include "driver/gpu/replaced.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <thread>
#include <utility>

namespace tessera::driver::gpu {
namespace {

using namespace test;
using tessera::test::expect_error;

const Kernels kernels{
    .next = R"(
      typedef struct { int n, k; } Arguments;
      __kernel void kernel_main(__global int* to, __global const int* from, Arguments a) {
        const int i = get_global_id(0);
        if (i < a.n) to[i] = from[(i + 1) % a.n] * 3 + a.k;
      })",
    .slow = R"(
      typedef struct { int n, k; } Arguments;
      __kernel void kernel_main(__global int* data, Arguments a) {
        const int at = get_global_id(0);
        if (at >= a.n) return;
        uint x = data[at];
        for (int i = 0; i < a.k; ++i) x = (x ^ (x >> 3)) * 1664525u + 1013904223u;
        data[at] = x;
      })",
};

// With memory shared between host and device, and with device-only memory.
class OpenCL : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (opencl_devices().empty()) GTEST_SKIP() << "there is no OpenCL device";
    api_ = open_opencl(0, GetParam());
  }
  Api& api() { return *api_; }

  std::unique_ptr<Api> api_;
};
INSTANTIATE_TEST_SUITE_P(Memory, OpenCL, testing::Bool(),
                         [](const auto& shares) { return shares.param ? "shared" : "copied"; });

TEST_P(OpenCL, Describes_itself) {
  const DeviceInfo& info = api().info();
  EXPECT_FALSE(info.name.empty());
  EXPECT_EQ(info.backend, "opencl");
  EXPECT_NE(info.version.find("OpenCL"), std::string::npos);
  EXPECT_GT(info.memory, 1U << 20);
  EXPECT_GE(info.compute_units, 1U);
  EXPECT_EQ(std::ranges::count(info.dtypes, f64), api().target().has_f64 ? 1 : 0);
  EXPECT_EQ(api().target().dialect, compile::gpu::Dialect::opencl);
  EXPECT_GE(api().target().group, 1);
  EXPECT_GE(api().most_buffer_bytes(), 1U << 20);
}

TEST_P(OpenCL, Lists_gpus_first) {
  const auto all = opencl_devices();
  EXPECT_TRUE(std::ranges::is_sorted(all, std::greater(), &DeviceInfo::is_gpu));
  expect_error(Errc::unknown_device, "there is no OpenCL device", [&] { open_opencl(all.size()); });
}

TEST_P(OpenCL, Copies_any_bytes) { check_copies(api()); }
TEST_P(OpenCL, Reports_out_of_memory) { check_out_of_memory(api()); }
TEST_P(OpenCL, Runs_dependent_calls_in_order) { check_chain(api(), kernels); }
TEST_P(OpenCL, Runs_independent_calls) { check_calls_that_do_not_wait(api(), kernels); }
TEST_P(OpenCL, Runs_a_recording_many_times) { check_recording(api(), kernels); }
TEST_P(OpenCL, Accepts_submissions_from_many_threads) { check_many_threads(api(), kernels); }
TEST_P(OpenCL, Waits_no_longer_than_the_limit) { check_wait_ends_in_time(api(), kernels); }
TEST_P(OpenCL, Submissions_wait_for_earlier_ones) { check_submissions_that_wait(api(), kernels); }
TEST_P(OpenCL, Fails_all_waiters_when_lost) { check_lose(api(), kernels); }

struct OneCall {
  explicit OneCall(Api& api)
      : module(api.compile(kernel(api, kernels.next, 2, 2), "next")),
        from(memory_with(api, counted(100))),
        to(memory_with(api, counted(100))),
        call{module.get(), {to.get(), from.get()}, words({100, 0}), groups_for(api, 100), true} {}
  std::unique_ptr<Module> module;
  std::unique_ptr<Memory> from, to;
  Dispatch call;
};

TEST_P(OpenCL, Is_out_of_memory_but_not_lost_if_a_call_runs_out_of_resources) {
  const OneCall one(api());
  {
    const Replaced none(
        opencl::functions()->enqueue_kernel,
        +[](cl_command_queue, cl_kernel, cl_uint, const std::size_t*, const std::size_t*, const std::size_t*, cl_uint,
            const cl_event*, cl_event*) { return CL_OUT_OF_RESOURCES; });
    expect_error(Errc::out_of_memory, "CL_OUT_OF_RESOURCES", [&] { api().submit({&one.call, 1}); });
  }
  run(api(), {&one.call, 1});
}

std::atomic<int> waited = 0;
decltype(&::clWaitForEvents) wait_for_real = nullptr;

// Querying the status of a command does not make its writes visible to the host.
TEST_P(OpenCL, Waits_for_the_event_of_a_finished_command) {
  const OneCall one(api());
  wait_for_real = opencl::functions()->wait_for_events;
  const Replaced counting(
      opencl::functions()->wait_for_events, +[](cl_uint count, const cl_event* events) {
        waited += static_cast<int>(count);
        return wait_for_real(count, events);
      });
  const std::uint64_t number = api().submit({&one.call, 1});
  waited = 0;
  while (api().wait(number, Clock::time_point::min()).ended < number) std::this_thread::yield();
  EXPECT_EQ(waited, 1);
}

std::atomic<std::size_t> most_group = 0;
std::atomic<int> asked = 0;

// Kernels with many registers may not run in workgroups as large as the device allows.
TEST_P(OpenCL, Uses_smaller_workgroups_for_kernels_that_need_them) {
  const Replaced limited(
      opencl::functions()->get_kernel_group_info,
      +[](cl_kernel, cl_device_id, cl_kernel_work_group_info, std::size_t size, void* answer, std::size_t*) -> cl_int {
        ++asked;
        if (size != sizeof(std::size_t)) return CL_INVALID_VALUE;
        *static_cast<std::size_t*>(answer) = most_group;
        return CL_SUCCESS;
      });
  for (const std::size_t most : {40U, 1U}) {
    most_group = most;
    asked = 0;
    const Device device = device_with(open_opencl(0, GetParam()));
    const Buffer x = device.buffer<float>(std::vector<float>(300, 2), {3, 100}), sums = device.zeros({3});
    device.run("reduce_sum", {x}, sums, {{"axis", 1}});
    EXPECT_EQ(sums.read<float>(), (std::vector<float>{200, 200, 200}));
    EXPECT_EQ(asked, 2) << "it was compiled again";
  }
  most_group = 0;
  const Device device = device_with(open_opencl(0, GetParam()));
  const Buffer z = device.zeros({3});
  expect_error(Errc::invalid_kernel, "supports at most 0", [&] { device.run("relu", {z}, z); });
}

std::atomic<bool> hangs = false;
decltype(&::clGetEventInfo) get_event_info = nullptr;

// A kernel that never ends, in a driver that keeps saying that it runs.
TEST_P(OpenCL, A_kernel_that_hangs_is_an_error_after_the_time) {
  setenv("TESSERA_GPU_TIMEOUT", "0.2", 1);
  hangs = false;
  get_event_info = opencl::functions()->get_event_info;
  const Replaced running(
      opencl::functions()->get_event_info,
      +[](cl_event event, cl_event_info what, std::size_t size, void* status, std::size_t* needed) -> cl_int {
        if (!hangs) return get_event_info(event, what, size, status, needed);
        *static_cast<cl_int*>(status) = CL_RUNNING;
        return CL_SUCCESS;
      });
  OpenApis open;
  expect_error_if_it_hangs(device_with(open.count(open_opencl(0, GetParam()))), hangs);
  open.wait_until_none();
  unsetenv("TESSERA_GPU_TIMEOUT");
}

template <class T>
void check_type(Api& api, const std::string& type) {
  const std::string source = "typedef struct { int n; } Arguments;\n__kernel void kernel_main(__global " + type +
                             "* to, __global const " + type +
                             "* from, Arguments a) { const int i = get_global_id(0); if (i < a.n) to[i] = from[i] * (" +
                             type + ")3 + (" + type + ")1; }";
  const int n = 1001;
  std::vector<T> values;
  std::vector<T> expected;
  for (int i = 0; i < n; ++i) {
    values.push_back(static_cast<T>(i * 5 - 7));
    expected.push_back(static_cast<T>(values.back() * static_cast<T>(3) + static_cast<T>(1)));
  }
  const auto module = api.compile(kernel(api, source, 2, 1), type);
  auto from = memory_with(api, values);
  auto to = memory_with(api, std::vector<T>(values.size()));
  const Dispatch call{module.get(), {to.get(), from.get()}, words({n}), groups_for(api, n), true};
  run(api, {&call, 1});
  EXPECT_EQ(values_of<T>(api, *to, values.size()), expected) << type;
}

TEST_P(OpenCL, Runs_kernels_of_every_type) {
  check_type<float>(api(), "float");
  check_type<std::int32_t>(api(), "int");
  check_type<std::int64_t>(api(), "long");
  check_type<std::uint32_t>(api(), "uint");
  check_type<std::uint8_t>(api(), "uchar");
  if (api().target().has_f64) check_type<double>(api(), "double");
}

TEST_P(OpenCL, Reports_why_a_kernel_does_not_compile) {
  const auto wrong = kernel(api(), "__kernel void kernel_main(__global int* to) { to[0] = unheard_of; }", 1, 0);
  expect_error(Errc::invalid_kernel, "[wrong] does not compile", [&] { api().compile(wrong, "wrong"); });
  expect_error(Errc::invalid_kernel, "unheard_of", [&] { api().compile(wrong, "wrong"); });
}

// As in the Erlang VM. Without its cache, PoCL starts a linker, at the first run again. Afterwards the signal is what
// it was, since the program chose it.
TEST_P(OpenCL, Compiles_where_SIGCHLD_is_ignored_and_leaves_it_so) {
  struct sigaction before{};
  struct sigaction ignored{};
  ignored.sa_handler = SIG_IGN;
  ignored.sa_flags = SA_RESTART;
  ASSERT_EQ(sigaction(SIGCHLD, &ignored, &before), 0);
  const std::string source = "__kernel void kernel_main(__global int* to) { to[get_global_id(0)] = " +
                             std::to_string(Clock::now().time_since_epoch().count() % 1000000007) + "; }";
  const auto module = api().compile(kernel(api(), source, 1, 0), "new");
  auto to = memory_with(api(), counted(api().target().group));
  const Dispatch call{module.get(), {to.get()}, {}, 1, true};
  run(api(), {&call, 1});
  struct sigaction after{};
  const auto is_ignored = [&] { return sigaction(SIGCHLD, nullptr, &after) == 0 && after.sa_handler == SIG_IGN; };
  const auto deadline = Clock::now() + std::chrono::seconds(10);  // PoCL reports the end to us after it told the waiter
  while (!is_ignored() && Clock::now() < deadline) std::this_thread::yield();
  EXPECT_TRUE(is_ignored());
  EXPECT_NE(after.sa_flags & SA_RESTART, 0);
  ASSERT_EQ(sigaction(SIGCHLD, &before, nullptr), 0);
}

void handle_child(int) {}

TEST_P(OpenCL, Leaves_the_programs_own_handler_of_SIGCHLD_alone) {
  struct sigaction before{};
  struct sigaction own{};
  own.sa_handler = handle_child;
  ASSERT_EQ(sigaction(SIGCHLD, &own, &before), 0);
  {
    const opencl::WaitableChildren children(opencl::devices().front());
    struct sigaction now{};
    ASSERT_EQ(sigaction(SIGCHLD, nullptr, &now), 0);
    EXPECT_EQ(now.sa_handler, &handle_child);
  }
  ASSERT_EQ(sigaction(SIGCHLD, &before, nullptr), 0);
}

TEST_P(OpenCL, An_action_for_SIGCHLD_that_the_program_sets_meanwhile_stays) {
  struct sigaction before{};
  struct sigaction ignored{};
  ignored.sa_handler = SIG_IGN;
  struct sigaction own{};
  own.sa_handler = handle_child;
  ASSERT_EQ(sigaction(SIGCHLD, &ignored, &before), 0);
  opencl::Found pocl = opencl::devices().front();
  pocl.is_pocl = true;
  struct sigaction now{};
  {
    const opencl::WaitableChildren children(pocl);
    ASSERT_EQ(sigaction(SIGCHLD, nullptr, &now), 0);
    EXPECT_EQ(now.sa_handler, SIG_DFL);
    ASSERT_EQ(sigaction(SIGCHLD, &own, nullptr), 0);
  }
  ASSERT_EQ(sigaction(SIGCHLD, &before, &now), 0);
  EXPECT_EQ(now.sa_handler, &handle_child);
}

}  // namespace
}  // namespace tessera::driver::gpu
