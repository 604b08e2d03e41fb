#include <tessera/tessera.hpp>

#include "driver/gpu/api.hpp"
#include "driver/gpu/forwarding_api.hpp"
#include "driver/gpu/gpu_driver.hpp"
#include "driver/gpu/on_device.hpp"
#include "support/expect_error.hpp"
#include "support/expect_same.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <future>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// Device failures as users see them: out of memory, kernels that do not compile, a lost device. TESSERA_DEVICE names
// the device, as for the other runtime tests; the CPU can only run out of memory.
namespace tessera {
namespace {

using driver::gpu::test::backend;
using driver::gpu::test::device_with;
using driver::gpu::test::expect_works;
using driver::gpu::test::open_api;
using test::expect_error;
using test::expect_same;
using namespace std::chrono_literals;
using Floats = std::vector<float>;
namespace gpu = driver::gpu;

// A GPU API with faults that tests switch on and off.
class FaultyApi final : public gpu::test::ForwardingApi {
 public:
  using ForwardingApi::ForwardingApi;

  std::atomic<bool> is_full{false};         // out of memory
  std::atomic<bool> breaks_kernels{false};  // passes nonsense to the compiler

  std::unique_ptr<gpu::Memory> allocate(std::size_t bytes) override {
    return is_full ? nullptr : ForwardingApi::allocate(bytes);
  }
  std::unique_ptr<gpu::Module> compile(const compile::gpu::Kernel& kernel, const std::string& name) override {
    compile::gpu::Kernel given = kernel;
    if (breaks_kernels) given.source += "\nvoid broken() { this_is_no_kernel = 1; }\n";
    return ForwardingApi::compile(given, name);
  }
};

// ---- out of memory, on every device

class OutOfMemory : public testing::Test {
 protected:
  const Device device =
      device_with(backend() == "cpu" ? driver::make_cpu_driver() : gpu::make_gpu_driver(open_api(), backend()));
};

TEST_F(OutOfMemory, A_buffer_beyond_the_devices_memory_is_refused) {
  const std::size_t bytes = device.info().memory * 2;
  expect_error(Errc::out_of_memory, "no memory for u8[" + std::to_string(bytes) + "]",
               [&] { device.empty({bytes}, u8); });
  // The device itself refuses too.
  device.set_memory_limit(std::numeric_limits<std::size_t>::max());
  const MemoryInfo before = device.memory();
  constexpr std::size_t absurd = std::size_t{1} << 56;
  expect_error(Errc::out_of_memory, "no memory for u8[" + std::to_string(absurd) + "]",
               [&] { device.empty({absurd}, u8); });
  expect_error(Errc::out_of_memory, "no memory for", [&] { device.zeros({absurd}, u8); });
  expect_same(device.memory(), before);
  expect_works(device);
}

TEST_F(OutOfMemory, A_full_device_refuses_new_buffers_and_keeps_working) {
  const Shape shape{1 << 20};
  const Buffer x = device.zeros(shape), z = device.zeros(shape);
  device.set_memory_limit(device.memory().reserved + (std::size_t{40} << 20));
  std::vector<Buffer> buffers;
  expect_error(Errc::out_of_memory, "no memory for f32[1048576]", [&] {
    while (buffers.size() < 100) buffers.push_back(device.empty(shape));
  });
  EXPECT_EQ(buffers.size(), 10U);
  device.run("fill", {}, buffers.back(), {{"value", 2}});
  device.run("elementwise_add", {buffers.back(), buffers.back()}, z);
  EXPECT_EQ(z.read<float>().back(), 4);
  // Operations and pipelines cannot allocate either.
  expect_error(Errc::out_of_memory, "no memory for f32[1048576]", [&] { full<float>(shape, 1).on(device).sync(); });
  Pipeline pipeline(device);
  const Buffer between = pipeline.temporary(shape);
  pipeline.add("reduce_sum", {x}, pipeline.temporary({1}), {{"axis", 0}})
      .add("softmax", {x}, between)
      .add("softmax", {between}, z);
  expect_error(Errc::out_of_memory, "no memory for", [&] { pipeline.run(); });
  expect_error(Errc::out_of_memory, "no memory for", [&] { pipeline.submit().wait(); });
  EXPECT_EQ(z.read<float>().back(), 4);
  buffers.resize(5);
  pipeline.run();
  expect_works(device);
}

// ---- faults of GPUs

class DeviceFaults : public testing::Test {
 protected:
  void SetUp() override {
    if (backend() == "cpu") GTEST_SKIP() << "the processor has no such faults";
    auto made = std::make_unique<FaultyApi>(open_api());
    api = made.get();
    opened = std::make_unique<Device>(device_with(gpu::make_gpu_driver(std::move(made), backend())));
  }
  const Device& device() const { return *opened; }

