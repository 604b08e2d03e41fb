// Several devices in one program: copies between them, ordered on both.
//
// These tests use a mapped view as a gate: commands that use its buffer stay pending until the view is dropped.
#include <tessera/tessera.hpp>

#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <type_traits>
#include <unistd.h>
#include <vector>

namespace tessera {
namespace {

using namespace std::chrono_literals;
using test::expect_error;
using Floats = std::vector<float>;

class Devices : public testing::Test {
 protected:
  Device here = Device::best();
  Device there = Device::simulated({.seed = 7, .workers = 2});
  Buffer a = here.buffer<float>({1, 2, 3, 4});
  Buffer b = there.zeros({4});
};

TEST_F(Devices, A_copy_survives_the_round_trip) {
  const Command command = a.copy_to(b);
  command.wait();
  EXPECT_EQ(command.poll(), Status::completed);
  EXPECT_GT(command.id(), 0U);
  EXPECT_EQ(b.read<float>(), Floats({1, 2, 3, 4}));
  there.run("neg", {b}, b);
  b.copy_to(a).wait();
  EXPECT_EQ(a.read<float>(), Floats({-1, -2, -3, -4}));
}

// A device's threads exist only in the process that opened it. A child that hangs is killed by a signal.
TEST_F(Devices, A_forked_child_cannot_use_them) {
  const Command finished = here.submit("fill", {}, here.zeros({4}));
  finished.wait();
  const Stream stream = here.stream();
  std::optional<Mapped<float>> view = a.map<float>();
  const Command pending = here.submit("neg", {a}, a);
  Pipeline pipeline(here);
  pipeline.add("neg", {a}, a);
  here.define_command("before_fork", pipeline);
  const std::vector<std::function<void()>> uses = {
      [&] { here.run("neg", {a}, a); },
      [&] { here.submit("neg", {a}, a).wait(); },
      [&] { pending.wait(); },
      [&] { pending.wait_for(1s); },
      [&] { pending.poll(); },
      [&] { pending.cancel(); },
      [&] { pending.error(); },
      [&] { pending.on_complete([](const Command&) {}); },
      [&] { finished.poll(); },
      [&] { finished.cancel(); },
      [&] { finished.on_complete([](const Command&) {}); },
      [&] { wait_all({pending}); },
      [&] { wait_any({pending}); },
      [&] { here.poll(finished.id()); },
      [&] { here.wait(finished.id()); },
      [&] { here.cancel(finished.id()); },
      [&] { here.memory(); },
      [&] { here.set_memory_limit(1 << 30); },
      [&] { here.trim_memory(); },
      [&] { here.power_level(); },
      [&] { here.set_power_level(PowerLevel::nominal); },
      [&] { here.stream(); },
      [&] { stream.in_flight(); },
      [&] { stream.synchronize(); },
      [&] { stream.submit("neg", {a}, a).wait(); },
      [&] { here.define_command("forked", pipeline); },
      [&] { here.run("before_fork", {}); },
      [&] { pipeline.explain(); },
      [&] { ones<float>({4}).sync_on(stream); },
      [&] { ones<float>({4}).to_host().submit_on(stream).wait(); },
      [&] { a.read<float>(); },
      [&] { b.write<float>({1, 2, 3, 4}); },
      [&] { a.map<float>(); },
      [&] { here.zeros({1024}); },
      [&] { a.copy_to(b).wait(); },
      [&] { pipeline.run(); },
      [&] { pipeline.submit().wait(); },
      [&] { pipeline.compile(); },
      [&] { there.synchronize(); },
  };
  const auto is_refused = [](const std::function<void()>& use) {
    try {
      use();
    } catch (const Error& error) {
      return error.code() == Errc::unsupported &&
             std::string(error.what()).find("belongs to the process that opened it") != std::string::npos;
    }
    return false;
  };
  std::optional<Device> dropped = Device::simulated({.seed = 8, .workers = 1});
  dropped->run("fill", {}, dropped->zeros({4}), {{"value", 1}});
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    int first_wrong = 0;
    while (first_wrong < static_cast<int>(uses.size()) && is_refused(uses[static_cast<std::size_t>(first_wrong)])) {
      ++first_wrong;
    }
    dropped.reset();  // must not wait for its threads
    _exit(first_wrong);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), static_cast<int>(uses.size()));
  view.reset();
  pending.wait();
  EXPECT_EQ(a.read<float>(), Floats({-1, -2, -3, -4}));
}

