// Promise 4 under load: completed, failed, cancelled, late, dropped and rejected commands race each other. Each one
// finishes once, in a state that fits its error, and nothing leaks.
#include <tessera/tessera.hpp>

#include "support/program.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

namespace tessera {
namespace {

using namespace std::chrono_literals;
using test::rounds;

void expect_consistent(const Command& command) {
  const Status status = command.poll();
  ASSERT_TRUE(is_terminal(status));
  const std::optional<Error> error = command.error();
  ASSERT_EQ(error.has_value(), status != Status::completed);
  if (status == Status::cancelled) {
    ASSERT_TRUE(error->code() == Errc::cancelled || error->code() == Errc::deadline_exceeded) << error->what();
  }
  ASSERT_EQ(command.poll(), status);
}

struct Fire {
  explicit Fire(Device with_device) : device(std::move(with_device)) {
    const auto add = [&](const StreamOptions& options) { streams.push_back(device.stream(options)); };
    add({});
    add({.priority = Priority::high, .max_in_flight = 3, .when_full = WhenFull::drop_oldest});
    add({.priority = Priority::low, .max_in_flight = 2, .when_full = WhenFull::reject, .in_order = false});
    add({.max_in_flight = 4, .when_full = WhenFull::block});
    add({.deadline = 20us, .in_order = false});
    add({.priority = Priority::high, .deadline = 100us});
  }

  // Submits, cancels, waits briefly, adds callbacks and drops handles at random.
  void work(std::uint64_t seed, int count) {
    std::mt19937_64 random(seed);
    std::vector<Command> mine;
    for (int i = 0; i < count; ++i) {
      const std::size_t size = random() % 2;
      const std::vector<Buffer>& buffers = size == 0 ? small : large;
      const test::Step step = test::random_step(random, buffers.size());
      std::vector<Buffer> inputs;
      for (const std::size_t input : step.inputs) inputs.push_back(buffers[input]);
      const Command command =
          streams[random() % streams.size()].submit(step.kernel, inputs, buffers[step.output], test::params_of(step));
      command.on_complete([this](const Command& done) {
        expect_consistent(done);
        ++callbacks;
      });
      ++submitted;
      mine.push_back(command);
      switch (random() % 6) {
        case 0:
          mine[random() % mine.size()].cancel();
          break;
        case 1: {
          try {
            mine[random() % mine.size()].wait_for(std::chrono::microseconds(random() % 50));
          } catch (const Error&) {  // any outcome will do
          }
          break;
        }
        case 2:
          device.cancel(command.id());
          break;
        case 3:
          mine.erase(mine.begin(), mine.begin() + static_cast<std::ptrdiff_t>(mine.size() / 2));
          break;
        case 4:
          wait_any(mine);
          break;
        default:
          break;
      }
      if (mine.empty()) mine.push_back(command);
    }
    for (const Command& command : mine) {
      try {
        command.wait();
      } catch (const Error&) {  // seen by expect_consistent
      }
      expect_consistent(command);
    }
  }

  Device device;
  std::vector<Stream> streams;
  std::vector<Buffer> small = test::make_buffers(device, 4, 16);
  std::vector<Buffer> large = test::make_buffers(device, 4, 3000);
  std::atomic<int> submitted{0};
  std::atomic<int> callbacks{0};
};

std::uint64_t seed_of(int round) { return test::seed() + static_cast<std::uint64_t>(round); }

void expect_orderly_end(const Device& device, int threads, int commands, std::uint64_t seed) {
  Fire fire(device);
  {
    std::vector<std::jthread> workers;
    for (int t = 0; t < threads; ++t) {
      workers.emplace_back([&, t] { fire.work(seed * 100 + static_cast<std::uint64_t>(t), commands); });
    }
  }
  device.synchronize();
  while (fire.callbacks != fire.submitted) std::this_thread::yield();
  for (const Stream& stream : fire.streams) EXPECT_EQ(stream.in_flight(), 0U);
}

TEST(Race, All_ends_on_the_workers) {
  const Device device = Device::best();
  device.synchronize();  // what other tests left in flight still holds its buffers
  const MemoryInfo before = device.memory();
  for (int i = 0; i < rounds(100); ++i) expect_orderly_end(device, 4, 150, seed_of(i));
  device.synchronize();
  EXPECT_EQ(device.memory().in_use, before.in_use);
  EXPECT_EQ(device.memory().buffers, before.buffers);
}

TEST(Race, All_ends_on_simulated_devices_with_failures) {
  for (int i = 0; i < rounds(200); ++i) {
    const std::uint64_t seed = seed_of(i);
    const Device device = Device::simulated({.seed = seed, .workers = 3, .fail_rate = 0.1});
    expect_orderly_end(device, 3, 60, seed);
  }
}

TEST(Race, All_ends_on_deterministic_devices_used_by_several_threads) {
  for (int i = 0; i < rounds(100); ++i) {
    const std::uint64_t seed = seed_of(i);
    const Device device = Device::simulated({.seed = seed, .workers = 0, .fail_rate = 0.1});
    expect_orderly_end(device, 3, 40, seed);
  }
}

TEST(Race, A_cancel_and_the_start_of_a_command_have_one_winner) {
  const Device device = Device::best();
  Buffer gated = device.zeros({4});
  for (int i = 0; i < rounds(2000); ++i) {
    Command command;
    std::atomic<bool> go{false};
    std::atomic<int> cancelled{0};
    {
      std::optional<Mapped<float>> view = gated.map<float>();
      command = device.submit("scale", {gated}, gated, {{"factor", 2}});
      std::vector<std::jthread> cancellers;
      for (int t = 0; t < 2; ++t) {
        cancellers.emplace_back([&] {
          while (!go) {
          }
          cancelled += command.cancel() ? 1 : 0;
        });
      }
      go = true;
      view.reset();
    }
    EXPECT_LE(cancelled, 1);
    try {
      command.wait();
      EXPECT_EQ(cancelled, 0);
    } catch (const Error&) {
      EXPECT_EQ(command.poll(), Status::cancelled);
      gated.write(std::vector<float>(4, 0));
    }
  }
}

TEST(Race, Buffers_are_freed_while_commands_use_them) {
  const Device device = Device::best();
  const MemoryInfo before = device.memory();
  for (int round = 0; round < rounds(1000); ++round) {
    std::vector<Buffer> buffers = test::make_buffers(device, 4, 2000);
    std::vector<std::jthread> threads;
    threads.emplace_back([&] {
      for (Buffer buffer : buffers) buffer.free();
    });
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937_64 random(seed_of(round * 2 + t));
        for (int i = 0; i < 10; ++i) {
          const Command command = test::submit(device, test::random_step(random, buffers.size()), buffers);
          if (command.poll() == Status::failed) {
            EXPECT_EQ(command.error()->code(), Errc::buffer_freed);
          }
        }
      });
    }
  }
  device.synchronize();
  EXPECT_EQ(device.memory().in_use, before.in_use);
}

TEST(Race, Many_threads_wait_for_one_command) {
  const Device device = Device::best();
  Buffer gated = device.zeros({4});
  for (int i = 0; i < rounds(200); ++i) {
    std::optional<Mapped<float>> view = gated.map<float>();
    const Command command = device.submit("relu", {gated}, gated);
    std::vector<std::jthread> waiters;
    for (int t = 0; t < 6; ++t) {
      waiters.emplace_back([&, t] {
        t % 2 ? command.wait() : device.wait(command.id());
        EXPECT_EQ(command.poll(), Status::completed);
      });
    }
    view.reset();
  }
}

}  // namespace
}  // namespace tessera