  FaultyApi* api = nullptr;
  std::unique_ptr<Device> opened;
};

TEST_F(DeviceFaults, Without_a_fault_it_works) { expect_works(device()); }

TEST_F(DeviceFaults, Out_of_memory_is_reported_and_temporary) {
  const Shape shape{1000};
  const Buffer x = device().zeros(shape), z = device().zeros(shape);
  api->is_full = true;
  const MemoryInfo before = device().memory();
  expect_error(Errc::out_of_memory, "the device has no memory left", [&] { device().zeros({100'000}); });
  expect_error(Errc::out_of_memory, "no memory for f32[100000]",
               [&] { full<float>({100'000}, 1).on(device()).to_host().sync(); });
  expect_same(device().memory(), before);
  device().run("relu", {x}, z);
  api->is_full = false;
  expect_works(device());
}

TEST_F(DeviceFaults, A_command_without_scratch_memory_fails_but_not_the_next_one) {
  // Row sums use scratch memory, since rows may have any length.
  const Buffer x = device().zeros({7, 3000}), z = device().zeros({7, 3000});
  api->is_full = true;
  const Command first = device().submit("softmax", {x}, z);
  const Command second = device().submit("relu", {z}, z);
  expect_error(Errc::out_of_memory, "no scratch memory on " + api->info().name, [&] { first.wait(); });
  expect_error(Errc::out_of_memory, "poisoned", [&] { second.wait(); });
  api->is_full = false;
  device().run("softmax", {x}, z);
  for (const float share : z.read<float>()) ASSERT_NEAR(share, 1.0F / 3000, 1e-7);
}

TEST_F(DeviceFaults, A_kernel_that_does_not_compile_fails_its_commands_only) {
  const Buffer x = device().buffer<float>({-1, 0, 2}), y = device().zeros({3}), z = device().zeros({3}),
               other = device().zeros({3});
  device().run("scale", {x}, other, {{"factor", 3}});  // compiled before
  api->breaks_kernels = true;
  const Command broken = device().submit("relu", {x}, y);
  const Command after = device().submit("scale", {y}, z, {{"factor", 2}});
  const Command beside = device().submit("scale", {x}, other, {{"factor", 4}});
  const Command tiled = device().submit(
      tile::kernel("add_three", [](tile::Out<float> to, tile::In<float> from) { to.store(load_like(from, to) + 3); }),
      {x}, device().zeros({3}));
  expect_error(Errc::invalid_kernel, "[relu] does not compile", [&] { broken.wait(); });
  expect_error(Errc::invalid_kernel, "this_is_no_kernel", [&] { broken.wait_for(10s); });
  expect_error(Errc::invalid_kernel, "poisoned", [&] { after.wait(); });
  expect_error(Errc::invalid_kernel, "poisoned", [&] { z.read<float>(); });
  expect_error(Errc::invalid_kernel, "[add_three] does not compile", [&] { tiled.wait(); });
  expect_error(Errc::invalid_kernel, "[tanh] does not compile", [&] { device().run("tanh", {x}, y); });
  expect_error(Errc::invalid_kernel, "[tanh] does not compile", [&] { device().stream().run("tanh", {x}, y); });
  expect_error(Errc::invalid_kernel, "does not compile", [&] { full<float>({3}, 1).on(device()).to_host().sync(); });
  Pipeline pipeline(device());
  const Buffer between = pipeline.temporary({3});
  pipeline.add("exp", {x}, between).add("log", {between}, y);
  expect_error(Errc::invalid_kernel, "does not compile", [&] { pipeline.run(); });
  beside.wait();
  EXPECT_EQ(other.read<float>(), (Floats{-4, 0, 8}));
  // The next call tries again.
  api->breaks_kernels = false;
  device().run("relu", {x}, y);
  device().run("scale", {y}, z, {{"factor", 2}});
  EXPECT_EQ(z.read<float>(), (Floats{0, 0, 4}));
  pipeline.run();
  EXPECT_NEAR(y.read<float>()[2], 2, 1e-5);
  expect_works(device());
}

// A chain of commands that keeps the device busy for at least half a second.
class Busy {
 public:
  static constexpr std::int64_t size = 128;

  explicit Busy(const Device& device)
      : device_(device), x_(device.zeros({size, size})), z_(device.zeros({size, size})) {
    for (count_ = 4;; count_ *= 2) {
      const auto start = gpu::Clock::now();
      submit();
      commands.back().wait();
      if (count_ > 4 && gpu::Clock::now() - start > 500ms) return;  // the first run compiles
    }
  }
  void submit() {
    commands.clear();
    for (int i = 0; i < count_; ++i) commands.push_back(device_.submit("matmul", {x_, x_}, z_));
  }
  const Buffer& result() const { return z_; }

  std::vector<Command> commands;

 private:
  const Device& device_;
  Buffer x_, z_;
  int count_ = 0;
};

TEST_F(DeviceFaults, A_lost_device_fails_all_that_is_pending) {
  const Device& lost = device();
  Busy busy(lost);
  const Buffer x = lost.buffer<float>({1, 2, 3}), y = lost.zeros({3}), z = lost.zeros({3});
  const Buffer rows = lost.zeros({Busy::size});
  lost.run("relu", {x}, y);
  Pipeline pipeline(lost);
  const Buffer between = pipeline.temporary({3});
  pipeline.add("exp", {x}, between).add("softmax", {between}, z);
  pipeline.run();
  Pipeline after(lost);
  const Buffer row_sums = after.temporary({Busy::size});
  after.add("reduce_sum", {busy.result()}, row_sums, {{"axis", 1}})
      .add("softmax", {row_sums}, lost.zeros({Busy::size}));

  busy.submit();
  const std::vector<Command> pending = {
      lost.submit("reduce_sum", {busy.result()}, rows, {{"axis", 1}}),  // waits for the device
      lost.submit("relu", {rows}, rows),                                // waits for that
      after.submit(),
      lost.stream({.priority = Priority::high}).submit("scale", {rows}, rows, {{"factor", 2}}),
  };
  // The device may complete these meanwhile: they wait for nothing.
  const std::vector<Command> beside = {lost.submit("relu", {x}, y), pipeline.submit()};
  std::promise<Status> told;
  pending.back().on_complete([&](const Command& over) { told.set_value(over.poll()); });
  auto reading = std::async(std::launch::async, [&] { return rows.read<float>(); });
  auto operating = std::async(std::launch::async, [&] { return full<float>({3}, 2).on(lost).to_host().sync(); });
  auto waiting = std::async(std::launch::async, [&] { pending[1].wait(); });
  std::this_thread::sleep_for(20ms);  // lets the threads start; it does not matter if they have not
  ASSERT_FALSE(is_terminal(busy.commands.back().poll())) << "the device was too fast for this test";
  api->lose("unplugged");

  const auto expect_done_or_lost = [](auto&& call) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::device_failure) << error.what();
    }
  };
  for (const Command& command : busy.commands) expect_done_or_lost([&] { command.wait(); });
  for (const Command& command : beside) expect_done_or_lost([&] { command.wait(); });
  expect_done_or_lost([&] { operating.get(); });
  expect_error(Errc::device_failure, "unplugged", [&] { busy.commands.back().wait(); });
  expect_error(Errc::device_failure, api->info().name, [&] { busy.commands.back().wait(); });
  expect_error(Errc::device_failure, "[matmul]", [&] { busy.commands.back().wait(); });
  for (const Command& command : pending) {
    expect_error(Errc::device_failure, "unplugged", [&] { command.wait_for(1min); });
    EXPECT_EQ(command.poll(), Status::failed);
  }
  EXPECT_EQ(told.get_future().get(), Status::failed);
  expect_error(Errc::device_failure, "unplugged", [&] { reading.get(); });
  expect_error(Errc::device_failure, "unplugged", [&] { waiting.get(); });
  lost.synchronize();

  // Later commands fail at once and change nothing.
  const MemoryInfo before = lost.memory();
  expect_error(Errc::device_failure, "unplugged", [&] { lost.run("relu", {x}, y); });
  expect_error(Errc::device_failure, "unplugged", [&] { pipeline.run(); });
  expect_error(Errc::device_failure, "unplugged", [&] { full<float>({3}, 1).on(lost).to_host().sync(); });
  expect_error(Errc::device_failure, "unplugged", [&] { lost.buffer<float>({1, 2}); });
  expect_error(Errc::device_failure, "unplugged", [&] { lost.zeros({2}); });
  expect_error(Errc::device_failure, "unplugged", [&] { x.read<float>(); });
  EXPECT_LE(lost.memory().in_use, before.in_use);  // the operation's tensor may have been freed only now
  EXPECT_LE(lost.memory().buffers, before.buffers);

  // The process carries on: on another device, and on this one reopened.
  expect_works(Device::open("cpu"));
  expect_works(device_with(gpu::make_gpu_driver(open_api(), backend())));
}

TEST_F(DeviceFaults, A_lost_device_is_dropped_with_its_work) {
  {
    Busy busy(device());
    busy.submit();
    api->lose("unplugged");
    opened.reset();
    expect_error(Errc::device_failure, "unplugged", [&] { busy.commands.back().wait(); });
  }
  expect_works(device_with(gpu::make_gpu_driver(open_api(), backend())));
}

}  // namespace
}  // namespace tessera