TEST_F(Devices, A_copy_on_one_device_is_a_command_too) {
  const Buffer c = here.zeros({4});
  a.copy_to(c).wait();
  EXPECT_EQ(c.read<float>(), Floats({1, 2, 3, 4}));
}

TEST_F(Devices, A_copy_to_a_device_is_a_new_buffer_there) {
  const Buffer copy = a.reshape({2, 2}).copy_to(there);
  EXPECT_EQ(copy.device(), there);
  EXPECT_EQ(copy.shape(), Shape(2, 2));
  EXPECT_EQ(copy.read<float>(), Floats({1, 2, 3, 4}));
}

TEST_F(Devices, All_types_and_awkward_sizes_are_copied) {
  const auto check = [&]<class T>(T) {
    for (const std::int64_t count : {0, 1, 3, 1021, 70'001}) {
      std::vector<T> values(static_cast<std::size_t>(count));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(i * 7 + 3);
      const Buffer copy = there.buffer<T>(values, Shape(count)).copy_to(here).copy_to(there);
      EXPECT_EQ(copy.read<T>(), values);
    }
  };
  check(std::uint8_t{});
  check(std::int32_t{});
  check(float{});
  for (const DType dtype : here.info().dtypes) {
    if (dtype == s64) check(std::int64_t{});
    if (dtype == f64) check(double{});
  }
}

TEST_F(Devices, A_copy_waits_for_what_writes_its_source_and_what_comes_after_waits_for_it) {
  std::optional<Mapped<float>> view = a.map<float>();
  const Command copy = a.copy_to(b);
  const Command after_there = there.submit("neg", {b}, b);
  const Command after_here = here.submit("fill", {}, a, {{"value", 9}});
  EXPECT_FALSE(copy.wait_for(2ms));
  EXPECT_EQ(after_there.poll(), Status::pending);
  EXPECT_EQ(after_here.poll(), Status::pending);
  (*view)[0] = 5;
  view.reset();
  after_there.wait();
  after_here.wait();
  EXPECT_EQ(b.read<float>(), Floats({-5, -2, -3, -4}));
  EXPECT_EQ(a.read<float>(), Floats({9, 9, 9, 9}));
}

TEST_F(Devices, A_copy_waits_for_what_uses_its_target) {
  std::optional<Mapped<float>> view = b.map<float>();
  const Command copy = a.copy_to(b);
  // The source is on loan all the same: it cannot be written now.
  const Command after = here.submit("fill", {}, a, {{"value", 9}});
  EXPECT_FALSE(copy.wait_for(2ms));
  EXPECT_EQ(after.poll(), Status::pending);
  view.reset();
  after.wait();
  EXPECT_EQ(b.read<float>(), Floats({1, 2, 3, 4}));
}

TEST_F(Devices, Readers_of_the_source_do_not_wait_for_a_copy) {
  std::optional<Mapped<float>> view = b.map<float>();
  const Command copy = a.copy_to(b);
  EXPECT_EQ(a.read<float>(), Floats({1, 2, 3, 4}));
  EXPECT_EQ(copy.poll(), Status::pending);
  view.reset();
  copy.wait();
}

TEST_F(Devices, A_poisoned_source_poisons_the_target_and_a_good_copy_heals_it) {
  const Device failing = Device::simulated({.faults = {{.command = 1, .kind = InjectedFault::Kind::fail}}});
  const Buffer bad = failing.zeros({4});
  EXPECT_THROW(failing.run("fill", {}, bad, {{"value", 1}}), Error);
  const Command copy = bad.copy_to(b);
  expect_error(Errc::device_failure, "the source of the copy is poisoned", [&] { copy.wait(); });
  EXPECT_EQ(copy.poll(), Status::failed);
  expect_error(Errc::device_failure, "[fill] command 1", [&] { b.read<float>(); });
  a.copy_to(b).wait();
  EXPECT_EQ(b.read<float>(), Floats({1, 2, 3, 4}));
}

// No matter how early the copy has failed.
TEST_F(Devices, A_new_buffer_from_a_poisoned_one_is_poisoned_and_does_not_throw) {
  const Device failing = Device::simulated({.faults = {{.command = 1, .kind = InjectedFault::Kind::fail}}});
  const Buffer bad = failing.zeros({4});
  EXPECT_THROW(failing.run("fill", {}, bad, {{"value", 1}}), Error);
  const Buffer elsewhere = bad.copy_to(here);
  expect_error(Errc::device_failure, "[fill] command 1", [&] { elsewhere.read<float>(); });
  a.copy_to(here).read<float>();                  // compiles the kernel,
  const Buffer beside = elsewhere.copy_to(here);  // so that this runs inline
  expect_error(Errc::device_failure, "[fill] command 1", [&] { beside.read<float>(); });
}

TEST_F(Devices, A_cancelled_copy_poisons_its_target_and_releases_the_source) {
  std::optional<Mapped<float>> view = b.map<float>();
  const Command copy = a.copy_to(b);
  EXPECT_TRUE(copy.cancel());
  view.reset();
  expect_error(Errc::cancelled, "was cancelled", [&] { b.read<float>(); });
  here.run("fill", {}, a, {{"value", 9}});
  EXPECT_EQ(a.read<float>(), Floats({9, 9, 9, 9}));
}

TEST_F(Devices, Bad_copies_are_refused_with_a_reason) {
  const auto failure = [](const Command& command) {
    EXPECT_EQ(command.poll(), Status::failed);
    return command;
  };
  expect_error(Errc::shape_mismatch, "the source is f32[4], the target f32[5]",
               [&] { failure(a.copy_to(there.zeros({5}))).wait(); });
  expect_error(Errc::dtype_mismatch, "the source is f32[4], the target s32[4]",
               [&] { failure(a.copy_to(there.zeros({4}, s32))).wait(); });
  expect_error(Errc::invalid_argument, "[copy_to] on an empty buffer handle", [&] { Buffer().copy_to(b); });
  expect_error(Errc::invalid_argument, "[copy_to] on an empty buffer handle", [&] { a.copy_to(Buffer()); });
  Buffer freed = there.zeros({4});
  freed.free();
  expect_error(Errc::buffer_freed, "the target has been freed", [&] { failure(a.copy_to(freed)).wait(); });
  expect_error(Errc::buffer_freed, "the source has been freed", [&] { failure(freed.copy_to(a)).wait(); });
  expect_error(Errc::buffer_freed, "the source has been freed", [&] { freed.copy_to(here); });
  Pipeline pipeline(here);
  const Buffer temporary = pipeline.temporary({4});
  expect_error(Errc::invalid_argument, "temporary", [&] { failure(temporary.copy_to(b)).wait(); });
  expect_error(Errc::invalid_argument, "temporary", [&] { b.read<float>(); });  // poisoned
}

TEST_F(Devices, A_buffer_that_is_dropped_during_its_copy_is_copied) {
  std::optional<Mapped<float>> view = b.map<float>();
  Command copy;
  {
    const Buffer source = here.buffer<float>({4, 3, 2, 1});
    copy = source.copy_to(b);
  }
  Buffer freed = here.buffer<float>({1});
  const Buffer copied = there.zeros({1});
  const Command second = freed.copy_to(copied);
  freed.free();
  view.reset();
  copy.wait();
  second.wait();
  EXPECT_EQ(b.read<float>(), Floats({4, 3, 2, 1}));
  EXPECT_EQ(copied.read<float>(), Floats({1}));
}

TEST_F(Devices, A_pipeline_copies_from_another_device_and_back) {
  Pipeline pipeline(here);
  const Buffer source = there.buffer<float>({-1, 2, -3, 4}), result = there.zeros({4});
  const Buffer in = pipeline.temporary({4}), out = pipeline.temporary({4});
  pipeline.copy(source, in).add("relu", {in}, out).copy(out, result);
  for (int i = 0; i < 3; ++i) {
    pipeline.run();
    EXPECT_EQ(result.read<float>(), Floats({0, 2, 0, 4}));
    there.run("fill", {}, result);
  }
  // Each run is ordered between the commands of the other device.
  const Command run = pipeline.submit();
  const Command negated = there.submit("neg", {result}, result);
  there.submit("fill", {}, Buffer(source), {{"value", 3}});
  negated.wait();
  run.wait();
  EXPECT_EQ(result.read<float>(), Floats({0, -2, 0, -4}));
  pipeline.run();
  EXPECT_EQ(result.read<float>(), Floats({3, 3, 3, 3}));
}

TEST_F(Devices, The_order_of_stages_holds_on_the_other_device_too) {
  // In the graph, the two copies share no buffer.
  Pipeline pipeline(here);
  const Buffer c = here.zeros({4});
  pipeline.copy(b, c).copy(a, b);
  pipeline.run();
  EXPECT_EQ(c.read<float>(), Floats(4));
  EXPECT_EQ(b.read<float>(), Floats({1, 2, 3, 4}));
  Pipeline back(here);
  const Buffer d = here.zeros({4});
  back.add("neg", {a}, a).copy(a, b).copy(b, d);
  back.run();
  EXPECT_EQ(d.read<float>(), Floats({-1, -2, -3, -4}));
}

TEST_F(Devices, A_failing_stage_poisons_the_copy_it_should_have_made) {
  Pipeline pipeline(here);
  const Buffer t = pipeline.temporary({4});
  bool is_bad = true;
  pipeline
      .call("guess",
            [&](HostCall& call) {
              if (is_bad) throw std::runtime_error("no idea");
              for (float& value : call.output<float>(0)) value = 5;
            },
            {a}, {t})
      .copy(t, b);
  expect_error(Errc::call_failed, "no idea", [&] { pipeline.run(); });
  expect_error(Errc::call_failed, "no idea", [&] { b.read<float>(); });
  is_bad = false;
  pipeline.run();
  EXPECT_EQ(b.read<float>(), Floats({5, 5, 5, 5}));
}

TEST_F(Devices, A_cancelled_run_releases_what_it_borrowed) {
  Pipeline pipeline(here);
  Buffer c = here.zeros({4});
  pipeline.copy(b, c).add("neg", {c}, c).copy(c, b);
  std::optional<Mapped<float>> view = c.map<float>();
  const Command run = pipeline.submit();
  EXPECT_TRUE(run.cancel());
  view.reset();
  expect_error(Errc::cancelled, "cancelled", [&] { b.read<float>(); });
  b.write<float>({1, 1, 1, 1});
  pipeline.run();
  EXPECT_EQ(b.read<float>(), Floats({-1, -1, -1, -1}));
}

TEST_F(Devices, Bad_copy_stages_are_refused_with_a_reason) {
  Pipeline pipeline(here);
  const Buffer other = there.zeros({4}), t = pipeline.temporary({4});
  pipeline.copy(other, b);
  expect_error(Errc::wrong_device, "lives on another device", [&] { pipeline.compile(); });
  Pipeline shapes(here);
  shapes.copy(a, there.zeros({5}));
  expect_error(Errc::shape_mismatch, "input 0 is f32[4], output f32[5]", [&] { shapes.compile(); });
  Pipeline kernels(here);
  kernels.add("neg", {other}, a);
  expect_error(Errc::wrong_device, "lives on another device", [&] { kernels.compile(); });
  Pipeline freed(here);
  Buffer gone = there.zeros({4});
  freed.copy(a, gone);
  freed.run();
  expect_error(Errc::unsupported, "stage 0 [copy] uses a buffer of another device", [&] { freed.to_json(); });
  gone.free();
  expect_error(Errc::buffer_freed, "has been freed", [&] { freed.run(); });
}

TEST_F(Devices, A_stage_that_copies_is_explained) {
  Pipeline pipeline(here);
  pipeline.add("neg", {a}, a).copy(a, there.zeros({4}));
  EXPECT_NE(pipeline.explain().find("a copy between devices"), std::string::npos) << pipeline.explain();
}

TEST_F(Devices, A_stage_is_not_fused_with_a_copy_for_the_right_reason) {
  const auto expect_reason = [](Pipeline& pipeline, const std::string& reason) {
    const std::string text = pipeline.explain();
    EXPECT_NE(text.find("group 1, after 0, not fused: " + reason + "\n"), std::string::npos) << text;
  };
  Pipeline copied(here);
  const Buffer from_there = copied.temporary({4});
  copied.copy(b, from_there).add("neg", {from_there}, a);
  expect_reason(copied, "temporary 0 is written by a copy between devices");
  Pipeline called(here);
  const Buffer from_host = called.temporary({4});
  called.call([](HostCall&) {}, {}, {from_host}).add("neg", {from_host}, a);
  expect_reason(called, "temporary 0 is written by a host function");
}

TEST_F(Devices, Copies_from_many_threads_in_all_directions_finish) {
  // Each pair of buffers is filled, copied to the other device, changed and copied back, while other threads do the
  // same in the other direction.
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  const Buffer common_here = here.zeros({256}), common_there = there.zeros({256});
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::minstd_rand random(t + 1);
      const Device &near = t % 2 == 0 ? here : there, &far = t % 2 == 0 ? there : here;
      const Buffer x = near.zeros({256}), y = far.zeros({256}), z = near.zeros({256});
      Pipeline pipeline(near);
      pipeline.copy(y, z).add("neg", {z}, x).copy(x, y);
      for (int i = 1; i <= 40; ++i) {
        near.submit("fill", {}, x, {{"value", i}});
        x.copy_to(y);
        pipeline.submit();
        const Buffer back = y.copy_to(near);
        if (random() % 3 == 0)
          (t % 2 == 0 ? common_here : common_there).copy_to(t % 2 == 0 ? common_there : common_here);
        if (back.read<float>() != Floats(256, static_cast<float>(-i))) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  here.synchronize();
  there.synchronize();
}

TEST_F(Devices, A_copy_between_the_CPU_and_this_device_works) {
  const Device cpu = Device::open("cpu");
  Floats values(100'003);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const Buffer source = cpu.buffer<float>(values);
  const Buffer copy = source.copy_to(here);
  here.run("neg", {copy}, copy);
  for (float& value : values) value = -value;
  EXPECT_EQ(copy.copy_to(cpu).read<float>(), values);
}

TEST(DeviceNames, The_first_of_a_kind_is_the_same_device_with_and_without_its_number) {
  for (const DeviceInfo& info : Device::devices()) {
    if (info.backend == "cpu" || info.backend.find(':') != std::string::npos) continue;
    const Device device = Device::open(info.backend), by_number = Device::open(info.backend + ":0");
    EXPECT_EQ(device, by_number) << info.backend;
    EXPECT_EQ(by_number.info().backend, info.backend);
    device.run("relu", {by_number.zeros({4})}, device.zeros({4}));
    EXPECT_EQ(Device::simulated({.backend = info.backend + ":0"}).info().name,
              Device::simulated({.backend = info.backend}).info().name);
  }
}

TEST(DeviceNames, An_invalid_device_number_is_unknown) {
  for (const DeviceInfo& info : Device::devices()) {
    if (info.backend.find(':') != std::string::npos) continue;
    for (const char* end : {":", ":x", ":0x", ":-1", ":999", ":0:0", "0", " "}) {
      expect_error(Errc::unknown_device, "there is no device '" + info.backend + end + "'",
                   [&] { Device::open(info.backend + end); });
    }
  }
}

// Vulkan and OpenGL ES may offer devices of the same name.
TEST(DeviceNames, A_wrong_device_error_names_both_backends) {
  const Device cpu = Device::open("cpu");
  const std::string here = cpu.info().name + " (cpu)";
  for (const DeviceInfo& info : Device::devices()) {
    if (info.backend == "cpu") continue;
    const std::string there = info.name + " (" + info.backend + ")";
    const Buffer buffer = Device::open(info.backend).zeros({4});
    const auto expect_told = [&](const std::string& what, auto use) { expect_error(Errc::wrong_device, what, use); };
    expect_told("lives on another device: " + there + ", not " + here, [&] { cpu.run("relu", {buffer}, buffer); });
    Pipeline pipeline(cpu);
    pipeline.add("relu", {buffer}, buffer);
    expect_told("lives on another device: " + there + ", not " + here, [&] { pipeline.compile(); });
  }
}

// Moving elements needs no arithmetic.
TEST(DeviceTypes, Elements_of_every_type_are_copied_and_filled_on_every_device) {
  const auto check = [](const Device& device, const auto& values, auto number) {
    using T = std::decay_t<decltype(number)>;
    const std::string what = std::string(to_string(dtype_of<T>)) + " on " + device.info().backend;
    const Buffer from = device.buffer<T>(values), to = device.zeros(from.shape(), dtype_of<T>);
    from.copy_to(to).wait();
    EXPECT_EQ(to.read<T>(), values) << what;
    device.run("fill", {}, to, {{"value", number}});
    EXPECT_EQ(to.read<T>(), std::vector<T>(values.size(), number)) << what;
    Pipeline pipeline(device);
    pipeline.fill(from, 3);
    pipeline.copy(from, to);
    pipeline.run();
    EXPECT_EQ(to.read<T>(), std::vector<T>(values.size(), T{3})) << what;
    const Buffer one = device.buffer<T>({number}), other = device.zeros({1}, dtype_of<T>);
    one.copy_to(other).wait();
    EXPECT_EQ(other.read<T>(), std::vector<T>({number})) << what;
  };
  for (const DeviceInfo& info : Device::devices()) {
    const Device device = Device::open(info.backend);
    check(device, std::vector<double>({1.5, -2e300, 0.1, 5e-324, 7}), -1.0 / 3);
    check(device, std::vector<std::int64_t>({1, -2, INT64_MAX, INT64_MIN, std::int64_t{1} << 40, 5, 6}),
          -(std::int64_t{1} << 52) + 12345);
    check(device, std::vector<float>({1.5F, -2e30F}), 0.1F);
    check(device, std::vector<std::uint8_t>({1, 2, 255}), std::uint8_t{7});
  }
}

TEST(DeviceTypes, A_kernel_that_computes_in_a_type_that_the_device_lacks_has_failed_when_submit_returns) {
  for (const DeviceInfo& info : Device::devices()) {
    const Device device = Device::open(info.backend);
    const bool has_f64 = std::ranges::find(info.dtypes, f64) != info.dtypes.end();
    if (has_f64) continue;
    const Buffer x = device.zeros({4}, f64);
    const Command command = device.submit("neg", {x}, x);
    EXPECT_EQ(command.poll(), Status::failed);
    expect_error(Errc::unsupported, "f64, which " + info.name + " (" + info.backend + ") does not have",
                 [&] { command.wait(); });
    expect_error(Errc::unsupported, "[neg]", [&] { command.wait(); });
  }
}

}  // namespace
}  // namespace tessera
