// Streams and their scheduler: order, priority, limits, deadlines, power.
//
// These tests use a mapped view as a gate: commands that use its buffer stay pending until the view is dropped.
#include <tessera/tessera.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace tessera {
namespace {

using namespace std::chrono_literals;

class StreamTest : public ::testing::Test {
 protected:
  Device device = Device::best();
  Buffer gated = device.zeros({4});

  // A command behind the gate, with its own output.
  Command submit_gated(const Stream& stream) { return stream.submit("relu", {gated}, device.zeros({4})); }
};

using Streams = StreamTest;

// Keeps every worker busy with one long command until the object is dropped.
class BusyWorkers {
 public:
  explicit BusyWorkers(const Device& device) {
    for (unsigned i = 0; i < device.info().compute_units; ++i) {
      const Buffer buffer = device.zeros({4});
      auto gate = std::make_unique<Mapped<float>>(Buffer(buffer).map<float>());
      device.submit("relu", {buffer}, device.zeros({4})).on_complete([this](const Command&) {
        ++arrived_;
        released_.wait(false);
        ++left_;
      });
    }
    while (arrived_ < device.info().compute_units) std::this_thread::yield();
    count_ = device.info().compute_units;
  }
  ~BusyWorkers() {
    released_ = true;
    released_.notify_all();
    while (left_ < count_) std::this_thread::yield();
  }
  BusyWorkers(const BusyWorkers&) = delete;
  BusyWorkers& operator=(const BusyWorkers&) = delete;

