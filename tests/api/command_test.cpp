// Commands: states, waiting, cancelling, callbacks, coroutines, numbers.
#include <tessera/tessera.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <coroutine>
#include <ctime>
#include <functional>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

namespace tessera {
namespace {

using namespace std::chrono_literals;

class Commands : public ::testing::Test {
 protected:
  Device device = Device::best();
  Buffer gated = device.zeros({4});
  Buffer output = device.zeros({4});

  Command submit_gated() { return device.submit("relu", {gated}, output); }
};

TEST_F(Commands, A_command_goes_from_pending_to_completed) {
  Command command;
  {
    const auto view = gated.map<float>();
    command = submit_gated();
    EXPECT_EQ(command.poll(), Status::pending);
    EXPECT_FALSE(command.error());
  }
  command.wait();
  EXPECT_EQ(command.poll(), Status::completed);
  EXPECT_FALSE(command.error());
}

// Keeps all threads of the CPU busy until it is destroyed.
class BusyThreads {
 public:
  explicit BusyThreads(const Device& device) : pipeline_(device) {
    const int count = device.info().compute_units;
    for (int i = 0; i < count; ++i) {
      const auto wait = [this] {
        ++started_;
        open_.wait(false);
      };
      pipeline_.call("wait", wait, {}, {device.zeros({1})});
    }
    run_ = pipeline_.submit();
    while (started_ < count) std::this_thread::yield();
  }
  ~BusyThreads() {
    open_ = true;
    open_.notify_all();
    run_.wait();
  }
  BusyThreads(const BusyThreads&) = delete;
  BusyThreads& operator=(const BusyThreads&) = delete;

