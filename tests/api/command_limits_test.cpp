// Limits of commands: numbers of commands that finished long ago, times at the ends of a clock's range.
#include <tessera/tessera.hpp>

#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace tessera {
namespace {

using test::expect_error;
using namespace std::chrono_literals;

constexpr std::size_t command_window = 65'536;

// Numbers of commands that finished long ago, on a device where small commands are fast.
class OldCommands : public testing::Test {
 protected:
  void run_commands(std::size_t count) const {
    for (std::size_t i = 0; i < count; ++i) device.run("copy", {in}, out);
  }
  void expect_forgotten(CommandId id) const {
    const std::string words = "command " + std::to_string(id) + " finished more than 65536 commands ago";
    expect_error(Errc::unknown_command, words, [&] { device.poll(id); });
    expect_error(Errc::unknown_command, words, [&] { device.wait(id); });
    expect_error(Errc::unknown_command, words, [&] { device.cancel(id); });
  }

  const Device device = Device::best();
  const Buffer in = device.zeros({1});
  const Buffer out = device.zeros({1});
};

TEST_F(OldCommands, A_command_is_forgotten_after_as_many_others_as_promised) {
  const CommandId id = device.submit("copy", {in}, out).id();
  run_commands(command_window);
  EXPECT_EQ(device.poll(id), Status::completed);
  EXPECT_NO_THROW(device.wait(id));
  EXPECT_FALSE(device.cancel(id));
  run_commands(command_window);
  expect_forgotten(id);
}

TEST_F(OldCommands, A_failed_command_is_forgotten_like_any_other) {
  const CommandId id = device.submit("copy", {in, in}, out).id();
  run_commands(command_window);
  EXPECT_EQ(device.poll(id), Status::failed);
  run_commands(command_window / 2);
  EXPECT_EQ(device.poll(id), Status::failed);  // never anything else
  run_commands(command_window / 2);
  expect_forgotten(id);
}

TEST_F(OldCommands, A_command_that_took_long_is_known_after_its_end) {
  Buffer mapped = device.zeros({1});
  CommandId id = 0;
  {
    const auto view = mapped.map<float>();
    id = device.submit("copy", {mapped}, device.zeros({1})).id();
    run_commands(command_window + 1);
    EXPECT_EQ(device.poll(id), Status::pending);
  }
  device.synchronize();
  EXPECT_EQ(device.poll(id), Status::completed);
}

// Times at the ends of a clock's range, on a device where nothing runs by itself.
class FarTimes : public testing::Test {
 protected:
  template <class Clock, class Duration>
  using Time = std::chrono::time_point<Clock, Duration>;

  const Device device = Device::simulated({.workers = 0});
  const Command command = device.submit("fill", {}, device.zeros({4}));
};

TEST_F(FarTimes, A_time_long_past_returns_at_once) {
  EXPECT_FALSE(command.wait_for(-1s));
  EXPECT_FALSE(command.wait_for(std::chrono::nanoseconds::min()));
  EXPECT_FALSE(command.wait_until(std::chrono::steady_clock::time_point::min()));
  EXPECT_NO_THROW(command.wait());
}

TEST_F(FarTimes, A_time_before_the_clocks_range_returns_at_once) {
  EXPECT_FALSE(command.wait_for(std::chrono::hours::min()));
}

TEST_F(FarTimes, The_minimum_of_another_clock_returns_at_once) {
  EXPECT_FALSE(command.wait_until(std::chrono::system_clock::time_point::min()));
}

TEST_F(FarTimes, A_duration_beyond_the_clocks_range_waits_forever) {
  EXPECT_TRUE(command.wait_for(std::chrono::hours::max()));
}

TEST_F(FarTimes, The_maximum_of_another_clock_waits_forever) {
  EXPECT_TRUE(command.wait_until(std::chrono::system_clock::time_point::max()));
}

TEST_F(FarTimes, A_time_point_beyond_the_clocks_range_waits_forever) {
  EXPECT_TRUE(command.wait_until(Time<std::chrono::steady_clock, std::chrono::hours>::max()));
}

}  // namespace
}  // namespace tessera
