// Pipeline runs: failure, cancelling, streams, several in flight, times, and allocations.
//
// These tests use a mapped view as a gate: stages that use its buffer stay pending until the view is dropped.
#include <tessera/tessera.hpp>

#include "support/allocations.hpp"
#include "support/expect_error.hpp"
#include "support/program.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace tessera {
namespace {

using namespace std::chrono_literals;
using test::expect_error;
using Floats = std::vector<float>;

class PipelineRuns : public testing::Test {
 protected:
  Device device = Device::best();
  Buffer a = device.buffer<float>({1, 2, 3, 4});
  Buffer b = device.zeros({4});
  Buffer c = device.zeros({4});
  Pipeline pipeline{device};

  static void wait_until_over(const Command& command) {
    while (!is_terminal(command.poll())) std::this_thread::sleep_for(100us);
  }
};

TEST_F(PipelineRuns, A_timed_wait_does_not_run_a_call_stage) {
  std::atomic<bool> may_end = false;
  pipeline.call(
      [&] {
        while (!may_end) std::this_thread::sleep_for(100us);
      },
      {}, {b});
  const Command command = pipeline.submit();
  EXPECT_FALSE(command.wait_for(5ms));
  may_end = true;
  command.wait();
}

TEST_F(PipelineRuns, A_call_that_waits_for_itself_is_refused) {
  const Buffer x = device.zeros({4});
  Pipeline other(device);
  other.add("relu", {b}, x);
  const std::vector<std::function<void()>> waits = {
      [&] { device.run("relu", {b}, x); },
      [&] { device.submit("relu", {b}, x).wait(); },
      [&] { pipeline.run(); },
      [&] { other.run(); },
      [&] { other.submit().wait(); },
      [&] { device.run("relu", {x}, a); },
      [&] { device.synchronize(); },
  };
  const std::function<void()>* now = nullptr;
  pipeline.call("own", [&] { (*now)(); }, {a}, {b});
  for (const std::function<void()>& wait : waits) {
    now = &wait;
    expect_error(Errc::invalid_argument, "would wait for itself", [&] { pipeline.submit().wait(); });
    device.synchronize();
  }
}

TEST_F(PipelineRuns, A_call_that_waits_for_what_waits_for_it_is_refused) {
  Buffer x = device.zeros({4}), y = device.zeros({4}), z = device.zeros({4});
  Pipeline other(device);
  other.add("neg", {y}, z);
  const Stream stream = device.stream({.in_order = true});
  const std::vector<std::function<void()>> waits = {
      [&] { device.submit("neg", {x}, y).wait(); },
      [&] { device.run("neg", {x}, y); },
      [&] { x.read<float>(); },
      [&] { x.write<float>({1, 2, 3, 4}); },
      [&] { device.run("neg", {a}, x); },
      [&] {
        device.submit("neg", {x}, y);
        other.submit().wait();
      },
      [&] {
        device.submit("neg", {x}, y);
        other.run();
      },
      [&] {
        stream.submit("neg", {x}, y);
        stream.submit("neg", {a}, z).wait();
      },
  };
  const std::function<void()>* now = nullptr;
  pipeline.call("own",
                [&] {
                  device.submit("relu", {b}, x);
                  (*now)();
                },
                {a}, {b});
  for (const std::function<void()>& wait : waits) {
    now = &wait;
    expect_error(Errc::invalid_argument, "would wait for itself", [&] { pipeline.submit().wait(); });
    device.synchronize();
    x.write<float>({0, 0, 0, 0});
    y.write<float>({0, 0, 0, 0});
  }
}

TEST_F(PipelineRuns, A_call_may_wait_for_unrelated_commands) {
  const Buffer x = device.zeros({4});
  const Command before = device.submit("relu", {a}, c);
  pipeline.call(
      [&] {
        before.wait();
        device.run("relu", {a}, x);
        device.submit("neg", {a}, x).wait();
      },
      {a, c}, {b});
  pipeline.run();
  EXPECT_EQ(x.read<float>(), Floats({-1, -2, -3, -4}));
}

TEST_F(PipelineRuns, A_pipeline_that_never_ran_has_no_times) {
  pipeline.call("bad", [] { throw std::runtime_error("no"); }, {}, {b}).add("relu", {b}, c);
  expect_error(Errc::call_failed, "no", [&] { pipeline.run(); });
  const RunTimes times = pipeline.last_run();
  ASSERT_EQ(times.stages.size(), 1U);
  EXPECT_EQ(times.stages[0].label, "bad");
}

TEST_F(PipelineRuns, A_failing_call_fails_what_depends_on_it_and_nothing_else) {
  const Buffer t = pipeline.temporary({4}), d = device.zeros({4});
  bool is_bad = true;
  pipeline.add("relu", {a}, b)
      .call("guess",
            [&](HostCall& call) {
              if (is_bad) throw std::runtime_error("no idea");
              for (float& value : call.output<float>(0)) value = 5;
            },
            {b}, {t})
      .add("neg", {t}, c)
      .add("neg", {a}, d);
  const Command command = pipeline.submit();
  expect_error(Errc::call_failed, "stage 1 [guess] command", [&] { command.wait(); });
  EXPECT_NE(std::string(command.error()->what()).find("failed: no idea"), std::string::npos);
  EXPECT_EQ(command.poll(), Status::failed);
  expect_error(Errc::call_failed, "caused by: stage 1 [guess]", [&] { c.read<float>(); });
  EXPECT_EQ(b.read<float>(), Floats({1, 2, 3, 4}));
  EXPECT_EQ(d.read<float>(), Floats({-1, -2, -3, -4}));
  is_bad = false;
  pipeline.run();
  EXPECT_EQ(c.read<float>(), Floats({-5, -5, -5, -5}));
}

TEST_F(PipelineRuns, Calls_may_throw_anything_and_errors_keep_their_code) {
  pipeline.call([](HostCall& call) { call.input<double>(0); }, {a}, {b});
  expect_error(Errc::dtype_mismatch, "stage 0 [call]", [&] { pipeline.run(); });
  Pipeline other(device);
  other.call([] { throw 5; }, {a}, {b});
  expect_error(Errc::call_failed, "a non-std::exception was thrown", [&] { other.run(); });
}

TEST_F(PipelineRuns, Poison_from_outside_fails_a_small_run_and_healing_works) {
  Pipeline bad(device);
  bad.call([] { throw std::runtime_error("spoilt"); }, {}, {a});
  expect_error(Errc::call_failed, "spoilt", [&] { bad.run(); });
  for (const bool fuse : {false, true}) {
    Pipeline two(device, {.fuse = fuse});
    const Buffer t = two.temporary({4});
    two.add("relu", {a}, t).add("neg", {t}, b).fill(c, 1);
    const std::string_view failing = fuse ? "stage 0 [relu+neg] command" : "stage 0 [relu] command";
    expect_error(Errc::call_failed, failing, [&] { two.run(); });
    expect_error(Errc::call_failed, failing, [&] { two.submit().wait(); });
    expect_error(Errc::call_failed, fuse ? "[relu+neg]" : "stage 1 [neg]", [&] { b.read<float>(); });
    EXPECT_EQ(c.read<float>(), Floats({1, 1, 1, 1}));
    a.write<float>({1, 2, 3, 4});
    two.run();
    EXPECT_EQ(b.read<float>(), Floats({-1, -2, -3, -4}));
    if (!fuse) expect_error(Errc::call_failed, "spoilt", [&] { bad.run(); });
  }
}

TEST_F(PipelineRuns, An_injected_fault_names_its_stage) {
  for (const unsigned workers : {0U, 2U}) {
    // The groups of a run have the command numbers just before the run's.
    const Device simulated = Device::simulated({.seed = 3, .workers = workers, .faults = {{.command = 2}}});
    const Buffer x = simulated.zeros({4}), y = simulated.zeros({4}), z = simulated.zeros({4});
    Pipeline three(simulated, {.fuse = false});
    const Buffer t = three.temporary({4});
    three.fill(t, 1).add("neg", {t}, x).add("neg", {x}, y).fill(z, 4);
    const Command command = three.submit();
    EXPECT_EQ(command.id(), 5U);
    expect_error(Errc::device_failure, "stage 1 [neg] command 2 failed: injected failure", [&] { command.wait(); });
    EXPECT_FALSE(command.error()->cause());
    expect_error(Errc::device_failure, "stage 2 [neg]", [&] { y.read<float>(); });
    EXPECT_EQ(z.read<float>(), Floats({4, 4, 4, 4}));
    EXPECT_EQ(simulated.poll(1), Status::completed);
    EXPECT_EQ(simulated.poll(2), Status::failed);
    three.run();
    EXPECT_EQ(y.read<float>(), Floats({1, 1, 1, 1}));
  }
}

TEST_F(PipelineRuns, Cancelled_before_anything_started_it_finishes_at_once) {
  pipeline.add("relu", {a}, b).add("neg", {b}, c);
  Command command;
  {
    const auto gate = a.map<float>();
    command = pipeline.submit();
    EXPECT_EQ(command.poll(), Status::pending);
    EXPECT_TRUE(command.cancel());
    EXPECT_EQ(command.poll(), Status::cancelled);
    EXPECT_FALSE(command.cancel());
  }
  expect_error(Errc::cancelled, "was cancelled", [&] { command.wait(); });
  expect_error(Errc::cancelled, "was cancelled with its run", [&] { b.read<float>(); });
  expect_error(Errc::cancelled, "stage 1 [neg]", [&] { c.read<float>(); });
  pipeline.run();
  EXPECT_EQ(c.read<float>(), Floats({-1, -2, -3, -4}));
}

TEST_F(PipelineRuns, Cancelled_halfway_the_rest_does_not_start) {
  std::atomic<bool> started{false}, go_on{false};
  pipeline
      .call("slow",
            [&](HostCall& call) {
              started = true;
              while (!go_on) std::this_thread::yield();
              call.output<float>(0)[0] = 1;
            },
            {a}, {b})
      .add("neg", {b}, c);
  const Command command = pipeline.submit();
  while (!started) std::this_thread::yield();
  EXPECT_EQ(command.poll(), Status::running);
  EXPECT_FALSE(command.cancel());
  EXPECT_FALSE(is_terminal(command.poll()));
  go_on = true;
  expect_error(Errc::cancelled, "stage 1 [neg]", [&] { command.wait(); });
  EXPECT_EQ(command.poll(), Status::cancelled);
  EXPECT_EQ(b.read<float>()[0], 1);
  expect_error(Errc::cancelled, "was cancelled with its run", [&] { c.read<float>(); });
}

// A run whose first stage has finished and whose second waits for a mapped buffer.
class HalfWay {
 public:
  HalfWay(const Device& device, const Stream& stream) : pipeline_(device) {
    pipeline_.call([this] { has_run_ = true; }, {}, {first}).add("relu", {gated}, second).add("neg", {second}, third);
    command = pipeline_.submit({}, stream);
    while (!has_run_) std::this_thread::yield();
    while (device.poll(command.id() - 3) != Status::completed) std::this_thread::yield();
  }
  Buffer first = Device::best().zeros({4}), gated = first.device().zeros({4}), second = first.device().zeros({4}),
         third = first.device().zeros({4});
  Mapped<float> gate = gated.map<float>();
  Command command;