 private:
  std::atomic<int> started_ = 0;
  std::atomic<bool> open_ = false;
  Pipeline pipeline_;
  Command run_;
};

TEST(SmallCommands, Only_those_with_few_steps_run_inside_submit) {
  const Device cpu = Device::open("cpu");
  const auto repeated =
      tile::kernel("repeated", [](tile::Out<float> z, tile::In<float> x, tile::Scalar<std::int64_t, "n"> n) {
        z.store(tile::loop(n, tile::load_like(x, z),
                           [](const tile::Index&, const tile::Tile& sum) { return sum * 0.5F + 1; }));
      });
  const auto squared = tile::kernel("squared", [](tile::Out<float> z, tile::In<float> x) {
    z.store(tile::loop(x.dim(0) * x.dim(0), tile::load_like(x, z),
                       [](const tile::Index&, const tile::Tile& sum) { return sum * 0.5F + 1; }));
  });
  const Buffer x = cpu.zeros({500});
  Buffer one = cpu.zeros({500}), two = cpu.zeros({500}), three = cpu.zeros({500});
  cpu.run(repeated, {x}, one, {{"n", 1}});
  cpu.run(squared, {x}, two);
  cpu.run("relu", {x}, three);
  Command by_scalar, by_extent;
  {
    const BusyThreads busy(cpu);
    EXPECT_EQ(cpu.submit("relu", {x}, three).poll(), Status::completed);
    by_scalar = cpu.submit(repeated, {x}, one, {{"n", 10'000}});
    by_extent = cpu.submit(squared, {x}, two);
    EXPECT_EQ(by_scalar.poll(), Status::pending);
    EXPECT_EQ(by_extent.poll(), Status::pending);
  }
  by_scalar.wait();
  by_extent.wait();
  EXPECT_EQ(one.read<float>(), std::vector<float>(500, 2));
  EXPECT_EQ(two.read<float>(), std::vector<float>(500, 2));
}

TEST_F(Commands, A_callback_that_submits_again_and_registers_itself_again_needs_no_stack) {
  const int wanted = device.info().backend == "cpu" ? 100'000 : 100;  // elsewhere they do not nest
  std::atomic<int> calls = 0;
  std::function<void(const Command&)> again = [&](const Command&) {
    if (++calls < wanted) device.submit("relu", {gated}, output).on_complete(again);
  };
  device.run("relu", {gated}, output);
  device.submit("relu", {gated}, output).on_complete(again);
  while (calls < wanted) std::this_thread::yield();
  device.synchronize();
  EXPECT_EQ(calls, wanted);
}

TEST_F(Commands, A_chain_of_callbacks_that_cancel_each_other_needs_no_stack) {
  constexpr std::size_t count = 20'000;
  std::vector<Command> commands;
  std::size_t calls = 0;
  {
    const auto view = gated.map<float>();
    for (std::size_t i = 0; i < count; ++i) commands.push_back(submit_gated());
    for (std::size_t i = 0; i < count; ++i) {
      commands[i].on_complete([&, i](const Command&) {
        ++calls;
        if (i + 1 < count) commands[i + 1].cancel();
      });
    }
    EXPECT_TRUE(commands[0].cancel());
    EXPECT_EQ(calls, count);
  }
  device.synchronize();
}

TEST_F(Commands, A_deeply_nested_callback_may_wait_for_what_a_deferred_one_does) {
  device.run("relu", {gated}, output);
  constexpr int depth = 40;
  int deepest = 0;
  std::atomic<bool> is_set = false;
  const auto finished = [&] {
    const Command command = device.submit("relu", {gated}, output);
    command.wait();
    return command;
  };
  std::function<void(int)> nest = [&](int level) {
    deepest = std::max(deepest, level);
    if (level < depth) return finished().on_complete([&, level](const Command&) { nest(level + 1); });
    Command pending;
    {
      const auto view = gated.map<float>();
      pending = submit_gated();
      pending.on_complete([&](const Command&) { is_set = true; });
    }
    pending.wait();
    device.run("relu", {gated}, output);
  };
  nest(0);
  EXPECT_EQ(deepest, depth);
  device.synchronize();
  EXPECT_TRUE(is_set);
}

TEST_F(Commands, A_timed_wait_gives_up_and_the_command_goes_on) {
  std::optional<Mapped<float>> view = gated.map<float>();
  const Command command = submit_gated();
  EXPECT_FALSE(command.wait_for(0s));
  EXPECT_FALSE(command.wait_for(-1s));
  EXPECT_FALSE(command.wait_for(2ms));
  EXPECT_FALSE(command.wait_until(std::chrono::steady_clock::now() + 2ms));
  EXPECT_FALSE(command.wait_until(std::chrono::system_clock::now() + 2ms));
  view.reset();
  EXPECT_TRUE(command.wait_for(std::chrono::hours::max()));
  EXPECT_TRUE(command.wait_for(0s));
  EXPECT_TRUE(command.wait_until(std::chrono::steady_clock::time_point::max()));
}

TEST_F(Commands, A_pending_command_can_be_cancelled_once) {
  std::optional<Mapped<float>> view = gated.map<float>();
  const Command command = submit_gated();
  EXPECT_TRUE(command.cancel());
  EXPECT_FALSE(command.cancel());
  EXPECT_EQ(command.poll(), Status::cancelled);
  EXPECT_EQ(command.error()->code(), Errc::cancelled);
  EXPECT_THROW(command.wait(), Error);
  EXPECT_THROW(command.wait_for(0s), Error);
  EXPECT_EQ(device.poll(command.id()), Status::cancelled);
  view.reset();
  EXPECT_THROW(output.read<float>(), Error);
}

TEST_F(Commands, A_completed_command_cannot_be_cancelled) {
  const Command command = submit_gated();
  command.wait();
  EXPECT_FALSE(command.cancel());
  EXPECT_EQ(command.poll(), Status::completed);
}

TEST_F(Commands, What_comes_after_a_cancelled_command_still_waits_for_what_came_before_it) {
  std::optional<Mapped<float>> view = gated.map<float>();
  const Command cancelled = device.submit("fill", {}, gated, {{"value", 1}});
  const Command after = device.submit("fill", {}, gated, {{"value", 2}});
  EXPECT_TRUE(cancelled.cancel());
  EXPECT_FALSE(after.wait_for(2ms));
  view.reset();
  after.wait();
  EXPECT_EQ(gated.read<float>()[0], 2);
}

TEST_F(Commands, A_running_command_stops_between_two_pieces) {
  // The first of its many pieces takes long; cancel comes while it runs.
  const Device slow =
      Device::simulated({.workers = 1, .faults = {{.command = 1, .kind = InjectedFault::Kind::delay, .delay = 500ms}}});
  Buffer large = slow.zeros({1'000'000});
  const Command command = slow.submit("fill", {}, large, {{"value", 1}});
  while (command.poll() == Status::pending) std::this_thread::yield();
  EXPECT_EQ(command.poll(), Status::running);
  EXPECT_FALSE(command.cancel());
  EXPECT_THROW(command.wait(), Error);
  EXPECT_EQ(command.poll(), Status::cancelled);
  EXPECT_NE(std::string(command.error()->what()).find("cancelled while it ran"), std::string::npos);
  EXPECT_THROW(large.read<float>(), Error);
}

TEST_F(Commands, A_callback_runs_once_at_the_end_or_immediately) {
  std::atomic<int> calls{0};
  std::optional<Mapped<float>> view = gated.map<float>();
  const Command command = submit_gated();
  command.on_complete([&](const Command& done) {
    EXPECT_EQ(done.poll(), Status::completed);
    EXPECT_EQ(done, command);
    ++calls;
  });
  EXPECT_EQ(calls, 0);
  view.reset();
  while (calls != 1) std::this_thread::yield();
  command.on_complete([&](const Command&) { ++calls; });
  EXPECT_EQ(calls, 2);
}

TEST_F(Commands, Synchronize_waits_for_callbacks) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> ended{0};
    for (int i = 0; i < 20; ++i) {
      device.submit("fill", {}, device.zeros({10'000})).on_complete([&](const Command&) {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
        ++ended;
      });
    }
    device.synchronize();
    EXPECT_EQ(ended, 20);
  }
}

TEST_F(Commands, A_callback_may_synchronize) {
  std::atomic<int> ended{0};
  for (int i = 0; i < 8; ++i) {
    device.submit("fill", {}, device.zeros({10'000})).on_complete([&](const Command&) {
      device.synchronize();
      ++ended;
    });
  }
  device.synchronize();
  EXPECT_EQ(ended, 8);
}

TEST_F(Commands, A_callback_may_wait_for_other_commands) {
  std::atomic<int> ended{0};
  constexpr int count = 32;  // more than there are workers
  for (int i = 0; i < count; ++i) {
    device.submit("fill", {}, device.zeros({10'000})).on_complete([&](const Command&) {
      device.submit("fill", {}, device.zeros({10'000})).wait();
      device.run("fill", {}, device.zeros({10'000}));
      ++ended;
    });
  }
  while (ended != count) std::this_thread::yield();
}

TEST_F(Commands, Callbacks_that_wait_do_not_fill_the_stack) {
  std::optional<Mapped<float>> view = gated.map<float>();
  const Command late = submit_gated();
  constexpr int count = 20'000;
  std::atomic<int> ended{0};
  {
    // Held back until all have their callbacks: for a finished command the callback would run, and wait, on this
    // thread.
    Buffer start = device.zeros({1100});
    const auto held = start.map<float>();
    for (int i = 0; i < count; ++i) {
      device.submit("relu", {start}, device.empty({1100})).on_complete([&](const Command&) {
        late.wait();
        ++ended;
      });
    }
  }
  std::this_thread::sleep_for(20ms);  // the workers' waits are nested now
  view.reset();
  while (ended != count) std::this_thread::yield();
}

TEST_F(Commands, A_command_that_failed_has_an_error) {
  const Device faulty = Device::simulated({.fail_rate = 1});
  for (int i = 0; i < 2000; ++i) {
    const Command command = faulty.submit("fill", {}, faulty.zeros({4}));
    while (!is_terminal(command.poll())) continue;
    ASSERT_EQ(command.poll(), Status::failed);
    ASSERT_TRUE(command.error());
  }
}

TEST_F(Commands, A_user_thread_runs_no_unrelated_commands) {
  const auto here = std::this_thread::get_id();
  std::atomic<int> ended{0};
  std::optional<Mapped<float>> view = gated.map<float>();
  for (int i = 0; i < 10; ++i) {
    device.submit("relu", {gated}, i % 2 ? gated : device.zeros({4})).on_complete([&](const Command&) {
      EXPECT_NE(std::this_thread::get_id(), here);
      ++ended;
    });
  }
  view.reset();  // they become ready for the workers
  while (ended != 10) std::this_thread::yield();
}

TEST_F(Commands, An_exception_in_a_callback_is_thrown_by_the_next_synchronize) {
  const Command command = submit_gated();
  command.wait();
  command.on_complete([](const Command&) { throw std::runtime_error("from the callback"); });
  try {
    device.synchronize();
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "from the callback");
  }
  device.synchronize();
}

TEST_F(Commands, Dropping_a_handle_cancels_nothing) {
  {
    const auto view = gated.map<float>();
    device.submit("fill", {}, gated, {{"value", 3}});
  }
  EXPECT_EQ(gated.read<float>()[0], 3);
}

TEST_F(Commands, Wait_all_waits_for_all_and_throws_the_first_error) {
  const Device faulty =
      Device::simulated({.faults = {{.command = 2}, {.command = 3, .kind = InjectedFault::Kind::out_of_memory}}});
  std::vector<Command> commands;
  for (int i = 0; i < 4; ++i) commands.push_back(faulty.submit("fill", {}, faulty.zeros({4})));
  try {
    wait_all(commands);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::device_failure);
  }
  EXPECT_EQ(commands[3].poll(), Status::completed);
  wait_all({commands[0], commands[3]});
  wait_all({});
}

TEST_F(Commands, Wait_any_returns_the_one_that_has_finished) {
  const auto view = gated.map<float>();
  const Command stuck = submit_gated();
  for (int i = 0; i < 100; ++i) {
    const Command quick = device.submit("fill", {}, device.zeros({i % 2 ? 4 : 10'000}));
    EXPECT_EQ(wait_any({stuck, quick}), 1U);
    EXPECT_EQ(quick.poll(), Status::completed);
  }
  EXPECT_EQ(stuck.poll(), Status::pending);
}

TEST_F(Commands, Wait_any_works_on_a_deterministic_device) {
  const Device simulated = Device::simulated({.seed = 5, .workers = 0});
  const Command a = simulated.submit("fill", {}, simulated.zeros({4}));
  const Command b = simulated.submit("fill", {}, simulated.zeros({4}));
  EXPECT_LT(wait_any({a, b}), 2U);
}

TEST_F(Commands, A_number_answers_as_the_handle_does) {
  std::optional<Mapped<float>> view = gated.map<float>();
  const CommandId pending = submit_gated().id();
  const CommandId cancelled = submit_gated().id();
  EXPECT_EQ(device.poll(pending), Status::pending);
  EXPECT_TRUE(device.cancel(cancelled));
  EXPECT_FALSE(device.cancel(cancelled));
  view.reset();
  device.wait(pending);
  EXPECT_EQ(device.poll(pending), Status::completed);
  EXPECT_EQ(device.poll(cancelled), Status::cancelled);
  EXPECT_THROW(device.wait(cancelled), Error);
}

TEST_F(Commands, A_number_is_known_for_a_while_and_a_pending_one_for_ever) {
  std::optional<Mapped<float>> view = gated.map<float>();
  const Buffer other = device.zeros({4});
  const CommandId pending = submit_gated().id();
  const CommandId failed = device.submit("nonsense", {}, other).id();
  const CommandId completed = device.submit("fill", {}, other).id();
  device.wait(completed);
  for (int i = 0; i < 65'000; ++i) device.submit("fill", {}, other);
  EXPECT_EQ(device.poll(completed), Status::completed);
  EXPECT_EQ(device.poll(failed), Status::failed);
  for (int i = 0; i < 70'000; ++i) device.submit("fill", {}, other);
  EXPECT_THROW(device.poll(completed), Error);
  EXPECT_EQ(device.poll(pending), Status::pending);
  view.reset();
  device.wait(pending);
  EXPECT_EQ(device.poll(pending), Status::completed);  // it finished only now
  for (int i = 0; i < 70'000; ++i) device.submit("fill", {}, other);
  EXPECT_THROW(device.poll(pending), Error);
}

TEST_F(Commands, More_pending_commands_than_the_window_stay_answerable) {
  std::vector<CommandId> ids;
  {
    const auto view = gated.map<float>();
    for (int i = 0; i < 200'000; ++i) ids.push_back(device.submit("relu", {gated}, gated).id());
    EXPECT_EQ(device.poll(ids.front()), Status::pending);
    EXPECT_EQ(device.poll(ids[100'000]), Status::pending);
  }
  device.wait(ids.back());
  device.synchronize();
}

// A minimal coroutine type.
struct Detached {
  struct promise_type {
    Detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

Detached await_chain(Device device, Buffer a, Buffer b, std::atomic<int>* done) {
  for (int i = 0; i < 1000; ++i) co_await device.submit("elementwise_add", {a, b}, a);
  co_await device.submit("relu", {a}, b, {{"slope", 0.1}});
  ++*done;
}

TEST_F(Commands, A_coroutine_awaits_and_resumes_on_the_worker) {
  const Buffer a = device.zeros({2000});
  const Buffer b = device.zeros({2000});
  device.run("fill", {}, b, {{"value", 1}});
  std::atomic<int> done{0};
  await_chain(device, a, b, &done);
  while (done == 0) std::this_thread::yield();
  EXPECT_EQ(b.read<float>()[1999], 1000);
}

// A coroutine type whose owner may destroy it.
struct Owned {
  struct promise_type {
    Owned get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_never initial_suspend() { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
  std::coroutine_handle<promise_type> handle;
};

Owned await_once(Command command) { co_await command; }

TEST_F(Commands, A_coroutine_may_be_destroyed_while_it_waits) {
  std::optional<Mapped<float>> view = gated.map<float>();
  const Command command = submit_gated();
  await_once(command).handle.destroy();
  view.reset();
  command.wait();
}

Detached await_failure(Device device, std::atomic<int>* caught) {
  try {
    co_await device.submit("nonsense", {}, device.zeros({4}));
  } catch (const Error& error) {
    *caught = error.code() == Errc::unknown_kernel ? 1 : 2;
  }
}

TEST_F(Commands, Awaiting_a_failed_command_throws) {
  std::atomic<int> caught{0};
  await_failure(device, &caught);
  EXPECT_EQ(caught, 1);
}

TEST_F(Commands, A_waiting_process_uses_no_CPU_time) {
  submit_gated().wait();
  device.submit("fill", {}, device.zeros({100'000})).wait();
  device.synchronize();  // leftovers of other tests
  std::optional<Mapped<float>> view = gated.map<float>();
  const Command command = submit_gated();
  // Of the process, so that other work on the machine does not count. A thread that spins would need as long as it
  // waits.
  const std::clock_t before = std::clock();
  EXPECT_FALSE(command.wait_for(400ms));
  const double seconds = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  EXPECT_LT(seconds, 0.2);
}

}  // namespace
}  // namespace tessera
