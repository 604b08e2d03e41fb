// Promise 2: order comes from buffers.
#include <tessera/tessera.hpp>

#include "support/program.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace tessera {
namespace {

using test::rounds;
using test::Step;

struct Submitted {
  CommandId id;
  Step step;
};

// Four threads submit random commands over the same buffers. Their ids give the order of submission; running that
// sequence on the host must give the same values.
void expect_sequential_result(const Device& device, const std::vector<Buffer>& buffers,
                              std::vector<std::vector<Submitted>>& submitted) {
  std::vector<Submitted> all;
  for (std::vector<Submitted>& part : submitted) {
    std::ranges::move(part, std::back_inserter(all));
    part.clear();
  }
  std::ranges::sort(all, {}, &Submitted::id);
  std::vector<std::int32_t> values = test::first_values(buffers.size());
  for (const Submitted& command : all) values[command.step.output] = test::value_after(command.step, values);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    ASSERT_EQ(test::common_value(buffers[i]), values[i]) << "buffer " << i << " on " << device.info().name;
  }
}

TEST(Order, Random_graphs_from_four_threads_give_the_sequential_result) {
  constexpr int threads = 4;
  const Device device = Device::best();
  const int graphs = device.info().backend == "cpu" ? rounds(10'000) : 25;  // a command takes a hundred times as long
  std::vector<Buffer> buffers;
  std::vector<Stream> streams;
  for (const Priority priority : {Priority::high, Priority::normal, Priority::low}) {
    streams.push_back(device.stream({.priority = priority}));
  }
  std::vector<std::vector<Submitted>> submitted(threads);
  int graph = 0;
  const auto next_graph = [&]() noexcept {
    if (graph > 0) {
      device.synchronize();
      expect_sequential_result(device, buffers, submitted);
    }
    // Small commands run inline, larger ones on the workers, the largest in several pieces.
    static constexpr std::int64_t sizes[] = {3, 700, 5000, 5000, 70'000};
    buffers = test::make_buffers(device, 2 + static_cast<std::size_t>(graph % 5), sizes[graph % (graph % 100 ? 4 : 5)]);
    ++graph;
  };
  std::barrier ready(threads, next_graph);
  std::vector<std::jthread> submitters;
  for (int t = 0; t < threads; ++t) {
    submitters.emplace_back([&, t] {
      std::mt19937_64 random(test::seed() * 4 + static_cast<std::uint64_t>(t));
      for (int g = 0; g < graphs; ++g) {
        ready.arrive_and_wait();
        for (int i = 0; i < 6; ++i) {
          Step step = test::random_step(random, buffers.size());
          std::vector<Buffer> inputs;
          for (const std::size_t input : step.inputs) inputs.push_back(buffers[input]);
          const Buffer& output = buffers[step.output];
          const std::uint64_t where = random() % 8;
          const Command command = where < streams.size()
                                      ? streams[where].submit(step.kernel, inputs, output, test::params_of(step))
                                      : device.submit(step.kernel, inputs, output, test::params_of(step));
          submitted[static_cast<std::size_t>(t)].push_back({command.id(), std::move(step)});
        }
      }
      ready.arrive_and_wait();  // checks the last one
    });
  }
}

TEST(Order, Simulated_schedules_from_four_threads_give_the_sequential_result) {
  for (int round = 0; round < rounds(1000); ++round) {
    const std::uint64_t seed = test::seed() + static_cast<std::uint64_t>(round);
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Device device = Device::simulated({.seed = seed, .workers = 3});
    const std::vector<Buffer> buffers = test::make_buffers(device, 4, 16);
    std::vector<std::vector<Submitted>> submitted(4);
    {
      std::vector<std::jthread> submitters;
      for (std::size_t t = 0; t < submitted.size(); ++t) {
        submitters.emplace_back([&, t] {
          std::mt19937_64 random(seed * 4 + t);
          for (int i = 0; i < 10; ++i) {
            Step step = test::random_step(random, buffers.size());
            const CommandId id = test::submit(device, step, buffers).id();
            submitted[t].push_back({id, std::move(step)});
          }
        });
      }
    }
    expect_sequential_result(device, buffers, submitted);
  }
}

TEST(Order, Deterministic_schedules_give_the_sequential_result) {
  for (int round = 0; round < rounds(10'000); ++round) {
    const std::uint64_t seed = test::seed() + static_cast<std::uint64_t>(round);
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Device device = Device::simulated({.seed = seed, .workers = 0});
    const std::vector<Buffer> buffers = test::make_buffers(device, 5, 4);
    std::vector<std::vector<Submitted>> submitted(1);
    std::mt19937_64 random(seed);
    for (int i = 0; i < 30; ++i) {
      Step step = test::random_step(random, buffers.size());
      const CommandId id = test::submit(device, step, buffers).id();
      submitted[0].push_back({id, std::move(step)});
    }
    expect_sequential_result(device, buffers, submitted);
  }
}

TEST(Order, Independent_commands_overlap_on_the_workers) {
  const Device device = Device::simulated(
      {.workers = 2, .faults = {{.command = 1, .kind = InjectedFault::Kind::delay, .delay = std::chrono::seconds(5)}}});
  const Buffer slow = device.zeros({4});
  const Buffer quick = device.zeros({4});
  const Command first = device.submit("fill", {}, slow, {{"value", 1}});
  const Command second = device.submit("fill", {}, quick, {{"value", 2}});
  second.wait();
  EXPECT_FALSE(is_terminal(first.poll()));
}

TEST(Order, A_command_that_reads_waits_for_the_write_before_it) {
  const Device device = Device::best();
  const Buffer a = device.zeros({100'000});
  const Buffer b = device.zeros({100'000});
  std::vector<Command> commands;
  for (int i = 1; i <= 50; ++i) {
    commands.push_back(device.submit("fill", {}, a, {{"value", i}}));
    commands.push_back(device.submit("elementwise_add", {a, b}, b));
  }
  wait_all(commands);
  EXPECT_EQ(b.read<float>(), std::vector<float>(100'000, 50 * 51 / 2));
}

TEST(Order, Host_reads_and_writes_are_ordered_with_commands) {
  const Device device = Device::best();
  Buffer a = device.zeros({50'000});
  for (int i = 0; i < 100; ++i) {
    device.submit("fill", {}, a, {{"value", i}});
    device.submit("scale", {a}, a, {{"factor", 2}});
    ASSERT_EQ(a.read<float>()[49'999], 2.0F * static_cast<float>(i));
    a.write(std::vector<float>(50'000, -1));
    device.submit("relu", {a}, a);
  }
  EXPECT_EQ(a.read<float>(), std::vector<float>(50'000, 0));
}

TEST(Order, Commands_wait_until_a_mapped_view_is_dropped) {
  const Device device = Device::best();
  Buffer a = device.zeros({16});
  Command command;
  {
    auto view = a.map<float>();
    command = device.submit("scale", {a}, a, {{"factor", 3}});
    EXPECT_FALSE(command.wait_for(std::chrono::milliseconds(5)));
    EXPECT_EQ(command.poll(), Status::pending);
    for (float& value : view) value = 2;
  }
  command.wait();
  EXPECT_EQ(a.read<float>(), std::vector<float>(16, 6));
}

TEST(Order, A_read_only_view_does_not_block_other_readers) {
  const Device device = Device::best();
  const Buffer a = device.buffer<float>({1, 2, 3}, {3});
  const Buffer b = device.zeros({3});
  const auto one = a.map_read<float>();
  const auto two = a.map_read<float>();
  device.run("copy", {a}, b);  // reads too: no need to wait
  EXPECT_EQ(b.read<float>(), (std::vector<float>{1, 2, 3}));
  const Command writer = device.submit("fill", {}, a);
  EXPECT_EQ(writer.poll(), Status::pending);
  EXPECT_EQ(one[2], 3);
  EXPECT_EQ(two[2], 3);
}

TEST(Order, Views_of_one_buffer_are_ordered_together) {
  const Device device = Device::best();
  const Buffer flat = device.zeros({12'000});
  const Buffer table = flat.reshape({100, 120});
  for (int i = 0; i < 50; ++i) {
    device.submit("fill", {}, flat, {{"value", i}});
    device.submit("scale", {table}, table, {{"factor", 2}});
  }
  EXPECT_EQ(flat.read<float>(), std::vector<float>(12'000, 98));
}

std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  statm >> total >> resident;
  return resident * 4096;
}

TEST(Order, Memory_of_many_pending_commands_is_returned) {
  if (test::is_sanitized) GTEST_SKIP() << "sanitizers keep memory of their own";
  const Device device = Device::simulated({.workers = 1});
  Buffer gate = device.zeros({1});
  const Buffer output = device.zeros({1});
  const auto submit_many = [&] {
    const auto view = gate.map<float>();
    for (int i = 0; i < 100'000; ++i) device.submit("relu", {gate}, output);
  };
  submit_many();
  const std::size_t at_most = resident_bytes();
  device.synchronize();
  EXPECT_LT(resident_bytes() + (std::size_t{40} << 20), at_most);
  device.trim_memory();
  EXPECT_LT(resident_bytes() + (std::size_t{55} << 20), at_most);
  // What was returned can be used again.
  const Command last = device.submit("relu", {gate}, output);
  submit_many();
  device.synchronize();
  EXPECT_EQ(device.poll(last.id()), Status::completed);
}

TEST(Order, Many_commands_leave_memory_flat) {
  const Device device = Device::best();
  const Buffer read_only = device.zeros({8});
  const auto submit_many = [&](int count) {
    for (int i = 0; i < count; ++i) {
      const Buffer output = device.zeros({i % 16 == 0 ? 2000 : 8});
      const Buffer large_input = device.zeros({2000});
      device.submit("relu", {i % 16 == 0 ? large_input : read_only}, output);
      if (i % 1000 != 0) continue;
      EXPECT_TRUE(device.submit("relu", {read_only}, device.zeros({9})).error());
      device.synchronize();  // memory grows with the number in flight, which is not measured here
    }
    device.synchronize();
  };
  // Where each is a submission to a queue, of a software GPU too, a million take minutes.
  const int many = device.info().backend == "cpu" ? 100'000 : 10'000;
  submit_many(many);
  const MemoryInfo before = device.memory();
  const std::size_t resident_before = resident_bytes();
  submit_many(rounds(many * 10));
  EXPECT_EQ(device.memory().in_use, before.in_use);
  if (!test::is_sanitized) {  // sanitizers keep memory of their own
    EXPECT_LT(resident_bytes(), resident_before + (std::size_t{8} << 20));
  }
}

}  // namespace
}  // namespace tessera