 private:
  std::atomic<bool> has_run_{false};
  Pipeline pipeline_;
};

TEST_F(PipelineRuns, Cancelled_halfway_it_does_not_wait_for_its_predecessors) {
  std::optional<HalfWay> half(std::in_place, device, device.stream());
  std::atomic<int> told{0};
  half->command.on_complete([&](const Command&) { ++told; });
  EXPECT_EQ(half->command.poll(), Status::running);
  EXPECT_FALSE(half->command.cancel());
  expect_error(Errc::cancelled, "stage 1 [relu]", [&] { half->command.wait(); });
  EXPECT_EQ(half->command.poll(), Status::cancelled);
  EXPECT_EQ(told, 1);
  EXPECT_EQ(half->first.read<float>()[0], 0);
  const Buffer third = half->third;
  half.reset();  // the gate opens
  expect_error(Errc::cancelled, "stage 2 [neg]", [&] { third.read<float>(); });
}

TEST_F(PipelineRuns, A_deadline_stops_what_waits_half_way) {
  const HalfWay half(device, device.stream({.deadline = 1s}));
  wait_until_over(half.command);
  EXPECT_EQ(half.command.poll(), Status::cancelled);
  EXPECT_EQ(half.command.error()->code(), Errc::deadline_exceeded);
}

TEST_F(PipelineRuns, One_group_can_be_cancelled_by_its_number) {
  pipeline.add("relu", {a}, b).fill(c, 2);
  Command command;
  {
    const auto gate = a.map<float>();
    command = pipeline.submit();
    EXPECT_TRUE(device.cancel(command.id() - 2));
  }
  expect_error(Errc::cancelled, "stage 0 [relu]", [&] { command.wait(); });
  EXPECT_EQ(command.poll(), Status::cancelled);
  EXPECT_EQ(c.read<float>(), Floats({2, 2, 2, 2}));
}

TEST_F(PipelineRuns, A_deadline_holds_for_the_whole_run) {
  const Stream stream = device.stream({.deadline = 500ms});
  pipeline.add("relu", {a}, b).add("neg", {b}, c);
  {
    const auto gate = a.map<float>();
    const Command command = pipeline.submit({}, stream);
    wait_until_over(command);
    EXPECT_EQ(command.error()->code(), Errc::deadline_exceeded);
    EXPECT_EQ(command.poll(), Status::cancelled);
  }
  expect_error(Errc::deadline_exceeded, "", [&] { c.read<float>(); });
  pipeline.run({}, stream);

  // It started in time, but stages that have not started by the deadline never do.
  Pipeline slow(device);
  slow.call([] { std::this_thread::sleep_for(600ms); }, {}, {b}).add("neg", {b}, c);
  const Command command = slow.submit({}, stream);
  expect_error(Errc::deadline_exceeded, "stage 1 [neg]", [&] { command.wait(); });
  EXPECT_EQ(command.poll(), Status::cancelled);
}

TEST_F(PipelineRuns, A_run_is_one_command_of_its_stream) {
  pipeline.add("relu", {a}, b).add("neg", {b}, c);
  const Stream two = device.stream({.max_in_flight = 2, .when_full = WhenFull::reject});
  {
    const auto gate = a.map<float>();
    const Command first = pipeline.submit({}, two), second = pipeline.submit({}, two), third = pipeline.submit({}, two);
    EXPECT_EQ(two.in_flight(), 2U);
    EXPECT_EQ(third.error()->code(), Errc::stream_full);
  }
  two.synchronize();
  EXPECT_EQ(two.in_flight(), 0U);

  const Stream newest = device.stream({.max_in_flight = 1, .when_full = WhenFull::drop_oldest});
  std::vector<Command> runs;
  {
    const auto gate = a.map<float>();
    for (int i = 0; i < 4; ++i) runs.push_back(pipeline.submit({}, newest));
  }
  newest.synchronize();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(runs[static_cast<std::size_t>(i)].poll(), Status::cancelled);
  EXPECT_EQ(runs[3].poll(), Status::completed);
  EXPECT_EQ(c.read<float>(), Floats({-1, -2, -3, -4}));

  expect_error(Errc::wrong_device, "another device", [&] { pipeline.run({}, Device::simulated().stream()); });
  expect_error(Errc::invalid_argument, "empty stream", [&] { pipeline.run({}, Stream()); });
}

TEST_F(PipelineRuns, An_in_order_stream_orders_runs_that_share_nothing) {
  const Stream stream = device.stream();
  std::vector<int> order;
  std::atomic<bool> open{false};
  pipeline.call(
      [&] {
        while (!open) std::this_thread::yield();
        order.push_back(1);
      },
      {}, {b});
  Pipeline second(device);
  second.call([&] { order.push_back(2); }, {}, {c});
  const Command one = pipeline.submit({}, stream), two = second.submit({}, stream);
  const Command three = stream.submit("fill", {}, device.zeros({4}));
  EXPECT_FALSE(is_terminal(two.poll()));
  open = true;
  three.wait();
  EXPECT_EQ(order, std::vector<int>({1, 2}));
  EXPECT_EQ(one.poll(), Status::completed);
}

TEST_F(PipelineRuns, Commands_and_runs_order_each_other) {
  pipeline.add("scale", {b}, c, {{"factor", 2}});
  for (int i = 0; i < 200; ++i) {
    const auto value = static_cast<float>(i);
    std::optional<Mapped<float>> gate;
    if (i % 2 == 0) gate.emplace(a.map<float>());
    device.submit("relu", {a}, b);
    device.submit("fill", {}, b, {{"value", value}});
    pipeline.submit();
    const Command after = device.submit("scale", {c}, c, {{"factor", 10}});
    gate.reset();
    after.wait();
    ASSERT_EQ(c.read<float>(), Floats(4, value * 20));
  }
}

TEST_F(PipelineRuns, A_barrier_separates_stages_that_share_nothing) {
  std::atomic<int> before{0};
  for (int i = 0; i < 6; ++i) {
    pipeline.call(
        [&] {
          std::this_thread::sleep_for(1ms);
          ++before;
        },
        {}, {device.zeros({1})});
  }
  pipeline.barrier();
  std::atomic<bool> was_early{false};
  for (int i = 0; i < 6; ++i) {
    pipeline.call(
        [&] {
          if (before != 6) was_early = true;
        },
        {}, {device.zeros({1})});
  }
  pipeline.run();
  EXPECT_FALSE(was_early);
}

TEST_F(PipelineRuns, Independent_stages_run_at_the_same_time) {
  if (device.info().compute_units < 2) GTEST_SKIP();
  std::atomic<int> inside{0};
  const auto meet = [&] {
    ++inside;
    for (int i = 0; i < 5000 && inside < 2; ++i) std::this_thread::sleep_for(1ms);
    if (inside < 2) throw std::runtime_error("nobody came");
  };
  pipeline.call(meet, {}, {b}).call(meet, {}, {c});
  pipeline.run();
}

TEST_F(PipelineRuns, Runs_in_flight_have_their_own_temporaries) {
  const Buffer in = pipeline.slot("in", {1000}), out = pipeline.slot("out", {1000});
  const Buffer s = pipeline.temporary({1000}), t = pipeline.temporary({1000});
  pipeline.add("scale", {in}, s, {{"factor", 3}})
      .add("neg", {s}, t)
      .add("elementwise_add", {s, t}, s)
      .add("elementwise_sub", {s, t}, out);
  std::vector<Buffer> ins, outs;
  std::vector<Command> runs;
  for (int i = 0; i < 64; ++i) {
    ins.push_back(device.buffer<float>(Floats(1000, static_cast<float>(i))));
    outs.push_back(device.zeros({1000}));
    runs.push_back(pipeline.submit({{"in", ins.back()}, {"out", outs.back()}}));
  }
  wait_all(runs);
  for (int i = 0; i < 64; ++i) {
    ASSERT_EQ(outs[static_cast<std::size_t>(i)].read<float>(), Floats(1000, static_cast<float>(3 * i)));
  }
}

TEST_F(PipelineRuns, Without_memory_for_another_set_of_temporaries_runs_share) {
  const Device simulated = Device::simulated({.workers = 0});
  const Buffer in = simulated.zeros({1000}), out = simulated.zeros({1000});
  Pipeline chain(simulated, {.fuse = false});
  const Buffer t = chain.temporary({100000});
  chain.add("fill", {}, t, {{"value", 2}}).add("reduce_sum", {t}, simulated.zeros({}));
  simulated.set_memory_limit(simulated.memory().reserved + (std::size_t{500} << 10));
  std::vector<Command> runs;
  for (int i = 0; i < 6; ++i) runs.push_back(chain.submit());
  wait_all(runs);
  const std::size_t before = simulated.memory().in_use;
  Pipeline large(simulated, {.fuse = false});
  const Buffer u = large.temporary({1000000});
  large.fill(u, 2).add("reduce_sum", {u}, simulated.zeros({}));
  expect_error(Errc::out_of_memory, "", [&] { large.run(); });
  expect_error(Errc::out_of_memory, "", [&] { large.submit().wait(); });
  EXPECT_LE(simulated.memory().in_use, before + 8);
}

TEST_F(PipelineRuns, The_pipeline_may_be_destroyed_while_it_runs) {
  const Buffer out = device.zeros({1000});
  Command command;
  {
    const auto gate = a.map<float>();
    Pipeline gone(device);
    const Buffer t = gone.temporary({4});
    const std::string label = "a name that is long enough to live on the heap";
    gone.add("relu", {a}, t)
        .call(label,
              [keep = std::make_shared<int>(1)](HostCall& call) { call.output<float>(0)[0] = call.input<float>(0)[0]; },
              {t}, {out});
    command = gone.submit();
  }
  command.wait();
  EXPECT_EQ(out.read<float>()[0], 1);
}

TEST_F(PipelineRuns, A_device_with_named_commands_is_destroyed_with_its_last_handle) {
  std::weak_ptr<int> alive;
  {
    const Device simulated = Device::simulated({.workers = 1});
    Pipeline named(simulated);
    auto kept = std::make_shared<int>(1);
    alive = kept;
    named.call([kept] {}, {}, {simulated.zeros({4})});
    simulated.define_command("named", named);
    simulated.run("named");
  }
  EXPECT_TRUE(alive.expired());
}

TEST_F(PipelineRuns, Last_run_has_the_times_of_each_stage) {
  EXPECT_EQ(pipeline.last_run().run, 0U);
  pipeline.call("nap", [] { std::this_thread::sleep_for(5ms); }, {}, {b}).add("neg", {b}, c);
  pipeline.run();
  const RunTimes times = pipeline.last_run();
  EXPECT_EQ(times.run, 1U);
  EXPECT_EQ(times.status, Status::completed);
  ASSERT_EQ(times.stages.size(), 2U);
  EXPECT_EQ(times.stages[0].label, "nap");
  EXPECT_EQ(times.stages[1].stage, 1U);
  EXPECT_GE(times.stages[0].duration, 5ms);
  EXPECT_GE(times.stages[1].start, times.stages[0].start + times.stages[0].duration);
  EXPECT_GE(times.total, times.stages[1].start + times.stages[1].duration);
  pipeline.run();
  EXPECT_EQ(pipeline.last_run().run, 2U);
}

TEST_F(PipelineRuns, One_tiny_run_in_64_is_timed) {
  pipeline.add("relu", {a}, b).add("neg", {b}, c);
  pipeline.compile();
  for (int i = 0; i < 65; ++i) pipeline.run();
  const RunTimes times = pipeline.last_run();
  EXPECT_EQ(times.run, 65U);
  ASSERT_EQ(times.stages.size(), 2U);
  EXPECT_GE(times.stages[1].start, times.stages[0].start);
}

TEST_F(PipelineRuns, Coroutines_can_await_a_run) {
  struct Task {
    struct promise_type {
      Task get_return_object() { return {}; }
      std::suspend_never initial_suspend() { return {}; }
      std::suspend_never final_suspend() noexcept { return {}; }
      void return_void() {}
      void unhandled_exception() { std::terminate(); }
    };
  };
  const Buffer in = pipeline.slot("in", {4});
  pipeline.add("scale", {in}, b, {{"factor", pipeline.param("factor", 1)}}).add("neg", {b}, c);
  device.define_command("awaited", pipeline);
  std::atomic<int> steps{0};
  [](Pipeline& with, Device on, Buffer from, std::atomic<int>& count) -> Task {
    co_await with.submit({{"in", from}, {"factor", 2}});
    ++count;
    co_await on.submit("awaited", {{"in", from}});
    ++count;
  }(pipeline, device, a, steps);
  while (steps < 2) std::this_thread::yield();
}

// A kernel that no other test has compiled.
tile::Kernel fresh_kernel() {
  static std::atomic<int> count = 0;
  const float number = static_cast<float>(++count) + 0.125F * static_cast<float>(test::seed() % 1'000'000);
  return tile::kernel("fresh", [number](tile::Out<float> z, tile::In<float> x) {
    z.store(tile::sin(tile::load_like(x, z) * number) + number);
  });
}

TEST_F(PipelineRuns, Compiling_is_not_part_of_a_stage_and_explain_does_it_beforehand) {
  const Buffer large = device.zeros({100'000}), result = device.zeros({100'000});
  const auto compiling = [&](bool explains) {
    Pipeline once(device);
    once.add(fresh_kernel(), {large}, result);
    if (explains) once.explain();
    once.run();
    const RunTimes times = once.last_run();
    EXPECT_EQ(times.stages.size(), 1U);
    EXPECT_LE(times.stages[0].compiling + times.stages[0].duration, times.total);
    return times.stages[0].compiling.count();
  };
  EXPECT_GT(compiling(false), 0);
  EXPECT_EQ(compiling(true), 0);
}

// How many allocations 100 replays make after a warm-up: the minimum of ten attempts. With several threads a work item
// may get a role it never had and grow its capacity, later on a busier machine; what each replay allocates shows in
// every attempt.
std::size_t allocations_of(Pipeline& pipeline, const Bindings& bindings, bool one_by_one) {
  std::vector<Command> commands(100);
  const auto replay = [&] {
    for (Command& command : commands) {
      command = pipeline.submit(bindings);
      if (one_by_one) command.wait();
    }
    for (Command& command : commands) command.wait();
    commands.assign(100, Command());
  };
  for (int i = 0; i < 30; ++i) replay();
  std::size_t fewest = ~std::size_t{0};
  for (int i = 0; i < 10; ++i) {
    const std::size_t before = test::allocations();
    replay();
    fewest = std::min(fewest, test::allocations() - before);
  }
  return fewest;
}

TEST_F(PipelineRuns, Replays_allocate_nothing) {
  if (test::is_sanitized || device.info().backend != "cpu") GTEST_SKIP();
  for (const std::int64_t side : {2, 40}) {  // inline; handed to a worker
    Pipeline many(device);
    const Shape shape{side, side, 4};
    const Buffer in = many.slot("in", shape, u8);
    const Buffer blurred = many.temporary(shape, u8), sharp = many.temporary(shape, u8);
    const Buffer gray = device.zeros({side, side}, u8);
    many.add("gaussian_blur", {in}, blurred, {{"radius", 3}, {"sigma", many.param("sigma", 1.5)}})
        .add("sharpen", {blurred}, sharp, {{"amount", 0.5}})
        .barrier()
        .add("grayscale", {sharp}, gray);
    for (int i = 0; i < 12; ++i) many.add("grayscale", {sharp}, device.zeros({side, side}, u8));
    const Buffer frame = device.zeros(shape, u8);
    const Binding frame_binding("in", frame), sigma_binding("sigma", 2.0);
    EXPECT_EQ(allocations_of(many, {frame_binding}, true), 0U) << side;
    EXPECT_EQ(allocations_of(many, {frame_binding, sigma_binding}, true), 0U) << side;
    EXPECT_LT(allocations_of(many, {frame_binding}, false), 100U) << side;
  }
}

// How many allocations planning this many stages makes; each stage reads what the previous one wrote.
std::size_t planning_allocations(const Device& device, const std::string& kernel, int stages, int barrier_every) {
  Pipeline pipeline(device);
  const Shape shape{8, 8};
  Buffer last = device.zeros(shape);
  for (int i = 0; i < stages; ++i) {
    const Buffer next = i + 1 < stages ? pipeline.temporary(shape) : device.zeros(shape);
    pipeline.add(kernel, {last}, next);
    if (i % barrier_every == 0) pipeline.barrier();
    last = next;
  }
  const std::size_t before = test::allocations();
  pipeline.warnings();
  return test::allocations() - before;
}

TEST_F(PipelineRuns, Planning_cost_per_stage_does_not_depend_on_their_number) {
  if (test::is_sanitized) GTEST_SKIP();
  for (const std::string kernel : {"relu", "gaussian_blur", "softmax"}) {
    for (const int barrier_every : {1, 10, 1'000'000}) {
      planning_allocations(device, kernel, 1, 1);  // the first use of a kernel allocates more
      const std::size_t few = planning_allocations(device, kernel, 100, barrier_every);
      EXPECT_LT(planning_allocations(device, kernel, 400, barrier_every), 5 * few) << kernel << ", " << barrier_every;
    }
  }
}

}  // namespace
}  // namespace tessera