 private:
  std::atomic<unsigned> arrived_{0};
  std::atomic<bool> released_{false};
  std::atomic<unsigned> left_{0};
  unsigned count_ = 0;
};

TEST_F(Streams, Commands_of_a_stream_run_in_order_even_if_they_share_no_buffer) {
  const Stream stream = device.stream();
  const Command first = submit_gated(stream);
  std::optional<Command> second;
  {
    Buffer gate = gated;
    const auto view = gate.map<float>();
    const Command behind_gate = submit_gated(stream);
    second = stream.submit("fill", {}, device.zeros({4}));
    EXPECT_FALSE(second->wait_for(2ms));
    EXPECT_EQ(behind_gate.poll(), Status::pending);
    EXPECT_EQ(second->poll(), Status::pending);
    EXPECT_EQ(stream.in_flight(), 2U);
  }
  second->wait();
  EXPECT_EQ(stream.in_flight(), 0U);
}

TEST_F(Streams, An_out_of_order_stream_lets_commands_overtake) {
  const Stream stream = device.stream({.in_order = false});
  const auto view = gated.map<float>();
  const Command behind_gate = submit_gated(stream);
  stream.submit("fill", {}, device.zeros({4})).wait();
  EXPECT_EQ(behind_gate.poll(), Status::pending);
}

TEST_F(Streams, Stream_order_does_not_propagate_errors) {
  const Device faulty = Device::simulated({.faults = {{.command = 1}}});
  const Stream stream = faulty.stream();
  const Command bad = stream.submit("fill", {}, faulty.zeros({4}));
  const Command good = stream.submit("fill", {}, faulty.zeros({4}));
  good.wait();
  EXPECT_EQ(bad.poll(), Status::failed);
}

TEST_F(Streams, High_priority_overtakes_queued_commands) {
  if (device.info().backend != "cpu") GTEST_SKIP() << "ready commands go straight into the device's queue";
  std::mutex mutex;
  std::vector<Priority> order;
  std::vector<Command> commands;
  {
    const BusyWorkers busy(device);
    for (const Priority priority : {Priority::low, Priority::normal, Priority::high}) {
      const Stream stream = device.stream({.priority = priority, .in_order = false});
      for (int i = 0; i < 3; ++i) {
        // Too large to run on this thread.
        commands.push_back(stream.submit("fill", {}, device.zeros({10'000})));
        commands.back().on_complete([&, priority](const Command&) {
          const std::scoped_lock lock(mutex);
          order.push_back(priority);
        });
      }
    }
    EXPECT_EQ(device.poll(commands.back().id()), Status::pending);
    // One worker at a time, so that commands finish in the order in which they start.
    device.set_power_level(PowerLevel::fair);
  }
  while (true) {
    const std::scoped_lock lock(mutex);
    if (order.size() == commands.size()) break;
  }
  device.set_power_level(PowerLevel::nominal);
  if (device.info().compute_units > 2) GTEST_SKIP() << "several workers finish in any order";
  std::vector<Priority> sorted = order;
  std::ranges::sort(sorted);
  EXPECT_EQ(order, sorted);
}

TEST_F(Streams, A_full_stream_rejects) {
  const Stream stream = device.stream({.max_in_flight = 2, .when_full = WhenFull::reject});
  Command rejected;
  {
    const auto view = gated.map<float>();
    submit_gated(stream);
    submit_gated(stream);
    rejected = submit_gated(stream);
    EXPECT_EQ(rejected.poll(), Status::failed);
    EXPECT_EQ(rejected.error()->code(), Errc::stream_full);
    EXPECT_EQ(stream.in_flight(), 2U);
  }
  stream.synchronize();
  submit_gated(stream).wait();  // there is capacity again
}

TEST_F(Streams, A_full_stream_drops_the_oldest_that_has_not_started) {
  const Stream stream = device.stream({.max_in_flight = 2, .when_full = WhenFull::drop_oldest});
  std::vector<Command> frames;
  {
    const auto view = gated.map<float>();
    for (int i = 0; i < 5; ++i) frames.push_back(submit_gated(stream));
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(frames[i].poll(), Status::cancelled);
      EXPECT_EQ(frames[i].error()->code(), Errc::cancelled);
    }
    EXPECT_EQ(stream.in_flight(), 2U);
  }
  frames[3].wait();
  frames[4].wait();
}

TEST_F(Streams, A_dropped_command_poisons_its_output_until_that_is_written) {
  const Stream stream = device.stream({.max_in_flight = 1, .when_full = WhenFull::drop_oldest});
  Buffer shown = device.zeros({4});
  {
    const auto view = gated.map<float>();
    const Command dropped = stream.submit("relu", {gated}, shown);
    submit_gated(stream);
    EXPECT_EQ(dropped.poll(), Status::cancelled);
  }
  stream.synchronize();
  EXPECT_THROW(shown.read<float>(), Error);
  device.run("fill", {}, shown, {{"value", 1}});
  EXPECT_EQ(shown.read<float>()[0], 1);
}

TEST_F(Streams, A_full_stream_blocks_until_it_has_capacity) {
  const Stream stream = device.stream({.max_in_flight = 1});
  std::optional<Mapped<float>> view = gated.map<float>();
  submit_gated(stream);
  std::atomic<bool> is_through{false};
  std::jthread submitter([&] {
    submit_gated(stream).wait();
    is_through = true;
  });
  std::this_thread::sleep_for(5ms);
  EXPECT_FALSE(is_through);
  view.reset();
  submitter.join();
  EXPECT_TRUE(is_through);
}

TEST_F(Streams, A_callback_may_submit_to_a_full_stream) {
  const Stream stream = device.stream({.max_in_flight = 1});
  std::atomic<int> ended{0};
  std::vector<Command> commands;
  for (int i = 0; i < 8; ++i) {
    const Command command = device.submit("fill", {}, device.zeros({10'000}));
    command.on_complete([&](const Command&) {
      stream.submit("fill", {}, device.zeros({10'000})).on_complete([&](const Command&) { ++ended; });
    });
  }
  while (ended < 8) std::this_thread::yield();
}

TEST_F(Streams, A_command_that_cannot_start_before_its_deadline_is_cancelled) {
  const Stream stream = device.stream({.deadline = 5ms});
  std::optional<Mapped<float>> view = gated.map<float>();
  Buffer output = device.zeros({4});
  const auto start = std::chrono::steady_clock::now();
  const Command late = stream.submit("relu", {gated}, output);
  try {
    late.wait();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::deadline_exceeded);
    EXPECT_NE(std::string(error.what()).find("could not start before its deadline"), std::string::npos);
  }
  EXPECT_GE(std::chrono::steady_clock::now() - start, 4ms);
  EXPECT_EQ(late.poll(), Status::cancelled);
  EXPECT_EQ(stream.in_flight(), 0U);
  view.reset();
  EXPECT_THROW(output.read<float>(), Error);
}

TEST_F(Streams, A_callback_of_a_late_command_may_wait_for_its_output) {
  const Stream stream = device.stream({.deadline = 1us});
  for (int i = 0; i < 200; ++i) {
    const Buffer output = device.zeros({10'000});
    std::atomic<bool> is_told{false};
    stream.submit("fill", {}, output).on_complete([&](const Command&) {
      try {
        output.read<float>();
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::deadline_exceeded);
      }
      is_told = true;
    });
    while (!is_told) std::this_thread::yield();
  }
}

TEST_F(Streams, A_new_command_that_a_full_stream_drops_poisons_its_output) {
  const Device slow = Device::simulated({.faults = {{.command = 1, .kind = InjectedFault::Kind::delay, .delay = 1s}}});
  const Stream stream = slow.stream({.max_in_flight = 1, .when_full = WhenFull::drop_oldest, .in_order = false});
  const Command started = stream.submit("fill", {}, slow.zeros({4}));
  while (started.poll() == Status::pending) std::this_thread::yield();
  const Buffer output = slow.zeros({4});
  const Command dropped = stream.submit("fill", {}, output);
  EXPECT_EQ(dropped.poll(), Status::cancelled);
  EXPECT_EQ(dropped.error()->code(), Errc::cancelled);
  EXPECT_THROW(output.read<float>(), Error);
  started.wait();
}

TEST_F(Streams, Each_command_has_its_own_deadline) {
  const Stream stream = device.stream({.deadline = 500ms, .in_order = false});
  const auto view = gated.map<float>();
  std::vector<Command> late;
  for (int i = 0; i < 5; ++i) {
    late.push_back(submit_gated(stream));
    stream.submit("fill", {}, device.zeros({4})).wait();
    std::this_thread::sleep_for(1ms);
  }
  for (const Command& command : late) {
    EXPECT_THROW(command.wait(), Error);
    EXPECT_EQ(command.error()->code(), Errc::deadline_exceeded);
  }
}

TEST_F(Streams, A_command_that_starts_in_time_may_finish_after_its_deadline) {
  const Device slow =
      Device::simulated({.faults = {{.command = 1, .kind = InjectedFault::Kind::delay, .delay = 1200ms}}});
  slow.stream({.deadline = 1s}).submit("fill", {}, slow.zeros({4})).wait();
}

class Power : public StreamTest {
 protected:
  ~Power() override { device.set_power_level(PowerLevel::nominal); }

  std::chrono::steady_clock::duration time_of(Priority priority) {
    const auto start = std::chrono::steady_clock::now();
    device.stream({.priority = priority}).submit("fill", {}, device.zeros({10'000})).wait();
    return std::chrono::steady_clock::now() - start;
  }
  static void expect_one_below(std::chrono::steady_clock::duration limit,
                               const std::function<std::chrono::steady_clock::duration()>& time) {
    for (int i = 0; i < 1000; ++i) {
      if (time() < limit) return;
    }
    ADD_FAILURE() << "all took longer";
  }
};

TEST_F(Power, A_serious_level_delays_low_priority_and_nothing_else) {
  device.set_power_level(PowerLevel::serious);
  EXPECT_EQ(device.power_level(), PowerLevel::serious);
  EXPECT_GE(time_of(Priority::low), 10ms);
  // One that is not held back is quick at least once in many times, also on a busy machine.
  expect_one_below(10ms, [&] { return time_of(Priority::normal); });
}

TEST_F(Power, A_critical_level_delays_longer) {
  device.set_power_level(PowerLevel::critical);
  EXPECT_GE(time_of(Priority::low), 100ms);
}

TEST_F(Power, A_better_level_lets_delayed_commands_go_at_once) {
  expect_one_below(90ms, [&] {
    device.set_power_level(PowerLevel::critical);
    const auto start = std::chrono::steady_clock::now();
    const Command held = device.stream({.priority = Priority::low}).submit("fill", {}, device.zeros({10'000}));
    device.set_power_level(PowerLevel::nominal);
    held.wait();
    return std::chrono::steady_clock::now() - start;
  });
}

TEST_F(Power, A_callback_of_a_late_command_may_wait_for_a_delayed_one) {
  device.set_power_level(PowerLevel::serious);
  const Stream low = device.stream({.priority = Priority::low});
  const Stream stream = device.stream({.deadline = 1ms});
  std::atomic<bool> is_told{false};
  const auto view = gated.map<float>();
  submit_gated(stream).on_complete([&](const Command&) {
    low.submit("fill", {}, device.zeros({10'000})).wait();
    is_told = true;
  });
  while (!is_told) std::this_thread::yield();
}

TEST_F(Power, A_level_limits_the_workers) {
  device.set_power_level(PowerLevel::critical);
  const Stream stream = device.stream({.in_order = false});
  std::atomic<int> running{0};
  std::atomic<int> most{0};
  std::atomic<int> ended{0};
  {
    // The gate opens only when all callbacks are added: for a finished command the callback would run on this thread.
    const auto view = gated.map<float>();
    for (int i = 0; i < 20; ++i) {
      submit_gated(stream).on_complete([&](const Command&) {  // on the worker
        most = std::max<int>(most, ++running);
        std::this_thread::sleep_for(200us);
        --running;
        ++ended;
      });
    }
  }
  while (ended < 20) std::this_thread::yield();
  EXPECT_EQ(most, 1);
}

TEST_F(Power, All_work_finishes_while_the_level_changes) {
  std::atomic<bool> is_over{false};
  std::jthread changer([&] {
    for (int i = 0; !is_over; ++i) device.set_power_level(static_cast<PowerLevel>(i % 4));
  });
  for (int round = 0; round < 50; ++round) {
    std::vector<Command> commands;
    for (int i = 0; i < 20; ++i) {
      const Stream stream = device.stream({.priority = static_cast<Priority>(i % 3), .in_order = false});
      commands.push_back(stream.submit("fill", {}, device.zeros({2000})));
    }
    wait_all(commands);
  }
  is_over = true;
}

}  // namespace
}  // namespace tessera
