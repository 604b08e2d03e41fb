// The simulated device, and with it promises 3 and 4 over thousands of seeds: errors, poison, cancellation.
#include <tessera/tessera.hpp>

#include "support/program.hpp"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace tessera {
namespace {

using test::rounds;
using test::Step;

// Predicts the outcome of each command and buffer from the faults and cancellations, which are known in advance.
class Model {
 public:
  explicit Model(std::size_t buffers) : values_(test::first_values(buffers)), roots_(buffers) {}

  struct Expected {
    Status status = Status::completed;
    Errc code{};
    CommandId root = 0;
  };

  Expected run(CommandId id, const Step& step, std::optional<Errc> fault, bool is_cancelled) {
    Expected expected;
    if (is_cancelled) {
      expected = {Status::cancelled, Errc::cancelled, id};
    } else if (const auto poisoned = first_poisoned(step)) {
      expected = {Status::failed, poisoned->code, poisoned->root};
    } else if (fault) {
      expected = {Status::failed, *fault, id};
    }
    if (expected.status == Status::completed) {
      values_[step.output] = test::value_after(step, values_);
      roots_[step.output].reset();
    } else {
      roots_[step.output] = expected;
    }
    return expected;
  }

  void expect_buffers(const std::vector<Buffer>& buffers) const {
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      if (!roots_[i]) {
        ASSERT_EQ(test::common_value(buffers[i]), values_[i]) << "buffer " << i;
        continue;
      }
      try {
        buffers[i].read<std::int32_t>();
        FAIL() << "buffer " << i << " should be poisoned";
      } catch (const Error& error) {
        ASSERT_EQ(error.code(), roots_[i]->code);
        ASSERT_NE(error.root().message().find("command " + std::to_string(roots_[i]->root) + " "), std::string::npos)
            << error.what();
      }
    }
  }

 private:
  std::optional<Expected> first_poisoned(const Step& step) const {
    for (const std::size_t input : step.inputs) {
      if (roots_[input]) return roots_[input];
    }
    return std::nullopt;
  }

  std::vector<std::int32_t> values_;
  std::vector<std::optional<Expected>> roots_;
};

void expect_outcome(const Command& command, const Model::Expected& expected) {
  ASSERT_EQ(command.poll(), expected.status) << "command " << command.id();
  const std::optional<Error> error = command.error();
  ASSERT_EQ(error.has_value(), expected.status != Status::completed);
  if (!error) return;
  ASSERT_EQ(error->code(), expected.code);
  ASSERT_NE(error->root().message().find("command " + std::to_string(expected.root) + " "), std::string::npos)
      << error->what();
  EXPECT_THROW(command.wait(), Error);
}

// Waits for everything; what has failed is looked at later.
void finish_all(const Device& device) {
  while (true) {
    try {
      return device.synchronize();
    } catch (const Error&) {
      continue;
    }
  }
}

TEST(Simulated, Faults_and_cancellations_spread_along_the_buffers_and_nowhere_else) {
  for (int round = 0; round < rounds(5000); ++round) {
    const std::uint64_t seed = test::seed() + static_cast<std::uint64_t>(round);
    std::mt19937_64 random(seed);
    constexpr CommandId commands = 25;
    SimulationOptions options{.seed = seed, .workers = 0};
    std::map<CommandId, Errc> faults;
    for (int i = 0; i < 3; ++i) {
      const CommandId id = 1 + random() % commands;
      if (!faults.emplace(id, random() % 2 ? Errc::device_failure : Errc::out_of_memory).second) continue;
      options.faults.push_back({.command = id,
                                .kind = faults[id] == Errc::device_failure ? InjectedFault::Kind::fail
                                                                           : InjectedFault::Kind::out_of_memory});
    }
    const Device device = Device::simulated(options);
    const std::vector<Buffer> buffers = test::make_buffers(device, 6, 4);
    Model model(buffers.size());
    std::vector<Command> submitted;
    std::vector<Model::Expected> expected;
    for (CommandId id = 1; id <= commands; ++id) {
      const Step step = test::random_step(random, buffers.size());
      submitted.push_back(test::submit(device, step, buffers));
      ASSERT_EQ(submitted.back().id(), id);
      const bool is_cancelled = random() % 8 == 0;  // nothing runs before it is waited for, so it is still pending
      if (is_cancelled) {
        ASSERT_TRUE(submitted.back().cancel());
      }
      const auto fault = faults.find(id);
      expected.push_back(
          model.run(id, step, fault == faults.end() ? std::nullopt : std::optional(fault->second), is_cancelled));
    }
    finish_all(device);
    for (std::size_t i = 0; i < submitted.size(); ++i) {
      expect_outcome(submitted[i], expected[i]);
      if (HasFatalFailure()) FAIL() << "seed " << seed;
    }
    model.expect_buffers(buffers);
    if (HasFatalFailure()) FAIL() << "seed " << seed;
  }
}

TEST(Simulated, Failures_by_chance_spread_in_the_same_way_on_worker_threads) {
  for (int round = 0; round < rounds(500); ++round) {
    const std::uint64_t seed = test::seed() + static_cast<std::uint64_t>(round);
    const auto run = [&](unsigned workers) {
      const Device device = Device::simulated({.seed = seed, .workers = workers, .fail_rate = 0.1});
      const std::vector<Buffer> buffers = test::make_buffers(device, 5, 4);
      std::mt19937_64 random(seed);
      std::vector<Command> commands;
      for (int i = 0; i < 30; ++i) commands.push_back(test::submit(device, test::random_step(random, 5), buffers));
      std::vector<std::string> outcomes;
      finish_all(device);
      for (const Command& command : commands) {
        outcomes.emplace_back(command.error() ? command.error()->what() : "completed");
      }
      return outcomes;
    };
    ASSERT_EQ(run(0), run(3)) << "seed " << seed;
  }
}

