// Several devices in one program: copies between them, in the order of both.
//
// A mapped view is the gate of these tests: what uses its buffer stays pending until it is dropped.
#include <tessera/tessera.hpp>

#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
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

TEST_F(Devices, A_copy_goes_there_and_back) {
  const Command command = a.copy_to(b);
  command.wait();
  EXPECT_EQ(command.poll(), Status::completed);
  EXPECT_GT(command.id(), 0U);
  EXPECT_EQ(b.read<float>(), Floats({1, 2, 3, 4}));
  there.run("neg", {b}, b);
  b.copy_to(a).wait();
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

TEST_F(Devices, All_types_and_awkward_sizes_arrive) {
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
  // The source is given away all the same: nobody may change it now.
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
  expect_error(Errc::device_failure, "what it copies is poisoned", [&] { copy.wait(); });
  EXPECT_EQ(copy.poll(), Status::failed);
  expect_error(Errc::device_failure, "[fill] command 1", [&] { b.read<float>(); });
  a.copy_to(b).wait();
  EXPECT_EQ(b.read<float>(), Floats({1, 2, 3, 4}));
}

TEST_F(Devices, A_cancelled_copy_poisons_its_target_and_gives_the_source_back) {
  std::optional<Mapped<float>> view = b.map<float>();
  const Command copy = a.copy_to(b);
  EXPECT_TRUE(copy.cancel());
  view.reset();
  expect_error(Errc::cancelled, "was cancelled", [&] { b.read<float>(); });
  here.run("fill", {}, a, {{"value", 9}});
  EXPECT_EQ(a.read<float>(), Floats({9, 9, 9, 9}));
}

TEST_F(Devices, What_is_wrong_is_said) {
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
  EXPECT_EQ(b.read<float>(), Floats(4));
}

TEST_F(Devices, A_buffer_that_is_dropped_on_the_way_is_copied) {
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

TEST_F(Devices, A_pipeline_takes_from_another_device_and_gives_back) {
  Pipeline pipeline(here);
  const Buffer source = there.buffer<float>({-1, 2, -3, 4}), result = there.zeros({4});
  const Buffer in = pipeline.temporary({4}), out = pipeline.temporary({4});
  pipeline.copy(source, in).add("relu", {in}, out).copy(out, result);
  for (int i = 0; i < 3; ++i) {
    pipeline.run();
    EXPECT_EQ(result.read<float>(), Floats({0, 2, 0, 4}));
    there.run("fill", {}, result);
  }
  // Each run is in its place between the commands of the other device.
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
  // The graph sees nothing that the two copies have in common.
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

TEST_F(Devices, A_failing_stage_poisons_what_it_should_have_given) {
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

TEST_F(Devices, A_cancelled_run_gives_back_what_it_borrowed) {
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

TEST_F(Devices, What_is_wrong_with_a_stage_is_said) {
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

TEST_F(Devices, Copies_of_many_threads_in_all_directions_end) {
  // Each pair of buffers is filled, copied there, changed, and copied back, while others do the same the other way
  // round.
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

TEST_F(Devices, A_copy_between_the_CPU_and_this_device_arrives) {
  const Device cpu = Device::open("cpu");
  Floats values(100'003);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const Buffer source = cpu.buffer<float>(values);
  const Buffer copy = source.copy_to(here);
  here.run("neg", {copy}, copy);
  for (float& value : values) value = -value;
  EXPECT_EQ(copy.copy_to(cpu).read<float>(), values);
}

}  // namespace
}  // namespace tessera
