// Reductions of long axes to few elements, which the CPU does in parts of the axis.
#include <tessera/tessera.hpp>

#include "compile/passes/split_reduction.hpp"
#include "driver/driver.hpp"
#include "support/expect_error.hpp"
#include "support/interpreted.hpp"
#include "support/run_kernel.hpp"
#include "tile/trace.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

namespace tessera {
namespace {

using test::cpu;
using test::Limits;
using test::make;
using test::run;
using tile::Input;
using tile::Output;

// How long a part of an array is (driver/cpu/parts.cpp), and from how many of them on there are parts.
template <class T>
constexpr std::int64_t part = (std::int64_t{256} << 10) / static_cast<std::int64_t>(sizeof(T));
constexpr std::int64_t least_parts = 16;

template <class T>
std::vector<T> numbers(std::int64_t count, std::uint32_t seed = 1) {
  std::vector<T> values(static_cast<std::size_t>(count));
  std::uint32_t state = seed;
  for (T& value : values) {
    state = state * 1664525U + 1013904223U;
    if constexpr (std::is_floating_point_v<T>) {
      value = static_cast<T>(static_cast<double>(state >> 8) * 0x1p-23 - 0.25);
    } else {
      value = static_cast<T>((std::uint64_t{state} << 32 | state >> 7) >> (64 - 8 * sizeof(T)));
    }
  }
  return values;
}

// Along the middle axis of [outer, extent, inner].
template <class T>
struct Expected {
  T sum{}, least{}, greatest{};
  double exact = 0, magnitude = 0;
  std::int64_t place = 0;