// The order in which independent commands finish on a deterministic device.
std::vector<CommandId> order_of_ends(std::uint64_t seed) {
  const Device device = Device::simulated({.seed = seed, .workers = 0});
  std::vector<CommandId> order;
  std::vector<Buffer> outputs;
  for (int i = 0; i < 4; ++i) {
    outputs.push_back(device.zeros({4}));
    device.submit("fill", {}, outputs.back()).on_complete([&](const Command& done) { order.push_back(done.id()); });
  }
  device.synchronize();
  return order;
}

TEST(Simulated, A_seed_is_an_order_and_many_seeds_are_all_orders) {
  std::set<std::vector<CommandId>> seen;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const std::vector<CommandId> order = order_of_ends(seed);
    EXPECT_EQ(order, order_of_ends(seed));
    seen.insert(order);
  }
  EXPECT_EQ(seen.size(), 24U);  // 4!
}

TEST(Simulated, Nothing_runs_by_itself_on_a_deterministic_device) {
  const Device device = Device::simulated({.workers = 0});
  const Buffer a = device.zeros({4});
  const Command first = device.submit("fill", {}, a, {{"value", 1}});
  const Command second = device.submit("scale", {a}, a, {{"factor", 2}});
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_FALSE(first.error());
  EXPECT_EQ(second.poll(), Status::pending);    // this ran the first
  EXPECT_EQ(second.poll(), Status::completed);  // and this the second
  EXPECT_EQ(a.read<float>(), std::vector<float>(4, 2));
}

TEST(Simulated, Dropping_the_last_handle_of_a_deterministic_device_runs_the_rest) {
  Command command;
  {
    const Device device = Device::simulated({.workers = 0});
    command = device.submit("fill", {}, device.zeros({4}));
  }
  EXPECT_EQ(command.poll(), Status::completed);
}

TEST(Simulated, Commands_that_become_ready_after_the_last_handle_was_dropped_run) {
  Command command;
  {
    std::optional<Device> device = Device::simulated({.workers = 0});
    Buffer buffer = device->zeros({4});
    const auto view = buffer.map<float>();
    command = device->submit("relu", {buffer}, buffer);
    device.reset();
    EXPECT_FALSE(command.error());
  }
  EXPECT_EQ(command.poll(), Status::completed);
}

TEST(Simulated, A_delayed_command_takes_longer) {
  using namespace std::chrono_literals;
  const Device device =
      Device::simulated({.faults = {{.command = 1, .kind = InjectedFault::Kind::delay, .delay = 30ms}}});
  const auto start = std::chrono::steady_clock::now();
  device.run("fill", {}, device.zeros({4}));
  EXPECT_GE(std::chrono::steady_clock::now() - start, 30ms);
}

TEST(Simulated, An_error_names_the_command_and_the_kernel) {
  const Device device = Device::simulated({.faults = {{.command = 1}}});
  const Buffer a = device.zeros({4});
  const Buffer b = device.zeros({4});
  const Command bad = device.submit("fill", {}, a);
  const Command victim = device.submit("relu", {a}, b);
  try {
    victim.wait();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::device_failure);
    EXPECT_STREQ(error.what(),
                 "[relu] command 2: input 0 is poisoned; caused by: [fill] command 1 failed: injected failure");
    EXPECT_EQ(error.root().message(), "[fill] command 1 failed: injected failure");
  }
  EXPECT_EQ(bad.poll(), Status::failed);
  EXPECT_EQ(device.poll(1), Status::failed);
  EXPECT_THROW(device.wait(2), Error);
}

TEST(Simulated, A_long_chain_of_failures_keeps_its_root) {
  const Device device = Device::simulated({.faults = {{.command = 1}}});
  const Buffer a = device.zeros({4});
  device.submit("fill", {}, a);
  Command last;
  for (int i = 0; i < 10'000; ++i) last = device.submit("relu", {a}, a);
  EXPECT_THROW(last.wait(), Error);
  EXPECT_EQ(last.error()->root().message(), "[fill] command 1 failed: injected failure");
  EXPECT_LT(std::string(last.error()->what()).size(), 4000U);
}

TEST(Simulated, A_whole_write_heals_and_a_partial_one_does_not) {
  const Device device = Device::simulated({.faults = {{.command = 1}}});
  Buffer a = device.zeros({4});
  device.submit("fill", {}, a);
  EXPECT_THROW(a.read<float>(), Error);
  EXPECT_THROW(a.write(std::vector<float>{1}, 0), Error);
  EXPECT_THROW(a.map<float>(), Error);
  EXPECT_THROW(a.map_read<float>(), Error);
  a.write(std::vector<float>{1, 2, 3, 4});
  EXPECT_EQ(a.read<float>()[3], 4);
  a.write(std::vector<float>{9}, 1);
  EXPECT_EQ(a.read<float>(), (std::vector<float>{1, 9, 3, 4}));
}

TEST(Simulated, Handles_may_be_dropped_in_any_order) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Command command;
    Buffer output;
    {
      const Device device = Device::simulated({.seed = seed});
      output = device.zeros({4});
      Buffer between = device.zeros({4});
      device.submit("fill", {}, between, {{"value", 7}});
      command = device.submit("copy", {between}, output);
    }
    if (seed % 2) {
      output = {};
      command.wait();
    } else {
      command = {};
      EXPECT_EQ(output.read<float>()[0], 7);
    }
  }
}

}  // namespace
}  // namespace tessera
