#include <tessera/tessera.hpp>

#include "engine/memory/memory_pool.hpp"
#include "support/expect_error.hpp"
#include "support/expect_same.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace tessera {
namespace {

using detail::engine::MemoryPool;
using test::expect_error;
using test::expect_same;
using Bytes = std::vector<std::uint8_t>;

// Each test has its own device, whose statistics start at zero.
class Memory : public testing::Test {
 protected:
  Buffer bytes(std::size_t count) const { return device.empty({count}, u8); }

  void expect_refused(std::size_t count) const {
    const MemoryInfo before = device.memory();
    const std::string what = "u8[" + std::to_string(count) + "]: " + std::to_string(count) + " bytes requested";
    expect_error(Errc::out_of_memory, what, [&] { bytes(count); });
    expect_same(device.memory(), before);
  }

  const Device device = Device::simulated({.workers = 0});
};

TEST_F(Memory, A_new_device_uses_nothing_and_has_a_limit) {
  const MemoryInfo memory = device.memory();
  EXPECT_GT(memory.limit, 0U);
  EXPECT_LE(memory.limit, device.info().memory);
  expect_same(memory, {.limit = memory.limit});
}

TEST_F(Memory, Every_statistic_is_exact) {
  const std::size_t limit = device.memory().limit;
  Buffer a = device.zeros({100});
  const std::size_t first = MemoryPool::block_size(400);
  expect_same(device.memory(),
              {.in_use = 400, .reserved = first, .peak = 400, .limit = limit, .buffers = 1, .allocations = 1});
  Buffer b = device.buffer<std::int64_t>({1, 2, 3});
  const std::size_t both = first + MemoryPool::block_size(24);
  expect_same(device.memory(),
              {.in_use = 424, .reserved = both, .peak = 424, .limit = limit, .buffers = 2, .allocations = 2});
  a.free();
  expect_same(device.memory(),
              {.in_use = 24, .reserved = both, .peak = 424, .limit = limit, .buffers = 1, .allocations = 2});
  b = Buffer();
  expect_same(device.memory(),
              {.in_use = 0, .reserved = both, .peak = 424, .limit = limit, .buffers = 0, .allocations = 2});
}

TEST_F(Memory, A_block_is_recycled) {
  for (int i = 0; i < 1000; ++i) bytes(4000);
  EXPECT_EQ(device.memory().allocations, 1U);
  EXPECT_EQ(device.memory().reserved, MemoryPool::block_size(4000));
  EXPECT_EQ(device.memory().peak, 4000U);
}

TEST_F(Memory, A_block_serves_all_sizes_of_its_class) {
  ASSERT_EQ(MemoryPool::block_size(3900), MemoryPool::block_size(4000));
  for (const std::size_t size : {3900U, 4000U, 3901U}) {
    const Buffer buffer = bytes(size);
    EXPECT_EQ(device.memory().in_use, size);
  }
  EXPECT_EQ(device.memory().allocations, 1U);
}

TEST_F(Memory, The_pool_retains_as_many_blocks_as_were_in_use_at_once) {
  for (int round = 0; round < 10; ++round) {
    std::vector<Buffer> buffers;
    for (std::size_t i = 0; i < 20; ++i) buffers.push_back(bytes(i * 1000));
  }
  EXPECT_EQ(device.memory().allocations, 20U);
  EXPECT_EQ(device.memory().in_use, 0U);
}

TEST_F(Memory, A_buffer_of_zero_bytes_works) {
  const Buffer nothing = bytes(0);
  EXPECT_EQ(device.memory().in_use, 0U);
  EXPECT_EQ(device.memory().buffers, 1U);
}

TEST_F(Memory, Handles_and_views_use_no_device_memory) {
  Buffer buffer = bytes(100);
  Buffer copy = buffer;
  Buffer view = buffer.reshape({10, 10});
  EXPECT_EQ(device.memory().buffers, 1U);
  buffer = copy = Buffer();
  EXPECT_EQ(device.memory().in_use, 100U);
  view = Buffer();
  EXPECT_EQ(device.memory().in_use, 0U);
}

TEST_F(Memory, A_command_keeps_the_memory_of_its_buffers_until_it_has_finished) {
  Buffer in = bytes(1000);
  Buffer out = bytes(1000);
  const Command command = device.submit("copy", {in}, out);
  in.free();
  out = Buffer();
  EXPECT_EQ(device.memory().in_use, 2000U);
  command.wait();
  EXPECT_EQ(device.memory().in_use, 0U);
  EXPECT_EQ(device.memory().buffers, 0U);
}

TEST_F(Memory, Synchronize_waits_for_the_memory_of_cancelled_commands) {
  const auto submit_and_cancel = [&](const Buffer& first) {
    const Buffer second = device.zeros({10}), third = device.zeros({20});
    const Command makes = device.submit("neg", {first}, second), passes = device.submit("neg", {second}, second);
    const Command other = device.submit("fill", {}, third, {{"value", 1}});
    for (const Command& command : {makes, passes, other}) EXPECT_TRUE(command.cancel());
  };
  submit_and_cancel(device.zeros({10}));
  device.synchronize();
  EXPECT_EQ(device.memory().in_use, 0U);

  // A cancelled command whose predecessors have not finished keeps its memory; synchronize does not wait for it.
  Buffer gate = device.zeros({10});
  std::optional<Mapped<float>> view = gate.map<float>();
  submit_and_cancel(gate);
  device.synchronize();
  EXPECT_EQ(device.memory().in_use, 80U);
  view.reset();
  device.synchronize();
  EXPECT_EQ(device.memory().in_use, 40U);

  // A pipeline run of which no stage has started.
  {
    const Buffer in = device.zeros({10});
    Pipeline pipeline(device, {.fuse = false});
    const Buffer between = pipeline.temporary({10});
    pipeline.add("neg", {in}, between).add("neg", {between}, device.zeros({10}));
    EXPECT_TRUE(pipeline.submit().cancel());
  }
  device.synchronize();
  EXPECT_EQ(device.memory().in_use, 40U);
}

TEST_F(Memory, A_limit_can_be_set_and_read) {
  const Buffer buffer = bytes(64);
  for (const std::size_t limit : {std::size_t{64}, std::size_t{1} << 20, std::numeric_limits<std::size_t>::max()}) {
    device.set_memory_limit(limit);
    EXPECT_EQ(device.memory().limit, limit);
  }
}

TEST_F(Memory, A_limit_below_what_is_in_use_is_refused) {
  const Buffer buffer = bytes(1024);
  const MemoryInfo before = device.memory();
  expect_error(Errc::invalid_argument, "1023", [&] { device.set_memory_limit(1023); });
  expect_same(device.memory(), before);
}

TEST_F(Memory, Lowering_the_limit_frees_unused_blocks) {
  const Buffer stays = bytes(1024);
  bytes(4096);
  device.set_memory_limit(2048);
  EXPECT_EQ(device.memory().reserved, 1024U);
}

TEST_F(Memory, Nothing_is_allocated_beyond_the_limit) {
  device.set_memory_limit(640);
  std::vector<Buffer> buffers;
  for (int i = 0; i < 10; ++i) buffers.push_back(bytes(64));
  expect_refused(1);
  expect_refused(0);
  expect_refused(1000);
  buffers.pop_back();
  EXPECT_NO_THROW(bytes(64));
}

TEST_F(Memory, After_a_refusal_the_limit_is_usable_to_the_last_byte) {
  device.set_memory_limit(64'000);
  const Buffer first = bytes(40'000);
  const std::size_t room = 64'000 - device.memory().reserved;
  expect_refused(room + 1);
  const Buffer rest = bytes(room);
  EXPECT_EQ(device.memory().reserved, 64'000U);
  EXPECT_EQ(device.memory().in_use, 40'000U + room);
  expect_refused(1);
}

TEST_F(Memory, Any_limit_is_usable_to_the_last_byte) {
  device.set_memory_limit(1001);
  expect_refused(1002);
  EXPECT_NO_THROW(bytes(1001));
}

TEST_F(Memory, A_block_of_an_odd_size_is_returned_to_the_device) {
  device.set_memory_limit(64'000);
  for (int i = 0; i < 3; ++i) {
    const Buffer odd = bytes(63'900);  // its size class would exceed the limit
    EXPECT_LE(device.memory().reserved, 64'000U);
  }
  const Buffer first = bytes(32'000);
  EXPECT_NO_THROW(bytes(25'000));
}

TEST_F(Memory, Unused_blocks_make_space_for_another_size) {
  device.set_memory_limit(8192);
  bytes(8192);
  const Buffer other = bytes(100);
  EXPECT_EQ(device.memory().in_use, 100U);
  EXPECT_LE(device.memory().reserved, 8192U);
}

TEST_F(Memory, A_refusal_leaves_unused_blocks_in_the_pool) {
  const Buffer stays = bytes(1000);
  bytes(5000);
  expect_refused(std::size_t{1} << 62);
  bytes(5000);
  EXPECT_EQ(device.memory().allocations, 2U);
}

TEST_F(Memory, A_device_without_memory_refuses_and_changes_nothing) {
  device.set_memory_limit(std::numeric_limits<std::size_t>::max());
  const Buffer stays = bytes(1000);
  expect_refused(std::size_t{1} << 62);
}

TEST_F(Memory, Trimming_returns_unused_blocks_to_the_device) {
  const Buffer stays = bytes(1024);
  bytes(2048);
  bytes(4096);
  EXPECT_EQ(device.trim_memory(), 2048U + 4096U);
  EXPECT_EQ(device.memory().reserved, 1024U);
  EXPECT_EQ(device.memory().in_use, 1024U);
  EXPECT_EQ(device.trim_memory(), 0U);
  bytes(2048);
  EXPECT_EQ(device.memory().allocations, 4U);
}

TEST_F(Memory, Buffers_are_zeros_in_new_and_in_recycled_memory) {
  constexpr std::size_t mebibyte = std::size_t{1} << 20;
  std::size_t allocations = 0;
  for (const std::size_t size :
       {std::size_t{1}, std::size_t{100}, std::size_t{5000}, mebibyte - 1, mebibyte, mebibyte + 1, 3 * mebibyte}) {
    const Bytes zeros(size);
    EXPECT_EQ(device.zeros({size}, u8).read<std::uint8_t>(), zeros) << size << " bytes, new";
    device.trim_memory();
    bytes(size).write(Bytes(size, 255));
    EXPECT_EQ(device.zeros({size}, u8).read<std::uint8_t>(), zeros) << size << " bytes, recycled";
    allocations += 2;
    EXPECT_EQ(device.memory().allocations, allocations) << "it was not recycled";
    device.trim_memory();
  }
}

TEST_F(Memory, A_block_wastes_an_eighth_or_less_than_a_cache_line) {
  std::size_t last = 0;
  for (std::size_t bytes = 0; bytes < 100'000; ++bytes) {
    const std::size_t size = MemoryPool::block_size(bytes);
    ASSERT_GE(size, std::max<std::size_t>(bytes, 1));
    ASSERT_LE(size - bytes, std::max<std::size_t>(64, bytes / 8)) << bytes;
    ASSERT_EQ(size % 64, 0U) << bytes;
    ASSERT_EQ(MemoryPool::block_size(size), size) << bytes;
    ASSERT_GE(size, last) << bytes;
    last = size;
  }
}

TEST_F(Memory, There_are_eight_block_sizes_per_doubling) {
  for (std::size_t from = 512; from < (std::size_t{1} << 40); from *= 2) {
    std::set<std::size_t> sizes;
    for (std::size_t i = 1; i <= 512; ++i) sizes.insert(MemoryPool::block_size(from + from / 512 * i));
    EXPECT_EQ(sizes.size(), 8U) << from;
    EXPECT_EQ(*sizes.rbegin(), 2 * from);
  }
}

TEST_F(Memory, The_largest_sizes_do_not_overflow) {
  constexpr auto most = static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(MemoryPool::block_size(most), most + 1);
  EXPECT_EQ(MemoryPool::block_size(most / 2 + 1), most / 2 + 1);
}

TEST(SimulatedMemory, The_chosen_allocation_fails_and_no_other) {
  for (const std::uint64_t chosen : {1U, 2U, 5U}) {
    const Device device = Device::simulated({.workers = 0, .out_of_memory_at_allocation = chosen});
    std::vector<Buffer> buffers;
    for (std::uint64_t i = 1; i <= 6; ++i) {
      const MemoryInfo before = device.memory();
      if (i == chosen) {
        expect_error(Errc::out_of_memory, "f32[10]", [&] { device.zeros({10}); });
        expect_same(device.memory(), before);
      } else {
        EXPECT_NO_THROW(buffers.push_back(device.zeros({10})));
      }
    }
    EXPECT_EQ(device.memory().buffers, 5U);
  }
}

TEST(SimulatedMemory, The_chosen_allocation_fails_even_if_a_block_could_be_reused) {
  const Device device = Device::simulated({.workers = 0, .out_of_memory_at_allocation = 2});
  device.zeros({10});
  expect_error(Errc::out_of_memory, "f32[1000]", [&] { device.zeros({1000}); });
  EXPECT_NO_THROW(device.zeros({1000}));
}

// On each kind of device.
class SharedMemory : public testing::TestWithParam<const char*> {
 protected:
  static constexpr std::size_t thread_count = 8;

  static void on_threads(const std::function<void(std::size_t)>& work) {
    std::vector<std::thread> threads;
    for (std::size_t number = 0; number < thread_count; ++number) threads.emplace_back(work, number);
    for (std::thread& thread : threads) thread.join();
  }

  const Device device = GetParam() == std::string("cpu") ? Device::best() : Device::simulated({.workers = 2});
  const MemoryInfo before = device.memory();
};

INSTANTIATE_TEST_SUITE_P(, SharedMemory, testing::Values("cpu", "simulated"),
                         [](const auto& kind) { return std::string(kind.param); });

TEST_P(SharedMemory, Threads_never_get_the_same_memory) {
  std::atomic<int> mixed_up = 0;
  on_threads([&](std::size_t number) {
    const auto mark = static_cast<std::uint8_t>(number + 1);
    for (std::size_t i = 0; i < 300; ++i) {
      const std::size_t size = 1 + (i * 37 + number * 11) % 3000;
      Buffer zeros = device.zeros({size}, u8);
      if (zeros.read<std::uint8_t>() != Bytes(size)) ++mixed_up;
      zeros.write(Bytes(size, mark));
      const Buffer copy = device.buffer<std::uint8_t>(zeros.read<std::uint8_t>());
      if (i % 2 == 0) zeros.free();
      if (copy.read<std::uint8_t>() != Bytes(size, mark)) ++mixed_up;
    }
  });
  EXPECT_EQ(mixed_up, 0);
  EXPECT_EQ(device.memory().in_use, before.in_use);
  EXPECT_EQ(device.memory().buffers, before.buffers);
}

TEST_P(SharedMemory, Threads_that_compete_for_the_limit_never_exceed_it) {
  device.trim_memory();
  const std::size_t limit = device.memory().reserved + 20'000;
  const std::size_t old_limit = device.memory().limit;
  device.set_memory_limit(limit);
  std::atomic<int> wrong = 0;
  std::atomic<int> given = 0;
  on_threads([&](std::size_t number) {
    for (std::size_t i = 0; i < 500; ++i) {
      try {
        const Buffer a = device.empty({1 + (i * 97 + number * 61) % 8000}, u8);
        const Buffer b = device.empty({1 + (i * 89 + number * 53) % 8000}, u8);
        ++given;
        if (device.memory().reserved > limit) ++wrong;
      } catch (const Error& error) {
        if (error.code() != Errc::out_of_memory) ++wrong;
      }
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(given, 0);
  EXPECT_EQ(device.memory().in_use, before.in_use);
  EXPECT_EQ(device.memory().buffers, before.buffers);
  device.set_memory_limit(old_limit);
}

TEST_P(SharedMemory, Memory_of_dropped_buffers_is_free_when_their_last_command_has_finished) {
  on_threads([&](std::size_t) {
    std::optional<Command> last;
    for (int i = 0; i < 100; ++i) {
      const Buffer a = device.zeros({5000});
      const Buffer b = device.empty({5000});
      device.submit("copy", {a}, b);
      last = device.submit("elementwise_add", {a, b}, a);
    }
    last->wait();
  });
  device.synchronize();
  EXPECT_EQ(device.memory().in_use, before.in_use);
  EXPECT_EQ(device.memory().buffers, before.buffers);
}

// The thread that finishes a command may have to retire the next one after the callbacks have returned, so callbacks do
// not wait for that.
TEST_P(SharedMemory, A_callback_may_synchronize_ahead_of_a_cancelled_command) {
  for (int i = 0; i < 50; ++i) {
    Buffer a = device.zeros({20'000});
    const Buffer b = device.empty({20'000}), c = device.empty({20'000});
    std::optional<Mapped<float>> gate = a.map<float>();
    const Command first = device.submit("copy", {a}, b), second = device.submit("copy", {b}, c);
    std::atomic<bool> has_returned = false;
    first.on_complete([&](const Command&) {
      device.synchronize();
      has_returned = true;
    });
    EXPECT_TRUE(second.cancel());
    gate.reset();
    device.synchronize();
    EXPECT_TRUE(has_returned);
  }
}

TEST_P(SharedMemory, Memory_of_cancelled_commands_is_free_after_synchronize) {
  for (int i = 0; i < 300; ++i) {
    {
      const Buffer a = device.zeros({20'000}), b = device.empty({20'000}), c = device.empty({20'000});
      std::vector<Command> commands;
      for (int j = 0; j < 4; ++j) {
        commands.push_back(device.submit("copy", {a}, b));
        commands.push_back(device.submit("elementwise_add", {a, b}, c));
      }
      for (std::size_t j = static_cast<std::size_t>(i) % 3; j < commands.size(); ++j) commands[j].cancel();
    }
    device.synchronize();
    ASSERT_EQ(device.memory().in_use, before.in_use) << i;
  }
}

}  // namespace
}  // namespace tessera