  Expected(const std::vector<T>& x, std::int64_t first, std::int64_t extent, std::int64_t step) {
    least = greatest = x[static_cast<std::size_t>(first)];
    for (std::int64_t i = 0; i < extent; ++i) {
      const T value = x[static_cast<std::size_t>(first + i * step)];
      if constexpr (std::is_integral_v<T>) {
        sum = static_cast<T>(static_cast<std::make_unsigned_t<T>>(sum) + static_cast<std::make_unsigned_t<T>>(value));
      }
      exact += static_cast<double>(value);
      magnitude += std::abs(static_cast<double>(value));
      least = std::min(least, value);
      if (value > greatest) {
        greatest = value;
        place = i;
      }
    }
  }
  void expect_sum(T got) const {
    if constexpr (std::is_integral_v<T>) {
      EXPECT_EQ(got, sum);
    } else {
      EXPECT_NEAR(static_cast<double>(got), exact, 2 * Limits<T>::epsilon() * magnitude);
    }
  }
};

template <class T>
class LargeReductions : public ::testing::Test {};
TYPED_TEST_SUITE(LargeReductions, test::EveryType);
template <class T>
class LargeFloats : public ::testing::Test {};
TYPED_TEST_SUITE(LargeFloats, test::FloatTypes);

TYPED_TEST(LargeReductions, Of_any_length) {
  using T = TypeParam;
  const std::int64_t from = least_parts * part<T>;
  for (const std::int64_t count : {from - 1, from, from + 1, from + 128, from + part<T> - 1, from + part<T>,
                                   std::int64_t{sizeof(T) == 1 ? 5'000'011 : 1'600'033}}) {
    const std::vector<T> values = numbers<T>(count);
    const Buffer x = make<T>(values);
    const Expected<T> expected(values, 0, count, 1);
    SCOPED_TRACE(count);
    expected.expect_sum(run<T>("reduce_sum", {x}, {})[0]);
    EXPECT_EQ(run<T>("reduce_max", {x}, {})[0], expected.greatest);
    EXPECT_EQ(run<T>("reduce_min", {x}, {})[0], expected.least);
    EXPECT_EQ(run<std::int64_t>("argmax", {x}, {})[0], expected.place);
    EXPECT_EQ(run<std::uint32_t>("argmax", {x}, {1})[0], expected.place);
    const double mean = static_cast<double>(run<T>("reduce_mean", {x}, {})[0]);
    const double exact = expected.exact / static_cast<double>(count);
    EXPECT_NEAR(mean, exact, std::is_integral_v<T> ? 0.51 + 1e-9 * std::abs(exact) : 1e-6);
  }
}

TYPED_TEST(LargeReductions, To_few_elements) {
  using T = TypeParam;
  struct Case {
    Shape shape, output;
    int axis;
  };
  const std::int64_t extent = 9 * part<T> + 17;
  for (const Case& at :
       {Case{{3, extent}, {3}, 1}, Case{{extent, 3}, {3}, 0}, Case{{2, extent, 3}, {2, 1, 3}, 1},
        Case{{40'009, 130}, {130}, 0}, Case{{1, extent, 4}, {1, 4}, 1}, Case{{4, extent, 1}, {4, 1}, 1}}) {
    const std::vector<T> values = numbers<T>(at.shape.elements());
    const Buffer x = make<T>(values, at.shape);
    const Params axis = {{"axis", at.axis}};
    const auto sums = run<T>("reduce_sum", {x}, at.output, axis), greatest = run<T>("reduce_max", {x}, at.output, axis),
               least = run<T>("reduce_min", {x}, at.output, axis);
    const auto places = run<std::int64_t>("argmax", {x}, at.output, axis);
    std::int64_t inner = 1;
    for (int i = at.axis + 1; i < at.shape.rank(); ++i) inner *= at.shape[i];
    SCOPED_TRACE(to_string(at.shape));
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const auto line = static_cast<std::int64_t>(i);
      const std::int64_t length = at.shape[at.axis];
      const Expected<T> expected(values, line / inner * length * inner + line % inner, length, inner);
      expected.expect_sum(sums[i]);
      EXPECT_EQ(greatest[i], expected.greatest);
      EXPECT_EQ(least[i], expected.least);
      EXPECT_EQ(places[i], expected.place);
    }
  }
}

TYPED_TEST(LargeReductions, The_first_of_the_greatest_wherever_the_parts_begin) {
  using T = TypeParam;
  const std::int64_t count = 16 * part<T> + 77;
  EXPECT_EQ(run<std::int64_t>("argmax", {make<T>(std::vector<T>(count, 3))}, {})[0], 0);
  EXPECT_EQ(run<std::int64_t>("argmax", {make<T>(std::vector<T>(count, Limits<T>::lowest()))}, {})[0], 0);
  for (const std::int64_t first : {std::int64_t{1}, part<T> - 1, part<T>, 2 * part<T> + 5, count - 2}) {
    for (const std::int64_t second : {first + 1, std::min(first + part<T>, count - 1), count - 1}) {
      std::vector<T> values(count, 3);
      values[static_cast<std::size_t>(first)] = values[static_cast<std::size_t>(second)] = 9;
      EXPECT_EQ(run<std::int64_t>("argmax", {make<T>(values)}, {})[0], first) << second;
    }
  }
}

TYPED_TEST(LargeFloats, NaN_in_any_part) {
  using T = TypeParam;
  const std::int64_t count = 16 * part<T> + 77;
  for (const std::int64_t first : {std::int64_t{0}, part<T> - 1, part<T>, 3 * part<T> + 1, count - 1}) {
    std::vector<T> values = numbers<T>(count);
    values[static_cast<std::size_t>(first)] = values[static_cast<std::size_t>(count - 1)] = Limits<T>::quiet_NaN();
    values[static_cast<std::size_t>(count - 2)] = Limits<T>::infinity();
    const Buffer x = make<T>(values);
    for (const char* kernel : {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min"}) {
      EXPECT_TRUE(std::isnan(run<T>(kernel, {x}, {})[0])) << kernel << " " << first;
    }
    EXPECT_EQ(run<std::int64_t>("argmax", {x}, {})[0], first);
  }
}

TYPED_TEST(LargeFloats, Infinities_and_sums_that_cancel) {
  using T = TypeParam;
  const std::int64_t count = 16 * part<T>;
  std::vector<T> values(static_cast<std::size_t>(count), T{0.5});
  std::fill(values.begin() + 8 * part<T>, values.end(), T{-0.5});
  EXPECT_EQ(run<T>("reduce_sum", {make<T>(values)}, {})[0], 0);
  values[3] = Limits<T>::infinity();
  EXPECT_EQ(run<T>("reduce_sum", {make<T>(values)}, {})[0], Limits<T>::infinity());
  EXPECT_EQ(run<T>("reduce_min", {make<T>(values)}, {})[0], T{-0.5});
  values[static_cast<std::size_t>(count - 1)] = -Limits<T>::infinity();
  EXPECT_TRUE(std::isnan(run<T>("reduce_sum", {make<T>(values)}, {})[0]));
}

TEST(LargeReductionsOf, Means_of_s64_have_two_sums) {
  const std::int64_t count = 600'003;
  std::vector<std::int64_t> values(count, Limits<std::int64_t>::max());
  EXPECT_EQ(run<std::int64_t>("reduce_mean", {make<std::int64_t>(values)}, {})[0], Limits<std::int64_t>::max());
  for (std::int64_t i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = (std::int64_t{1} << 61) + i;
  EXPECT_EQ(run<std::int64_t>("reduce_mean", {make<std::int64_t>(values)}, {})[0], (std::int64_t{1} << 61) + count / 2);
}

// x and y of one axis to one number.
template <class Body>
float run_tile(const char* name, const std::vector<float>& x, const std::vector<float>& y, Body body) {
  const auto kernel = tile::kernel(name, [body](tile::Out<float> z, tile::In<float> a, tile::In<float> b) {
    const auto all = [&](const tile::In<float>& of) { return of.load({a.dim(0)}, {0}); };
    z.store(body(all(a), all(b)));
  });
  const Buffer z = cpu().zeros({1});
  cpu().run(kernel, {make<float>(x), make<float>(y)}, z);
  return z.read<float>()[0];
}

TEST(LargeReductionsOf, Kernels_of_the_users) {
  const std::int64_t count = 1'200'007;
  const std::vector<float> x = numbers<float>(count), y = numbers<float>(count, 7);
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += double{x[i]} * y[i];
    xx += double{x[i]} * x[i];
    yy += double{y[i]} * y[i];
  }
  using tile::Tile;
  const auto dot = [](const Tile& a, const Tile& b) { return tile::reduce_sum(a * b, 0); };
  EXPECT_NEAR(run_tile("large_dot", x, y, dot), xy, 1e-6 * xy);
  const auto cosine = [](const Tile& a, const Tile& b) {
    return tile::reduce_sum(a * b, 0) * tile::rsqrt(tile::reduce_sum(a * a, 0) * tile::reduce_sum(b * b, 0));
  };
  EXPECT_NEAR(run_tile("large_cosine", x, y, cosine), xy / std::sqrt(xx * yy), 2e-6);
  const auto product = [](const Tile& a, const Tile& b) { return tile::reduce_product(1 + (a - b) * 1e-7F, 0); };
  EXPECT_NEAR(run_tile("large_product", x, x, product), 1, 1e-6);
  // The second is shorter: beyond its end there are zeros.
  const std::vector<float> shorter(y.begin(), y.begin() + 1'000'001);
  const auto sum = [](const Tile&, const Tile& b) { return tile::reduce_sum(b, 0); };
  EXPECT_NEAR(run_tile("large_shorter", x, shorter, sum), Expected<float>(shorter, 0, 1'000'001, 1).exact, 1);
}

TEST(LargeReductionsOf, Sums_of_rows) {
  const auto kernel = tile::kernel("largest_row", [](tile::Out<std::int64_t> z, tile::In<float> x) {
    z.store(tile::argmax(tile::reduce_sum(x.load({x.dim(0), x.dim(1)}, {0, 0}), 1), 0));
  });
  const std::int64_t rows = 12'001, columns = 97;
  std::vector<float> x(static_cast<std::size_t>(rows * columns), 0.25F);
  x[static_cast<std::size_t>(7000 * columns + 5)] = x[static_cast<std::size_t>(8999 * columns)] = 0.5F;
  const Buffer z = cpu().zeros({1, 1}, s64);
  cpu().run(kernel, {make<float>(x, {rows, columns})}, z);
  EXPECT_EQ(z.read<std::int64_t>()[0], 7000);
}

TEST(LargeReductionsOf, What_a_stage_before_computes) {
  const std::int64_t count = 2'000'003;
  const std::vector<float> values = numbers<float>(count);
  const Buffer x = make<float>(values), z = cpu().zeros({}), place = cpu().zeros({}, s64);
  Pipeline pipeline(cpu());
  const Buffer t = pipeline.temporary({count});
  pipeline.add("exp", {x}, t).add("reduce_sum", {t}, z).add("argmax", {t}, place);
  pipeline.compile();
  double sum = 0;
  for (const float value : values) sum += std::exp(double{value});
  for (int round = 0; round < 3; ++round) {
    pipeline.run();
    EXPECT_NEAR(z.read<float>()[0], sum, 1e-6 * sum);
    EXPECT_EQ(place.read<std::int64_t>()[0], Expected<float>(values, 0, count, 1).place);
  }
}

std::uint32_t sum_bits(const Device& device, const Buffer& x) {
  const Buffer z = device.zeros({});
  device.submit("reduce_sum", {x}, z).wait();
  return std::bit_cast<std::uint32_t>(z.read<float>()[0]);
}

TEST(LargeReductionsOf, The_same_bits_whoever_computes_them) {
  const Device device = Device::open("cpu");
  const std::vector<float> values = numbers<float>(3'000'017);
  const Buffer x = device.buffer<float>(values);
  const std::uint32_t bits = sum_bits(device, x);
  for (const PowerLevel level : {PowerLevel::critical, PowerLevel::serious, PowerLevel::fair, PowerLevel::nominal}) {
    device.set_power_level(level);
    for (int round = 0; round < 10; ++round) EXPECT_EQ(sum_bits(device, x), bits);
  }
  for (const unsigned workers : {0U, 1U, 3U}) {
    const Device simulated = Device::simulated({.seed = workers, .workers = workers});
    EXPECT_EQ(sum_bits(simulated, simulated.buffer<float>(values)), bits);
  }
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) wrong += sum_bits(device, x) == bits ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST(LargeReductionsOf, Cancelled_while_they_run) {
  const Device device = Device::open("cpu");
  const std::vector<float> values = numbers<float>(8'000'009);
  const Buffer x = device.buffer<float>(values);
  const std::uint32_t bits = sum_bits(device, x);
  int cancelled = 0;
  for (int round = 0; round < 200; ++round) {
    const Buffer z = device.zeros({});
    const Command command = device.submit("reduce_sum", {x}, z);
    // By the clock: on a busy machine a yield may take milliseconds.
    const auto until = std::chrono::steady_clock::now() + round * std::chrono::microseconds(20);
    while (command.poll() != Status::running && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    command.cancel();
    while (!is_terminal(command.poll())) std::this_thread::yield();
    if (command.poll() == Status::cancelled) {
      ++cancelled;
      test::expect_error(Errc::cancelled, "", [&] { z.read<float>(); });
    } else {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(z.read<float>()[0]), bits);
    }
  }
  EXPECT_GT(cancelled, 0);
  EXPECT_EQ(sum_bits(device, x), bits);
}

TEST(LargeReductionsOf, Failures_of_pieces_are_the_commands) {
  SimulationOptions options{.workers = 2};
  options.faults = {{.command = 1, .kind = InjectedFault::Kind::fail}};
  const Device device = Device::simulated(options);
  const std::vector<float> values(2'000'000, 0.5F);
  const Buffer x = device.buffer<float>(values), z = device.zeros({});
  const Command command = device.submit("reduce_sum", {x}, z);
  test::expect_error(Errc::device_failure, "injected failure", [&] { command.wait(); });
  test::expect_error(Errc::device_failure, "", [&] { z.read<float>(); });
  device.run("reduce_sum", {x}, z);
  EXPECT_EQ(z.read<float>()[0], 1'000'000);
}

ir::Program traced(const test::Dims& output, const std::function<void()>& body) {
  return test::Interpreted().input<float>({7, 5}, std::vector<float>(35)).program<float>(output, body);
}

TEST(SplitReduction, What_can_be_split) {
  const auto x = [] { return Input(0).load({Output().tile_dim(0), Input(0).dim(1)}, {0, 0}); };
  const auto can = [&](const test::Dims& output, const std::function<void()>& body) {
    const ir::Program program = traced(output, body);
    const auto found = compile::split_reduction(program);
    if (!found) return 0;
    for (const ir::Program& partial : found->partial) ir::verify(partial);
    ir::verify(found->finish);
    return static_cast<int>(found->partial.size());
  };
  EXPECT_EQ(can({7, 1}, [&] { Output().store(reduce_sum(x(), 1)); }), 1);
  EXPECT_EQ(can({7, 1}, [&] { Output().store(reduce_sum(x(), 1) / cast<float>(Input(0).dim(1))); }), 1);
  EXPECT_EQ(can({7, 1}, [&] { Output().store(reduce_sum(x(), 1) + reduce_max(x(), 1)); }), 2);
  EXPECT_EQ(can({7}, [&] { Output().store(tile::reshape(reduce_max(x(), 1), {Output().tile_dim(0)})); }), 1);
  // No reduction; one that each part would do as a whole; one along the output itself.
  EXPECT_EQ(can({7, 5}, [&] { Output().store(load_like(Input(0), Output())); }), 0);
  EXPECT_EQ(can({7, 1}, [&] { Output().store(reduce_sum(x() - reduce_max(x(), 1), 1)); }), 0);
  EXPECT_EQ(can({7, 5},
                [&] {
                  const auto t = load_like(Input(0), Output());
                  Output().store(exp(t - reduce_max(t, 1)));
                }),
            0);
}

TEST(SplitReduction, Only_where_there_is_much_to_reduce_to_few) {
  const auto driver = driver::make_cpu_driver();
  const ir::Program program =
      traced({7, 1}, [] { Output().store(reduce_sum(tile::load_lines(Input(0), Output(), 1), 1)); });
  const auto bytes = [&](std::int64_t rows, std::int64_t columns) {
    driver::Launch launch;
    launch.executable = &driver->compile(program);
    for (const std::int64_t dim : {rows, std::int64_t{1}, rows, columns}) launch.dims.push_back(dim);
    launch.elements = rows;
    launch.bytes = rows * columns * 4;
    return driver->partial_bytes(launch);
  };
  EXPECT_EQ(bytes(1, least_parts * part<float> - 1), 0U);
  EXPECT_EQ(bytes(1, least_parts * part<float>), 64U);
  EXPECT_EQ(bytes(1, least_parts * part<float> + 1), 128U);
  EXPECT_EQ(bytes(3, 256 * part<float>), 9280U);  // of parts of 170 blocks
  EXPECT_NE(bytes(63, part<float>), 0U);
  EXPECT_EQ(bytes(64, part<float>), 0U);
  EXPECT_EQ(bytes(1'000'000, 100), 0U);
  EXPECT_EQ(bytes(1, 0), 0U);
}

}  // namespace
}  // namespace tessera
