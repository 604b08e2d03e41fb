#include <tessera/operation.hpp>

#include <tessera/tessera.hpp>

#include "support/allocations.hpp"
#include "support/depth.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace tessera {
namespace {

using namespace std::chrono_literals;
using test::expect_error;

const auto add_kernel = tile::kernel("add", [](tile::Out<float> z, tile::In<float> x, tile::In<float> y) {
  z.store(tile::load_like(x, z) + tile::load_like(y, z));
});
const auto saxpy =
    tile::kernel("saxpy", [](tile::Out<float> z, tile::In<float> x, tile::In<float> y, tile::Scalar<float, "a"> a) {
      z.store(a * tile::load_like(x, z) + tile::load_like(y, z));
    });
// Sets each element to the size of its tile, which makes the tiles visible.
const auto tile_size = tile::kernel("tile_size", [](tile::Out<float> z) {
  z.store(tile::full_like(z, 0) + tile::cast<float>(z.tile_dim(0) * z.tile_dim(1)));
});

// On the best device, and on one that starts commands in any order.
class Operations : public testing::TestWithParam<bool> {
 protected:
  Operations() : device(GetParam() ? Device::simulated({.seed = 5, .workers = 2}) : Device::best()) {}

  template <class T>
  auto run(DeviceOperation<T> operation) {
    return std::move(operation).sync_on(device.stream());
  }
  Device device;
};
INSTANTIATE_TEST_SUITE_P(On, Operations, testing::Bool(),
                         [](const auto& of) { return of.param ? "simulated" : "best"; });

TEST_P(Operations, Sources_fill_their_tensors) {
  EXPECT_EQ(run(ones<float>({2, 2}).to_host()), (std::vector<float>{1, 1, 1, 1}));
  EXPECT_EQ(run(zeros<std::int32_t>({3}).to_host()), (std::vector<std::int32_t>{0, 0, 0}));
  EXPECT_EQ(run(full<double>({2}, 2.5).to_host()), (std::vector<double>{2.5, 2.5}));
  EXPECT_EQ(run(arange<float>(4).to_host()), (std::vector<float>{0, 1, 2, 3}));
  EXPECT_EQ(run(arange<std::int64_t>(3, 10, -2).to_host()), (std::vector<std::int64_t>{10, 8, 6}));
  EXPECT_EQ(run(from_host<float>({1, 2, 3, 4}, {2, 2}).to_host()), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(run(empty<float>({7}).to_host()).size(), 7U);
  const auto random = run(randn<float>({1000}, 0.0F, 1.0F, 3).to_host());
  EXPECT_EQ(random, run(randn<float>({1000}, 0.0F, 1.0F, 3).to_host()));
  EXPECT_NE(random, run(randn<float>({1000}).to_host()));
  for (const float number : run(uniform<float>({100}, 2.0F, 3.0F).to_host())) {
    EXPECT_GE(number, 2.0F);
    EXPECT_LT(number, 3.0F);
  }
}

TEST_P(Operations, Empty_tensors_and_scalars_work) {
  EXPECT_TRUE(run(ones<float>({0, 5}).to_host()).empty());
  EXPECT_EQ(run(ones<float>(Shape{}).to_host()), (std::vector<float>{1}));
  EXPECT_EQ(run(add_kernel(zeros<float>({1}), ones<float>({1}), ones<float>({1})).to_host()), (std::vector<float>{2}));
  EXPECT_TRUE(run(add_kernel(zeros<float>({0}), ones<float>({0}), ones<float>({0})).to_host()).empty());
}

TEST_P(Operations, Apply_runs_a_kernel_and_passes_the_values_on) {
  const auto x = run(full<float>({32, 32}, 3).shared());
  auto [z, x_back, y_back] =
      zip(zeros<float>({32, 32}).partition({4, 4}), x, ones<float>({32, 32})).apply(add_kernel).unzip();
  EXPECT_EQ(run(std::move(z).unpartition().to_host()), std::vector<float>(1024, 4));
  EXPECT_EQ(run(std::move(x_back)), x);
  EXPECT_EQ(run(std::move(y_back).to_host()), std::vector<float>(1024, 1));
}

TEST_P(Operations, Kernels_are_called_with_operations_and_numbers) {
  const auto x = run(full<float>({5, 7}, 2).shared());
  EXPECT_EQ(run(saxpy(zeros<float>({5, 7}).partition({2, 3}), x, x, 3).unpartition().to_host()),
            std::vector<float>(35, 8));
  auto [z, a, b, c] = saxpy(zeros<float>({5, 7}), x, x, 0.5F).unzip();
  EXPECT_EQ(run(std::move(z).to_host()), std::vector<float>(35, 3));
  EXPECT_EQ(run(std::move(c)), 0.5F);
}

TEST_P(Operations, Kernels_by_name_take_the_first_tensor_as_output) {
  auto sums = zip(zeros<float>({2}), from_host<float>({1, 2, 3, 4}, {2, 2})).apply("reduce_sum", {{"axis", 1}});
  auto [sum, matrix] = std::move(sums).unzip();
  EXPECT_EQ(run(std::move(sum).to_host()), (std::vector<float>{3, 7}));
}

TEST_P(Operations, A_partition_or_a_grid_chooses_the_tiles_with_ragged_edges) {
  EXPECT_EQ(run(tile_size(empty<float>({4, 4}).partition({2, 4})).unpartition().to_host()), std::vector<float>(16, 8));
  EXPECT_EQ(run(tile_size.grid({2, 2})(empty<float>({4, 4})).to_host()), std::vector<float>(16, 4));
  EXPECT_EQ(run(tile_size.grid({1, 4})(empty<float>({4, 4}).partition({2, 2})).unpartition().to_host()),
            std::vector<float>(16, 4));
  const auto ragged =
      run(add_kernel(empty<float>({5, 7}).partition({2, 3}), arange<float>(35).reshape({5, 7}), ones<float>({5, 7}))
              .unpartition()
              .to_host());
  for (std::size_t i = 0; i < ragged.size(); ++i) EXPECT_EQ(ragged[i], static_cast<float>(i) + 1);
  EXPECT_EQ(run(empty<float>({5, 7}).partition({2, 3})).grid(), (Shape{3, 3}));
}

TEST_P(Operations, Then_continues_with_an_operation) {
  auto operation = ones<float>({8}).then(
      [](Tensor<float> t) { return add_kernel(zeros<float>({8}), std::move(t), full<float>({8}, 4)); });
  EXPECT_EQ(run(std::move(operation).to_host()), std::vector<float>(8, 5));
  EXPECT_EQ(run(value(2).then([](int n) { return value(n + 1); })), 3);
}

TEST_P(Operations, Commands_can_use_the_buffer_of_a_tensor_inside_then) {
  const auto result = run(full<float>({6}, 2).then([&](Tensor<float> t) {
    const Buffer doubled = device.zeros({6}, f32);
    device.submit("scale", {t.buffer()}, doubled, {{"factor", 2.0}});
    return value(Tensor<float>(doubled)).to_host();
  }));
  EXPECT_EQ(result, std::vector<float>(6, 4));
}

TEST_P(Operations, Map_and_inspect_see_what_the_device_wrote) {
  float seen = 0;
  const float sum = run(full<float>({4}, 2)
                            .inspect([&](const Tensor<float>& t) { seen = t.buffer().read<float>()[0]; })
                            .map([](Tensor<float> t) {
                              float total = 0;
                              for (const float number : t.buffer().read<float>()) total += number;
                              return total;
                            }));
  EXPECT_EQ(seen, 2);
  EXPECT_EQ(sum, 8);
  bool called = false;
  run(ones<float>({1}).map([&](Tensor<float>) { called = true; }));
  EXPECT_TRUE(called);
}

TEST_P(Operations, Nothing_runs_before_the_value_is_requested) {
  bool called = false;
  {
    auto dropped = value(1).map([&](int) { called = true; });
  }
  EXPECT_FALSE(called);
}

TEST_P(Operations, Parts_of_unzip_share_one_evaluation) {
  std::atomic<int> runs = 0;
  auto [a, b] = zip(value(1).map([&](int x) { return ++runs, x; }), ones<float>({3})).unzip();
  EXPECT_EQ(run(std::move(b).to_host()), std::vector<float>(3, 1));
  EXPECT_EQ(run(std::move(a)), 1);
  EXPECT_EQ(runs, 1);
}

TEST_P(Operations, Parts_of_unzip_on_many_threads) {
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> runs = 0;
    auto [a, b, c] =
        zip(full<float>({16}, 1), full<float>({16}, 2), value(3).map([&](int x) { return ++runs, x; })).unzip();
    std::vector<float> first, second;
    int third = 0;
    std::thread one([&, op = std::move(a)]() mutable { first = run(std::move(op).to_host()); });
    std::thread two([&, op = std::move(b)]() mutable { second = run(std::move(op).to_host()); });
    third = run(std::move(c));
    one.join();
    two.join();
    EXPECT_EQ(first, std::vector<float>(16, 1));
    EXPECT_EQ(second, std::vector<float>(16, 2));
    EXPECT_EQ(third, 3);
    EXPECT_EQ(runs, 1);
  }
}

// Parts of unzip whose source blocks until it is released, and counts how often it is evaluated.
struct SlowParts {
  std::atomic<int> begun = 0, went_on = 0;
  std::atomic<bool> may_go_on = false;

  auto operator()() {
    const auto wait = [this](int x) {
      ++begun;
      begun.notify_all();
      may_go_on.wait(false);
      return x;
    };
    const auto go_on = [this](int x) { return ++went_on, x; };
    return zip(value(1).map(wait).map(go_on), value(2), value(3)).unzip();
  }
  void wait_until_begun() const { begun.wait(0); }
  void go_on() {
    may_go_on = true;
    may_go_on.notify_all();
  }
};

TEST_P(Operations, Cancelling_the_part_of_unzip_that_does_the_work_does_not_cancel_the_others) {
  SlowParts slow;
  auto [a, b, c] = slow();
  const Spawned<int> first = std::move(a).submit_on(device.stream());
  slow.wait_until_begun();
  Spawned<int> second = std::move(b).submit_on(device.stream());
  EXPECT_TRUE(first.cancel());
  slow.go_on();
  EXPECT_EQ(second.wait(), 2);
  EXPECT_TRUE(first.wait_for(10s));
  EXPECT_EQ(first.poll(), Status::cancelled);
  EXPECT_EQ(run(std::move(c)), 3);
  EXPECT_EQ(slow.went_on, 1);
}

TEST_P(Operations, Cancelling_a_part_of_unzip_does_not_cancel_parts_that_have_not_begun) {
  SlowParts slow;
  auto [a, b, c] = slow();
  const Spawned<int> first = std::move(a).submit_on(device.stream());
  slow.wait_until_begun();
  first.cancel();
  slow.go_on();
  EXPECT_TRUE(first.wait_for(10s));
  EXPECT_EQ(first.poll(), Status::cancelled);
  EXPECT_EQ(run(std::move(b)), 2);
  EXPECT_EQ(slow.went_on, 1);
}

TEST_P(Operations, A_part_of_unzip_that_waits_for_another_is_cancelled_at_once) {
  SlowParts slow;
  auto [a, b, c] = slow();
  Spawned<int> first = std::move(a).submit_on(device.stream());
  slow.wait_until_begun();
  const Spawned<int> second = std::move(b).submit_on(device.stream());
  EXPECT_TRUE(second.cancel());
  EXPECT_TRUE(second.wait_for(10s));
  EXPECT_EQ(second.poll(), Status::cancelled);
  slow.go_on();
  EXPECT_EQ(first.wait(), 1);
}

TEST_P(Operations, The_work_for_parts_of_unzip_stops_when_all_are_cancelled_or_dropped) {
  SlowParts slow;
  auto parts = slow();
  const Spawned<int> first = std::get<0>(std::move(parts)).submit_on(device.stream());
  slow.wait_until_begun();
  const Spawned<int> second = std::get<1>(std::move(parts)).submit_on(device.stream());
  {
    const auto dropped = std::get<2>(std::move(parts));
  }
  first.cancel();
  second.cancel();
  slow.go_on();
  EXPECT_TRUE(first.wait_for(10s));
  EXPECT_TRUE(second.wait_for(10s));
  EXPECT_EQ(first.poll(), Status::cancelled);
  EXPECT_EQ(second.poll(), Status::cancelled);
  EXPECT_EQ(slow.went_on, 0);
}

TEST_P(Operations, A_timeout_of_one_part_of_unzip_does_not_affect_the_others) {
  SlowParts slow;
  auto [a, b, c] = slow();
  Spawned<int> first = std::move(a).timeout(500ms).submit_on(device.stream());
  slow.wait_until_begun();
  std::this_thread::sleep_for(600ms);
  slow.go_on();
  expect_error(Errc::deadline_exceeded, "", [&] { first.wait(); });
  EXPECT_EQ(run(std::move(b)), 2);
}

TEST_P(Operations, Cancelling_a_part_of_unzip_keeps_the_commands_that_others_need) {
  for (int round = 0; round < 50; ++round) {
    auto [a, b] = zip(full<float>({100'000}, 1), full<float>({100'000}, 2)).unzip();
    const Spawned<std::vector<float>> first = std::move(a).to_host().submit_on(device.stream());
    first.cancel();
    EXPECT_EQ(run(std::move(b).to_host())[99'999], 2);
  }
}

TEST_P(Operations, Cancelling_parts_of_unzip_on_many_threads_does_not_affect_the_others) {
  for (int round = 0; round < test::rounds(300); ++round) {
    std::atomic<int> runs = 0;
    auto [a, b, c] = zip(full<float>({5000}, 1), value(2).map([&](int x) { return ++runs, x; }), value(3)).unzip();
    std::thread one([&, op = std::move(a)]() mutable {
      const Spawned<std::vector<float>> running = std::move(op).to_host().submit_on(device.stream());
      if (round % 3 == 0) std::this_thread::yield();
      running.cancel();
      running.wait_for(10s);
    });
    std::thread two([&, op = std::move(b)]() mutable {
      const Spawned<int> running = std::move(op).submit_on(device.stream());
      if (round % 2 == 0) running.cancel();
      running.wait_for(10s);
    });
    EXPECT_NO_THROW(EXPECT_EQ(run(std::move(c)), 3));
    one.join();
    two.join();
    EXPECT_EQ(runs, 1);
  }
}

TEST_P(Operations, Each_part_of_unzip_throws_the_cause_of_a_failure) {
  auto [a, b] = zip(ones<float>({3}), value(1).map([](int) -> int { throw std::runtime_error("no luck"); })).unzip();
  EXPECT_THROW(run(std::move(a)), std::runtime_error);
  EXPECT_THROW(run(std::move(b)), std::runtime_error);
}

TEST_P(Operations, A_failure_on_the_device_reaches_every_part) {
  auto [z, x] = zip(empty<float>({3}), empty<float>({4})).apply("relu").unzip();
  expect_error(Errc::shape_mismatch, "f32[4]", [&] { run(std::move(z)); });
  expect_error(Errc::shape_mismatch, "f32[4]", [&] { run(std::move(x)); });
}

TEST_P(Operations, Or_else_replaces_a_failed_operation) {
  const auto failing = [] { return value(1).map([](int) -> int { throw std::runtime_error("no luck"); }); };
  EXPECT_EQ(run(failing().or_else([](const Error& error) {
              EXPECT_EQ(error.code(), Errc::call_failed);
              EXPECT_STREQ(error.what(), "no luck");
              return 7;
            })),
            7);
  EXPECT_EQ(run(failing().or_else([](const Error&) { return value(8).map([](int x) { return x; }); })), 8);
  EXPECT_EQ(run(value(5).or_else([](const Error&) { return 7; })), 5);
  auto wrong = zip(empty<float>({3}), empty<float>({4})).apply("relu").map([](auto) { return 1; });
  EXPECT_EQ(
      run(std::move(wrong).or_else([](const Error& error) { return error.code() == Errc::shape_mismatch ? 2 : 3; })),
      2);
}

TEST_P(Operations, Retry_runs_it_again) {
  int calls = 0;
  auto flaky = ones<float>({3}).map([&](Tensor<float> t) {
    if (++calls < 3) throw std::runtime_error("not yet");
    return t.buffer().read<float>()[0];
  });
  EXPECT_EQ(run(std::move(flaky).retry(5)), 1);
  EXPECT_EQ(calls, 3);
  calls = 0;
  auto hopeless = value(1).map([&](int) -> int {
    ++calls;
    throw std::runtime_error("never");
  });
  EXPECT_THROW(run(std::move(hopeless).retry(2)), std::runtime_error);
  EXPECT_EQ(calls, 3);
  // The caller's own mistake is not retried.
  auto wrong = zip(empty<float>({3}), empty<float>({4})).apply("relu").retry(1000000);
  expect_error(Errc::shape_mismatch, "relu", [&] { run(std::move(wrong)); });
}

TEST_P(Operations, Retry_passes_copies_of_owned_tensors) {
  int calls = 0;
  Tensor<float> owned(device.buffer<float>({1, 2, 3}));
  auto operation = value(std::move(owned)).map([&](Tensor<float> t) {
    if (++calls < 2) throw std::runtime_error("not yet");
    return t.buffer().read<float>();
  });
  EXPECT_EQ(run(std::move(operation).retry(1)), (std::vector<float>{1, 2, 3}));
}

TEST_P(Operations, Retry_does_not_see_what_failed_attempts_have_written) {
  const auto overwritten = [](Tensor<float> t) {
    auto [sum, back, same] = zip(empty<float>({4}), std::move(t), full<float>({4}, 1)).apply(add_kernel).unzip();
    auto [result, x, y] = zip(std::move(back), std::move(sum), zeros<float>({4})).apply(add_kernel).unzip();
    return std::move(result);
  };
  int calls = 0;
  auto operation = value(run(full<float>({4}, 1))).then(overwritten).map([&](Tensor<float> t) {
    if (++calls < 3) throw std::runtime_error("not yet");
    return t.buffer().read<float>()[0];
  });
  EXPECT_EQ(run(std::move(operation).retry(5)), 2);
  EXPECT_EQ(calls, 3);
}

TEST_P(Operations, Retry_repeats_nested_operations) {
  int calls = 0;
  const auto at_the_third = [&](auto x) {
    if (++calls < 3) throw std::runtime_error("not yet");
    return x;
  };
  EXPECT_EQ(run(value(1).map(at_the_third).timeout(1h).retry(5)), 1);
  calls = 0;
  EXPECT_EQ(run(value(1).map(at_the_third).or_else([](const Error& error) -> int { throw Error(error); }).retry(5)), 1);
  calls = 0;
  EXPECT_EQ(run(value(1).map(at_the_third).retry(1).retry(1)), 1);
  calls = 0;
  EXPECT_EQ(run(full<float>({2}, 3).copy_to(device).to_host().map(at_the_third).retry(5)), std::vector<float>(2, 3));
}

TEST_P(Operations, Retry_repeats_the_source_of_unzip_once_for_all_parts) {
  std::atomic<int> tries = 0;
  const auto fail_twice = [&](int x) { return ++tries < 3 ? throw std::runtime_error("no luck") : x; };
  auto [a, b, c] = zip(value(1).map(fail_twice), ones<float>({3}), value(5)).unzip();
  auto [one, ones_of_it] = run(zip(std::move(a), std::move(b).to_host()).retry(2));
  EXPECT_EQ(one, 1);
  EXPECT_EQ(ones_of_it, std::vector<float>(3, 1));
  EXPECT_EQ(tries, 3);
  EXPECT_EQ(run(std::move(c)), 5);
  EXPECT_EQ(tries, 3);
}

TEST(Operation, Retry_repeats_the_source_of_unzip_after_a_device_failure) {
  const Device faulty = Device::simulated({.seed = 1, .faults = {{.command = 1}}});
  auto [z, x, y] = zip(empty<float>({5000}), full<float>({5000}, 1), full<float>({5000}, 2)).apply(add_kernel).unzip();
  EXPECT_EQ(std::move(z).to_host().retry(2).sync_on(faulty.stream()), std::vector<float>(5000, 3));
}

TEST_P(Operations, A_part_of_unzip_that_is_retried_gets_its_value_each_time) {
  std::atomic<int> made = 0, tries = 0;
  auto [a, b] = zip(ones<float>({3}), value(1).map([&](int x) { return ++made, x; })).unzip();
  EXPECT_EQ(run(std::move(b)), 1);
  const auto fail_once = [&](std::vector<float> values) {
    return ++tries < 2 ? throw std::runtime_error("no luck") : values;
  };
  EXPECT_EQ(run(std::move(a).to_host().map(fail_once).retry(2)), std::vector<float>(3, 1));
  EXPECT_EQ(made, 1);
}

TEST_P(Operations, Retry_repeats_when_any) {
  std::atomic<int> tries = 0;
  const auto fail_until_third = [&](int x) { return ++tries < 6 ? throw std::runtime_error("no luck") : x; };
  std::vector<DeviceOperation<int>> some;
  for (int i = 0; i < 2; ++i) some.push_back(value(7).map(fail_until_third));
  EXPECT_EQ(run(when_any(std::move(some)).retry(2)).second, 7);
  EXPECT_GE(tries, 6);
}

TEST_P(Operations, Retry_counts_a_timeout_inside_as_a_failure) {
  int calls = 0;
  auto operation = value(1)
                       .map([&](int x) {
                         if (++calls < 3) std::this_thread::sleep_for(300ms);  // no timer is that late
                         return x;
                       })
                       .map([](int x) { return x; })
                       .timeout(50ms)
                       .retry(1000);
  EXPECT_EQ(run(std::move(operation)), 1);
  EXPECT_GE(calls, 3);  // on a busy machine a quick one may be late too
  const auto fail = [](int) -> int {
    std::this_thread::sleep_for(1ms);
    throw std::runtime_error("no luck");
  };
  auto endless = value(1).map(fail).timeout(1h).retry(1'000'000);
  expect_error(Errc::deadline_exceeded, "100 ms", [&] { run(std::move(endless).timeout(100ms)); });
}

TEST_P(Operations, A_timeout_of_device_work_is_a_missed_deadline) {
  constexpr std::int64_t count = 1 << 20;  // a second where it is interpreted: no timer is that late
  const auto slow = tile::kernel("slow", [](tile::Out<float> z, tile::In<float> x) {
    const auto body = [](const tile::Index&, const tile::Tile& sum) { return tile::sin(sum) * 0.5F + 1; };
    z.store(tile::loop(100, tile::load_like(x, z), body));
  });
  const auto hurried = [&] { return slow(empty<float>({count}), full<float>({count}, 1)).timeout(1ms); };
  run(slow(empty<float>({1}), full<float>({1}, 1)));  // compiled
  expect_error(Errc::deadline_exceeded, "1 ms", [&] { run(hurried()); });
  expect_error(Errc::deadline_exceeded, "1 ms", [&] { run(hurried().to_host().retry(1)); });
  EXPECT_EQ(run(hurried().map([](const Tensor<float>&) { return 1; }).or_else([](const Error& error) {
              EXPECT_EQ(error.code(), Errc::deadline_exceeded);
              return 2;
            })),
            2);
}

TEST_P(Operations, A_timeout_may_be_unlimited) {
  EXPECT_EQ(run(value(1).map([](int x) { return x; }).timeout(std::chrono::years(1000))), 1);
  const std::chrono::duration<double> infinite(std::numeric_limits<double>::infinity());
  EXPECT_EQ(run(value(1).map([](int x) { return x; }).timeout(infinite)), 1);
}

TEST_P(Operations, Timeout_cancels_what_takes_too_long) {
  std::stop_source stop;
  auto slow = value(1)
                  .map([&](int x) {
                    std::this_thread::sleep_for(20ms);
                    return x;
                  })
                  .map([](int x) { return x; });
  expect_error(Errc::deadline_exceeded, "5 ms", [&] { run(std::move(slow).timeout(5ms)); });
  EXPECT_EQ(run(value(1).map([](int x) { return x; }).timeout(10s)), 1);
}

TEST_P(Operations, When_all_returns_all_values) {
  std::vector<DeviceOperation<Tensor<float>>> operations;
  for (int i = 0; i < 20; ++i) operations.push_back(full<float>({4}, static_cast<float>(i)));
  const std::vector<Tensor<float>> values = run(when_all(std::move(operations)));
  ASSERT_EQ(values.size(), 20U);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(values[static_cast<std::size_t>(i)].buffer().read<float>()[3], static_cast<float>(i));
  }
  EXPECT_TRUE(run(when_all(std::vector<DeviceOperation<int>>())).empty());
}

TEST_P(Operations, Operations_without_a_value_compose_too) {
  std::atomic<int> calls = 0;
  const auto nothing = [&] { return value(1).map([&](int) { ++calls; }); };
  std::vector<DeviceOperation<void>> all, any;
  for (int i = 0; i < 3; ++i) all.push_back(nothing());
  run(when_all(std::move(all)));
  EXPECT_EQ(calls, 3);
  any.push_back(value(1).map([](int) { throw std::runtime_error("fails"); }));
  any.push_back(nothing());
  const std::size_t first = run(when_any(std::move(any)));
  EXPECT_EQ(first, 1U);
  const std::tuple<int, std::monostate> both = run(zip(7, nothing()));
  EXPECT_EQ(std::get<0>(both), 7);
  EXPECT_EQ(calls, 5);
}

TEST_P(Operations, A_shared_pointer_to_a_non_const_tensor_is_accepted) {
  const auto x = std::make_shared<Tensor<float>>(run(ones<float>({4})));
  EXPECT_EQ(run(add_kernel(zeros<float>({4}), x, std::make_shared<Tensor<float>>(run(ones<float>({4})))).to_host()),
            std::vector<float>(4, 2));
}

TEST_P(Operations, When_any_returns_the_first_that_completes) {
  std::vector<DeviceOperation<int>> operations;
  operations.push_back(value(0).map([](int) -> int { throw std::runtime_error("fails first"); }));
  operations.push_back(value(1).map([](int x) { return x; }));
  const auto [index, result] = run(when_any(std::move(operations)));
  EXPECT_EQ(index, 1U);
  EXPECT_EQ(result, 1);
  std::vector<DeviceOperation<int>> hopeless;
  for (int i = 0; i < 3; ++i)
    hopeless.push_back(value(i).map([](int x) -> int { throw std::runtime_error(std::to_string(x)); }));
  EXPECT_THROW(run(when_any(std::move(hopeless))), std::runtime_error);
  expect_error(Errc::invalid_argument, "when_any", [] { when_any(std::vector<DeviceOperation<int>>()).sync(); });
}

TEST_P(Operations, Copy_to_another_device) {
  const Device other = Device::simulated({.seed = 9});
  const Tensor<float> copy = run(arange<float>(6).reshape({2, 3}).copy_to(other));
  EXPECT_EQ(copy.device(), other);
  EXPECT_EQ(copy.shape(), (Shape{2, 3}));
  EXPECT_EQ(copy.buffer().read<float>(), (std::vector<float>{0, 1, 2, 3, 4, 5}));
}

TEST_P(Operations, The_source_of_copy_to_runs_on_its_own_device) {
  const Device other = Device::simulated({.seed = 9, .workers = 1});
  const auto x = full<float>({3}, 2).shared().sync_on(device.stream());
  const auto sum = [&] { return add_kernel(zeros<float>({3}), x, x); };
  EXPECT_EQ(sum().copy_to(other).to_host().sync(), std::vector<float>(3, 4));
  EXPECT_EQ(sum().copy_to(other).to_host().sync_on(other.stream()), std::vector<float>(3, 4));
  const auto y = full<float>({3}, 1).shared().sync_on(other.stream());
  EXPECT_EQ(add_kernel(zeros<float>({3}), y, sum().copy_to(other)).to_host().sync(), std::vector<float>(3, 5));
}

TEST_P(Operations, Tensors_of_two_devices_do_not_mix) {
  Tensor<float> there(Device::simulated().zeros({3}));
  expect_error(Errc::wrong_device, "device", [&] { run(zip(empty<float>({3}), std::move(there)).apply("relu")); });
}

TEST_P(Operations, A_part_runs_on_the_device_that_it_names) {
  const Device other = Device::simulated({.seed = 9, .workers = 1});
  const auto two = [] { return add_kernel(zeros<float>({3}), ones<float>({3}), ones<float>({3})); };
  const auto expect_parts = [&](DeviceOperation<std::tuple<Tensor<float>, Tensor<float>>> operation) {
    const auto [here, there] = std::move(operation).sync();
    EXPECT_EQ(here.device(), device);
    EXPECT_EQ(there.device(), other);
    EXPECT_EQ(here.buffer().read<float>(), std::vector<float>(3, 2));
    EXPECT_EQ(there.buffer().read<float>(), std::vector<float>(3, 2));
  };
  expect_parts(zip(two().on(device), two().on(other)));
  expect_parts(zip(two(), two().on(other)).on(device));
  expect_parts(zip(two().on(device), two().on(other)).retry(1));
  expect_parts(zip(two().on(device), two().on(other).or_else([&](const Error&) { return two(); })));
  expect_parts(zip(two().on(device), two().on(other).on(device)));
  // The operation returned by then() is a part too, and so is a leaf.
  expect_parts(two().on(device).then([&](Tensor<float> here) { return zip(std::move(here), two().on(other)); }));
  const auto [here, there] = zip(full<float>({3}, 1).on(device), empty<float>({3}).on(other)).sync();
  EXPECT_EQ(here.device(), device);
  EXPECT_EQ(there.device(), other);
  auto [first, second] = zip(two().on(device), two().on(other)).unzip();
  EXPECT_EQ(std::move(second).sync().device(), other);
  EXPECT_EQ(std::move(first).sync().device(), device);
}

TEST_P(Operations, A_part_on_another_device_can_fail_and_be_retried) {
  const Device other = Device::simulated({.seed = 9, .workers = 1});
  int tries = 0;
  const auto fails_once = [&] {
    return value(3).on(other).map([&](int x) { return ++tries == 1 ? throw std::runtime_error("no luck") : x; });
  };
  const auto both = [&] { return zip(ones<float>({2}).on(device), fails_once().on(other)); };
  EXPECT_THROW(both().sync(), std::runtime_error);
  tries = 0;
  EXPECT_EQ(std::get<1>(both().retry(1).sync()), 3);
  EXPECT_EQ(tries, 2);
}

TEST_P(Operations, An_explicit_stream_overrides_every_device) {
  const Device other = Device::simulated({.seed = 9, .workers = 1});
  const auto [x, y] = run(zip(ones<float>({3}).on(other), ones<float>({3}).on(device)));
  EXPECT_EQ(x.device(), device);
  EXPECT_EQ(y.device(), device);
}

TEST_P(Operations, Tensors_of_two_devices_combine_after_a_copy) {
  const Device other = Device::simulated({.seed = 9, .workers = 1});
  const auto there = [&] { return full<float>({3}, 2).on(other); };
  const auto sum = [&](auto y) {
    return add_kernel(zeros<float>({3}), full<float>({3}, 1), std::move(y)).on(device).to_host().sync();
  };
  expect_error(Errc::wrong_device, "is on " + other.info().name, [&] { sum(there()); });
  expect_error(Errc::wrong_device, "runs on " + device.info().name, [&] { sum(there()); });
  EXPECT_EQ(sum(there().copy_to(device)), std::vector<float>(3, 3));
}

TEST_P(Operations, Spawn_runs_in_the_background) {
  Spawned<std::vector<float>> running = full<float>({100}, 3).to_host().submit_on(device.stream());
  EXPECT_EQ(running.wait(), std::vector<float>(100, 3));
  EXPECT_EQ(running.poll(), Status::completed);
  EXPECT_FALSE(running.cancel());
  EXPECT_EQ(std::move(running).wait().size(), 100U);
  spawn(ones<float>({1000}).on(device).to_host());  // dropped
}

TEST_P(Operations, Spawn_does_not_block) {
  std::atomic<bool> may_go = false;
  Spawned<int> running = spawn(value(1).on(device).map([&](int x) {
    while (!may_go) std::this_thread::yield();
    return x;
  }));
  if (!GetParam()) {
    EXPECT_EQ(running.poll(), Status::running);
    EXPECT_FALSE(running.wait_for(1ms));
  }
  may_go = true;
  EXPECT_EQ(std::move(running).wait(), 1);
}

TEST_P(Operations, Cancel_drops_work_that_has_not_started) {
  std::atomic<bool> may_go = false;
  bool was_called = false;
  Spawned<int> running = spawn(value(1)
                                   .on(device)
                                   .map([&](int x) {
                                     while (!may_go) std::this_thread::yield();
                                     return x;
                                   })
                                   .map([&](int x) { return was_called = true, x; }));
  EXPECT_TRUE(running.cancel());
  may_go = true;
  expect_error(Errc::cancelled, "cancelled", [&] { running.wait(); });
  EXPECT_EQ(running.poll(), Status::cancelled);
  EXPECT_FALSE(was_called);
}

TEST_P(Operations, Functions_do_not_start_after_a_cancel) {
  std::atomic<bool> may_go = false;
  std::atomic<int> begun = 0;
  std::vector<DeviceOperation<int>> waiting;
  for (int i = 0; i < 20; ++i) {
    waiting.push_back(value(i).on(device).map([&](int x) {
      ++begun;
      while (!may_go) std::this_thread::yield();
      return x;
    }));
  }
  auto running = spawn(when_all(std::move(waiting)));
  if (!GetParam()) {
    while (begun == 0) std::this_thread::yield();
  }
  EXPECT_TRUE(running.cancel());
  const int before = begun;
  may_go = true;
  expect_error(Errc::cancelled, "cancelled", [&] { running.wait(); });
  EXPECT_LE(begun, before + 1);  // one may have been starting
}

TEST_P(Operations, Functions_do_not_start_after_a_failure) {
  std::atomic<int> begun = 0;
  std::atomic<bool> has_failed = false;
  std::vector<DeviceOperation<int>> waiting;
  for (int i = 0; i < 2000; ++i) {
    waiting.push_back(value(i).on(device).map([&](int x) -> int {
      ++begun;
      if (!has_failed.exchange(true)) throw std::runtime_error("the first");
      std::this_thread::sleep_for(1ms);
      return x;
    }));
  }
  expect_error(Errc::call_failed, "the first", [&] {
    run(when_all(std::move(waiting)).or_else([](const Error& error) -> std::vector<int> { throw Error(error); }));
  });
  EXPECT_LT(begun, 1000);  // the others would need a second for as many
}

TEST_P(Operations, A_stop_token_cancels) {
  std::stop_source source;
  std::atomic<bool> may_go = false;
  Spawned<int> running = value(1)
                             .on(device)
                             .map([&](int x) {
                               while (!may_go) std::this_thread::yield();
                               return x;
                             })
                             .spawn(source.get_token());
  source.request_stop();
  may_go = true;
  expect_error(Errc::cancelled, "stopped", [&] { running.wait(); });
  expect_error(Errc::cancelled, "stopped", [&] { value(1).spawn(source.get_token()).wait(); });
}

TEST_P(Operations, A_chain_is_one_launch_and_its_tensors_need_no_memory) {
  const std::size_t before = device.memory().peak;
  const std::size_t size = std::size_t{4} << 20;
  auto operation = full<float>({1 << 20}, 1);
  for (int i = 0; i < 8; ++i) {
    operation = std::move(operation).then([](Tensor<float> t) {
      return std::get<0>(zip(empty<float>({1 << 20}), std::move(t)).apply("scale", {{"factor", 2.0}}).unzip());
    });
  }
  const Tensor<float> result = run(std::move(operation));
  EXPECT_EQ(result.buffer().map_read<float>()[77], 256);
  EXPECT_LE(device.memory().peak, before + 2 * size);
}

TEST_P(Operations, The_scalars_of_a_graph_may_change_each_time) {
  const auto mixed = tile::kernel(
      "mixed",
      [](tile::Out<float> z, tile::In<float> x, tile::Scalar<std::int32_t, "whole"> whole,
         tile::Scalar<float, "part"> part) { z.store(tile::load_like(x, z) * part + tile::cast<float>(whole)); });
  const auto x = run(arange<float>(6).reshape({2, 3}).shared());
  for (int i = 0; i < 4; ++i) {
    const auto a = static_cast<float>(i), b = 0.5F - a;
    // Once in a fused group, and once behind a reduction, which cannot be fused.
    auto scaled = saxpy(empty<float>({2, 3}), mixed(empty<float>({2, 3}), x, i - 2, b), x, a);
    auto [sum, same] = zip(empty<float>({2, 1}), std::move(scaled)).apply("reduce_sum", {{"axis", 1}}).unzip();
    const auto host = run(mixed(empty<float>({2, 1}), std::move(sum), 10 * i, a).to_host());
    for (int row = 0; row < 2; ++row) {
      float expected = 0;
      for (int column = 0; column < 3; ++column) {
        const auto from = static_cast<float>(3 * row + column);
        expected += a * (from * b + static_cast<float>(i - 2)) + from;
      }
      EXPECT_FLOAT_EQ(host[static_cast<std::size_t>(row)], expected * a + static_cast<float>(10 * i)) << i;
    }
  }
}

TEST_P(Operations, The_named_parameters_of_a_graph_may_change_each_time) {
  const auto x = run(full<float>({8}, 1).shared());
  for (int i = 0; i < 20; ++i) {
    const auto seed = static_cast<std::int64_t>(i);
    const auto number = static_cast<float>(i % 3);
    const auto random = run(uniform<float>({8}, 0, 1, seed).to_host());
    auto scaled = zip(empty<float>({8}), add_kernel(empty<float>({8}), uniform<float>({8}, 0, 1, seed), x))
                      .apply("scale", {{"factor", 2.0 + i}})
                      .then([](auto values) { return value(std::get<0>(std::move(values))); });
    const auto sum =
        run(saxpy(empty<float>({8}), std::move(scaled), full<float>({8}, number), 3.0F + number).to_host());
    for (std::size_t at = 0; at < 8; ++at) {
      const float expected = (3 + number) * ((random[at] + 1) * static_cast<float>(2.0 + i)) + number;
      EXPECT_NEAR(sum[at], expected, 1e-3F) << i;
    }
  }
}

TEST_P(Operations, The_named_parameters_of_a_graph_may_change_back) {
  const auto x = run(full<float>({8}, 1).shared());
  for (const float number : {5.0F, 6.0F, 5.0F, 7.0F, 6.0F, 5.0F}) {
    auto filled = std::get<0>(zip(empty<float>({8}), full<float>({8}, number), x).apply("elementwise_add").unzip());
    EXPECT_EQ(run(std::move(filled).to_host()), std::vector<float>(8, number + 1));
    const auto scaled = run(saxpy(empty<float>({8}), full<float>({8}, number), x, 2.0F).to_host());
    EXPECT_EQ(scaled, std::vector<float>(8, 2 * number + 1));
  }
}

TEST_P(Operations, A_scalar_out_of_range_is_refused_each_time) {
  const auto offset =
      tile::kernel("offset", [](tile::Out<std::uint8_t> z, tile::In<std::uint8_t> x,
                                tile::Scalar<std::uint8_t, "by"> by) { z.store(tile::load_like(x, z) + by); });
  const auto twice = [&](int by) {
    using Bytes = std::uint8_t;
    return offset(empty<Bytes>({4}), offset(empty<Bytes>({4}), full<Bytes>({4}, 1), 2), by).to_host();
  };
  EXPECT_EQ(run(twice(3)), std::vector<std::uint8_t>(4, 6));
  expect_error(Errc::invalid_parameter, "'by' must be between 0 and 255, got 300", [&] { run(twice(300)); });
  EXPECT_EQ(run(twice(4)), std::vector<std::uint8_t>(4, 7));
}

TEST_P(Operations, A_reshaped_tensor_shares_its_memory) {
  Tensor<float> tensor = run(arange<float>(6));
  Buffer buffer = tensor.buffer();
  Tensor<float> wide = std::move(tensor).reshape({2, 3});
  EXPECT_EQ(wide.shape(), Shape(2, 3));
  EXPECT_EQ(wide.buffer().shape(), Shape(2, 3));
  expect_error(Errc::invalid_argument, "moved-from", [&] { (void)tensor.shape(); });
  buffer.write<float>({5, 4, 3, 2, 1, 0});
  Tensor<float> back = std::move(wide).reshape({3, 2}).reshape({6});
  EXPECT_EQ(back.shape(), Shape(6));
  EXPECT_EQ(back.buffer().read<float>(), (std::vector<float>{5, 4, 3, 2, 1, 0}));
  expect_error(Errc::shape_mismatch, "[6] has 6 elements, [7] would have 7", [&] { std::move(back).reshape({7}); });
  // Before it is submitted: written with one shape and read with another, in a graph and by itself.
  const auto flat =
      run(add_kernel(empty<float>({6}), ones<float>({2, 3}).reshape({6}),
                     add_kernel(empty<float>({3, 2}), ones<float>({3, 2}), ones<float>({3, 2})).reshape({6}))
              .to_host());
  EXPECT_EQ(flat, std::vector<float>(6, 3));
}

TEST_P(Operations, A_million_nodes_do_not_overflow_the_stack) {
  auto operation = value(0);
  for (int i = 0; i < 1'000'000; ++i) operation = std::move(operation).then([](int x) { return value(x + 1); });
  EXPECT_EQ(run(std::move(operation)), 1'000'000);
  auto dropped = value(0);
  for (int i = 0; i < 1'000'000; ++i) dropped = std::move(dropped).then([](int x) { return value(x + 1); });
}

TEST_P(Operations, A_million_host_functions_do_not_overflow_the_stack) {
  auto operation = value(0);
  for (int i = 0; i < 500'000; ++i) {
    operation = std::move(operation).map([](int x) { return x + 1; }).inspect([](int) {});
  }
  EXPECT_EQ(run(std::move(operation)), 500'000);
}

TEST_P(Operations, Deeply_nested_operations_do_not_overflow_the_stack) {
  constexpr int many = 100'000;
  auto caught = value(1).on(device), timed = value(2).on(device), first = value(3).on(device);
  for (int i = 0; i < many; ++i) {
    caught = std::move(caught).or_else([](const Error&) { return 0; });
    timed = std::move(timed).timeout(1h);
    std::vector<DeviceOperation<int>> only;
    only.push_back(std::move(first));
    first = when_any(std::move(only)).then([](std::pair<std::size_t, int> winner) { return value(winner.second); });
  }
  EXPECT_EQ(run(std::move(caught)), 1);
  EXPECT_EQ(run(std::move(timed)), 2);
  EXPECT_EQ(run(std::move(first)), 3);
  auto copied = ones<float>({4});
  for (int i = 0; i < many / 10; ++i) copied = std::move(copied).copy_to(device);
  EXPECT_EQ(run(std::move(copied).to_host()), std::vector<float>(4, 1));
}

TEST_P(Operations, A_failure_leaves_deeply_nested_operations) {
  auto operation = value(1).on(device).map([](int x) { return x > 0 ? throw std::runtime_error("deep") : x; });
  for (int i = 0; i < 100'000; ++i) operation = std::move(operation).timeout(1h);
  expect_error(Errc::call_failed, "deep",
               [&] { run(std::move(operation).or_else([](const Error& error) -> int { throw Error(error); })); });
}

TEST_P(Operations, Cancelling_reaches_deeply_nested_operations) {
  std::atomic<bool> may_go = false;
  auto operation = value(1).on(device).map([&](int x) {
    while (!may_go) std::this_thread::yield();
    return x;
  });
  for (int i = 0; i < 100'000; ++i) operation = std::move(operation).timeout(1h);
  Spawned<int> running = spawn(std::move(operation));
  EXPECT_TRUE(running.cancel());
  may_go = true;
  expect_error(Errc::cancelled, "cancelled", [&] { running.wait(); });
}

TEST_P(Operations, A_long_chain_of_kernels_is_submitted_in_pieces) {
  const auto one = run(ones<float>({4}).shared());
  auto operation = zeros<float>({4});
  for (int i = 0; i < 1000; ++i) {
    auto [z, x, y] = zip(empty<float>({4}), std::move(operation), one).apply("elementwise_add").unzip();
    operation = std::move(z);
  }
  EXPECT_EQ(run(std::move(operation).to_host()), std::vector<float>(4, 1000));
}

TEST(Operation, A_graph_that_pins_too_much_memory_is_submitted_early) {
  const Device small = Device::simulated({.workers = 2});
  small.set_memory_limit(std::size_t{4} << 20);
  auto operation = zeros<float>({1 << 16});
  for (int i = 0; i < 100; ++i) {
    operation = zip(empty<float>({1 << 16}), std::move(operation), full<float>({1 << 16}, 1))
                    .apply("elementwise_add")
                    .then([](auto values) { return value(std::get<0>(std::move(values))); });
  }
  const Tensor<float> sum = std::move(operation).sync_on(small.stream());
  EXPECT_EQ(sum.buffer().map_read<float>()[5], 100);
}

// A device with memory for 32 tensors, and graphs of 1,600, which are evaluated in pieces.
class SmallMemory : public testing::Test {
 protected:
  using Op = DeviceOperation<Tensor<float>>;
  static constexpr std::int64_t size = 16'384;
  static constexpr int count = 1600;

  SmallMemory() { device.set_memory_limit(32 * size * sizeof(float)); }
  template <class T>
  auto run(DeviceOperation<T> operation) {
    return std::move(operation).sync_on(device.stream());
  }
  static Op sum(Op x, Op y) { return add_kernel(empty<float>({size}), std::move(x), std::move(y)); }
  // All of them in a balanced tree.
  template <class F>
  static Op tree(std::vector<Op> operations, F combine) {
    while (operations.size() > 1) {
      std::vector<Op> pairs;
      for (std::size_t i = 0; i + 1 < operations.size(); i += 2) {
        pairs.push_back(combine(std::move(operations[i]), std::move(operations[i + 1])));
      }
      if (operations.size() % 2 != 0) pairs.push_back(std::move(operations.back()));
      operations = std::move(pairs);
    }
    return std::move(operations[0]);
  }
  template <class F>
  static auto many(F make, int how_many = count) {
    std::vector<decltype(make(0))> operations;
    for (int i = 0; i < how_many; ++i) operations.push_back(make(i));
    return operations;
  }
  static Op from_host_one(int) { return from_host(std::vector<float>(size, 1)); }
  static Op full_of(int i) { return full<float>({size}, static_cast<float>(i)); }

  Device device = Device::simulated({.seed = 9, .workers = 2});
};

TEST_F(SmallMemory, Holds_a_chain) {
  Op chain = full_of(0);
  for (int i = 0; i < count; ++i) chain = sum(std::move(chain), full_of(1));
  EXPECT_EQ(run(std::move(chain).to_host())[5], count);
}

TEST_F(SmallMemory, Holds_a_chain_of_host_data) {
  Op chain = full_of(0);
  for (int i = 0; i < count; ++i) chain = sum(std::move(chain), from_host_one(i));
  EXPECT_EQ(run(std::move(chain).to_host())[5], count);
}

TEST_F(SmallMemory, Holds_a_tree) {
  EXPECT_EQ(run(tree(many([](int) { return full_of(1); }), sum).to_host())[5], count);
}

TEST_F(SmallMemory, Holds_a_tree_of_host_data) { EXPECT_EQ(run(tree(many(from_host_one), sum).to_host())[5], count); }

TEST_F(SmallMemory, Holds_many_copies_to_the_host) {
  const auto copies = run(when_all(many([](int i) { return full_of(i).to_host(); })));
  ASSERT_EQ(copies.size(), std::size_t{count});
  for (int i = 0; i < count; ++i) EXPECT_EQ(copies[static_cast<std::size_t>(i)][7], i);
}

TEST_F(SmallMemory, Holds_many_maps) {
  const auto first = [](const Tensor<float>& tensor) { return tensor.buffer().map_read<float>()[0]; };
  const auto values = run(when_all(many([&](int i) { return full_of(i).map(first); })));
  ASSERT_EQ(values.size(), std::size_t{count});
  for (int i = 0; i < count; ++i) EXPECT_EQ(values[static_cast<std::size_t>(i)], i);
}

TEST_F(SmallMemory, Holds_many_branches_that_continue_after_a_map) {
  const auto twice = [](Tensor<float> tensor) {
    auto shared = std::move(tensor).shared();
    return add_kernel(empty<float>({size}), shared, shared);
  };
  const auto pass = [](Tensor<float> tensor) { return tensor; };
  const auto copies =
      run(when_all(many([&](int i) { return full_of(i).map(pass).then(twice).map(pass).then(twice).to_host(); })));
  for (int i = 0; i < count; ++i) EXPECT_EQ(copies[static_cast<std::size_t>(i)][7], 4 * i);
}

TEST_F(SmallMemory, Holds_many_nested_operations) {
  const auto copies = run(when_all(many([](int i) { return full_of(i).to_host().timeout(100s); })));
  for (int i = 0; i < count; ++i) EXPECT_EQ(copies[static_cast<std::size_t>(i)][7], i);
}

TEST_F(SmallMemory, Submits_products_one_by_one_that_do_not_fit_together) {
  // Sums are fused; the operands of products need memory however they are planned.
  constexpr std::int64_t side = 128;
  const auto product = [](Op x, Op y) {
    auto [z, left, right] = zip(empty<float>({side, side}), std::move(x), std::move(y)).apply("matmul").unzip();
    return std::move(z);
  };
  Op products = tree(many([](int) { return full<float>({side, side}, 1.0F / side); }, 200), product);
  EXPECT_EQ(run(std::move(products).to_host())[5], 1.0F / side);
}

TEST_F(SmallMemory, Reports_what_it_cannot_hold) {
  expect_error(Errc::out_of_memory, "limit", [&] { run(when_all(many(full_of, 33))); });
  expect_error(Errc::out_of_memory, "limit", [&] { run(full<float>({33 * size}, 1).to_host()); });
  expect_error(Errc::out_of_memory, "limit", [&] { run(when_all(many(from_host_one, 33))); });
  EXPECT_EQ(run(when_all(many(full_of, 31))).size(), 31U);
}

TEST_P(Operations, A_consumed_operation_cannot_be_used_again) {
  auto operation = ones<float>({3});
  run(std::move(operation));
  expect_error(Errc::invalid_argument, "already consumed", [&] { std::move(operation).sync(); });
  Tensor<float> tensor = run(ones<float>({3}));
  const Tensor<float> moved = std::move(tensor);
  expect_error(Errc::invalid_argument, "moved-from", [&] { tensor.buffer(); });
  expect_error(Errc::invalid_argument, "moved-from", [&] { tensor.shape(); });
}

TEST_P(Operations, Bad_input_is_refused_with_its_reason) {
  expect_error(Errc::count_mismatch, "3 values", [] { from_host<float>({1, 2, 3}, {4}).sync(); });
  expect_error(Errc::shape_mismatch, "different ranks", [&] { run(ones<float>({4, 4}).partition({2})); });
  expect_error(Errc::invalid_argument, "empty", [&] { run(ones<float>({4, 4}).partition({2, 0})); });
  expect_error(Errc::shape_mismatch, "elements", [&] { run(ones<float>({4, 4}).reshape({15})); });
  expect_error(Errc::unknown_kernel, "relu", [&] { run(zip(empty<float>({3}), ones<float>({3})).apply("rleu")); });
  expect_error(Errc::unknown_parameter, "slope",
               [&] { run(zip(empty<float>({3}), ones<float>({3})).apply("relu", {{"slop", 1.0}})); });
  expect_error(Errc::overflow, "", [] { ones<float>({1LL << 40, 1LL << 40}).sync(); });
  expect_error(Errc::dtype_mismatch, "f64", [&] { Tensor<float> wrong(device.zeros({3}, f64)); });
  expect_error(Errc::invalid_argument, "stream", [] { ones<float>({3}).sync_on(Stream()); });
  expect_error(Errc::invalid_argument, "negative", [] { ones<float>({3}).retry(-1).sync(); });
  expect_error(Errc::out_of_memory, "", [&] {
    const Device small = Device::simulated();
    small.set_memory_limit(1 << 20);
    ones<float>({1 << 20}).sync_on(small.stream());
  });
  expect_error(Errc::shape_mismatch, "grid", [&] { run(tile_size.grid({2})(empty<float>({4, 4}))); });
}

TEST_P(Operations, An_error_in_a_graph_names_the_kernel) {
  const auto x = run(ones<float>({4}).shared());
  expect_error(Errc::invalid_argument, "[tile_size] the grid [0,0] has no tiles",
               [&] { run(tile_size.grid({0, 0})(empty<float>({2, 2}))); });
  expect_error(Errc::count_mismatch, "[relu] a kernel needs a tensor", [&] { run(zip(1, 2).apply("relu")); });
  auto wrong = zip(empty<float>({3}), add_kernel(empty<float>({4}), x, x)).apply("relu");
  expect_error(Errc::shape_mismatch, "[relu] ", [&] { run(std::move(wrong)); });
  const auto freed = run(ones<float>({4}).shared());
  freed->buffer().free();
  auto late = add_kernel(empty<float>({4}), add_kernel(empty<float>({4}), x, freed), x);
  expect_error(Errc::buffer_freed, "[add] input 1", [&] { run(std::move(late)); });
}

TEST_P(Operations, Spawn_leaves_the_memory_of_a_large_result_to_the_thread_that_copies) {
  constexpr std::int64_t count = 1 << 22;
  run(ones<float>({count}));
  test::take_largest_allocation();
  Spawned<std::vector<float>> running = spawn(ones<float>({count}).on(device).to_host());
  EXPECT_LT(test::take_largest_allocation(), 1U << 20);
  const std::vector<float> values = running.wait();
  ASSERT_EQ(values.size(), static_cast<std::size_t>(count));
  EXPECT_EQ(values.back(), 1);
}

TEST_P(Operations, A_value_is_taken_from_a_spawned_operation_once) {
  Spawned<std::vector<float>> running = spawn(ones<float>({2}).on(device).to_host());
  EXPECT_EQ(std::move(running).wait(), std::vector<float>(2, 1));
  expect_error(Errc::invalid_argument, "empty operation handle", [&] { std::move(running).wait(); });
}

TEST(Operation, Works_on_a_device_without_workers) {
  const Device device = Device::simulated({.seed = 3, .workers = 0});
  EXPECT_EQ(ones<float>({10000}).map([](Tensor<float> t) { return t.shape(); }).sync_on(device.stream()), Shape{10000});
  Spawned<std::vector<float>> running = ones<float>({10000}).to_host().submit_on(device.stream());
  EXPECT_EQ(running.wait().size(), 10000U);
}

TEST(Operation, Stream_policies_do_not_change_results) {
  struct Mine final : StreamPolicy {
    Stream stream_for(const Device& device, std::uint64_t) override {
      ++calls;
      return device.stream();
    }
    std::atomic<int> calls = 0;
  };
  const auto mine = std::make_shared<Mine>();
  for (const auto& policy : {std::shared_ptr<StreamPolicy>(mine), round_robin_streams(2), single_stream(),
                             stream_per_task(), std::shared_ptr<StreamPolicy>()}) {
    set_stream_policy(policy);
    EXPECT_EQ(add_kernel(zeros<float>({9}), ones<float>({9}), ones<float>({9})).to_host().sync(),
              std::vector<float>(9, 2));
  }
  EXPECT_GT(mine->calls, 0);
  expect_error(Errc::invalid_argument, "at least 1", [] { round_robin_streams(0); });
}

// Each run submits what the other one has recorded about the tensor that both read; neither may wait for the other.
TEST(Operation, Runs_that_read_shared_tensors_in_opposite_order_do_not_deadlock) {
  const auto x = ones<float>({16}).shared().sync(), y = ones<float>({16}).shared().sync();
  const int count = Device::best().info().backend == "cpu" ? test::rounds(50'000) : 200;
  const auto add_both = [&](const auto& first, const auto& second) {
    for (int i = 0; i < count; ++i) {
      auto twice = add_kernel(zeros<float>({16}), first, first);
      add_kernel(zeros<float>({16}), std::move(twice), second).sync();
    }
  };
  std::thread other([&] { add_both(y, x); });
  add_both(x, y);
  other.join();
}

}  // namespace
}  // namespace tessera
