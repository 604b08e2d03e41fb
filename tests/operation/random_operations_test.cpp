// Random trees of operations, with failures and cancellations, compared with direct evaluation on the host.
#include <tessera/tessera.hpp>

#include "compile/compile.hpp"
#include "support/program.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <random>
#include <ranges>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tessera {
namespace {

using Values = std::vector<float>;
using Operation = DeviceOperation<Tensor<float>>;

const auto plus_kernel = tile::kernel("plus", [](tile::Out<float> z, tile::In<float> x, tile::In<float> y) {
  z.store(tile::load_like(x, z) + tile::load_like(y, z));
});
const auto times_kernel = tile::kernel(
    "times",
    [](tile::Out<float> z, tile::In<float> x, tile::Scalar<float, "factor"> f) { z.store(tile::load_like(x, z) * f); });

// An operation and its expected value; nothing if it must fail.
struct Pair {
  Operation operation;
  std::optional<Values> expected;
};

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Trees {
 public:
  Trees(const Device& device, unsigned seed) : device_(device), random_(seed), size_(pick({1, 3, 16, 100, 1500})) {}

  Pair tree(int depth) {
    if (depth == 0) return leaf();
    switch (number(16)) {
      case 0:
        return scaled(tree(depth - 1));
      case 1:
        return called(tree(depth - 1));
      case 2:
        return mapped(tree(depth - 1));
      case 3:
        return inspected(tree(depth - 1));
      case 4:
        return reshaped(tree(depth - 1));
      case 5:
        return failing(tree(depth - 1));
      case 6:
        return rescued(tree(depth - 1), tree(depth - 1));
      case 7:
        return retried(depth - 1);
      case 8:
        return hurried(tree(depth - 1));
      case 9:
        return summed_by_name(tree(depth - 1), tree(depth - 1));
      case 10:
        return crossed(tree(depth - 1), tree(depth - 1));
      case 11:
        return all_of(depth - 1);
      case 12:
        return first_of(depth - 1);
      case 13:
        return shared(tree(depth - 1));
      case 14:
        return through_host(tree(depth - 1));
      default:
        return summed(tree(depth - 1), tree(depth - 1));
    }
  }

  int number(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }

 private:
  int pick(std::vector<int> of) { return of[static_cast<std::size_t>(number(static_cast<int>(of.size())))]; }
  Shape shape() const { return {size_}; }

  Pair leaf() {
    const auto count = static_cast<std::size_t>(size_);
    const auto value = static_cast<float>(number(9) - 4);
    Values counted(count);
    for (std::size_t i = 0; i < count; ++i) counted[i] = static_cast<float>(i % 7) + value;
    switch (number(4)) {
      case 0:
        return {full<float>(shape(), value), Values(count, value)};
      case 1:
        return {from_host<float>(counted), counted};
      case 2:
        return {tessera::value(Tensor<float>(device_.buffer<float>(counted))), counted};
      default:
        for (std::size_t i = 0; i < count; ++i) counted[i] = static_cast<float>(i);
        return {arange<float>(size_), counted};
    }
  }

  template <class F>
  static std::optional<Values> changed(std::optional<Values> values, F change) {
    if (values) std::ranges::transform(*values, values->begin(), change);
    return values;
  }
  static std::optional<Values> sum(const std::optional<Values>& a, const std::optional<Values>& b) {
    if (!a || !b) return std::nullopt;
    Values values = *a;
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = bounded(values[i] + (*b)[i]);
    return values;
  }
  // Whole numbers stay exact.
  static float bounded(float x) { return std::clamp(x, -1000.0F, 1000.0F); }
  Operation clamped(Operation operation) {
    auto parts =
        zip(empty<float>(shape()), std::move(operation)).apply("clamp", {{"min", -1000}, {"max", 1000}}).unzip();
    return std::move(std::get<0>(parts));
  }

  Pair scaled(Pair of) {
    const float factor = static_cast<float>(pick({-1, 2, 3}));
    auto operation = std::move(of.operation).then([factor, shape = shape()](Tensor<float> t) {
      return times_kernel(zeros<float>(shape), std::move(t), factor);
    });
    return {clamped(std::move(operation)), changed(of.expected, [=](float x) { return bounded(x * factor); })};
  }
  Pair called(Pair of) {
    const auto tile = static_cast<std::int64_t>(1 + number(20));
    auto operation = times_kernel(empty<float>(shape()).partition({tile}), std::move(of.operation), 2.0F).unpartition();
    return {clamped(std::move(operation)), changed(of.expected, [](float x) { return bounded(x * 2); })};
  }
  Pair mapped(Pair of) {
    auto operation = std::move(of.operation).map([device = device_](Tensor<float> t) {
      Values values = t.buffer().read<float>();
      for (float& x : values) x = -x;
      return Tensor<float>(device.buffer<float>(values));
    });
    return {std::move(operation), changed(of.expected, [](float x) { return -x; })};
  }
  Pair inspected(Pair of) {
    auto operation = std::move(of.operation).inspect([expected = of.expected](const Tensor<float>& t) {
      EXPECT_TRUE(expected);
      EXPECT_EQ(t.buffer().read<float>(), expected.value_or(Values()));
    });
    return {std::move(operation), of.expected};
  }
  Pair reshaped(Pair of) {
    return {std::move(of.operation).reshape({1, size_}).reshape({size_, 1, 1}).reshape(shape()), of.expected};
  }
  Pair failing(Pair of) {
    if (number(3) != 0) return inspected(std::move(of));
    auto operation = std::move(of.operation).map([](Tensor<float> t) {
      if (t.shape().rank() > 0) throw Failure("on purpose");
      return t;
    });
    return {std::move(operation), std::nullopt};
  }
  Pair rescued(Pair of, Pair other) {
    auto replacement = std::make_shared<Operation>(std::move(other.operation));
    auto operation =
        std::move(of.operation).or_else([replacement](const Error&) { return std::move(*replacement).boxed(); });
    return {std::move(operation), of.expected ? of.expected : other.expected};
  }
  Pair retried(int depth) {
    const int failures = number(3), retries = number(3);
    auto left = std::make_shared<int>(failures);
    Values counted(static_cast<std::size_t>(size_));
    for (std::size_t i = 0; i < counted.size(); ++i) counted[i] = static_cast<float>(static_cast<int>(i % 5) + depth);
    auto operation = times_kernel(zeros<float>(shape()), from_host<float>(counted), 2.0F)
                         .inspect([left](const Tensor<float>&) {
                           if ((*left)-- > 0) throw Failure("not yet");
                         })
                         .retry(retries);
    if (failures > retries) return {std::move(operation), std::nullopt};
    return {std::move(operation), changed(counted, [](float x) { return x * 2; })};
  }
  Pair hurried(Pair of) { return {std::move(of.operation).timeout(std::chrono::minutes(10)), of.expected}; }
  Pair summed(Pair a, Pair b) {
    auto operation = plus_kernel(zeros<float>(shape()), std::move(a.operation), std::move(b.operation));
    return {clamped(std::move(operation)), sum(a.expected, b.expected)};
  }
  Pair summed_by_name(Pair a, Pair b) {
    auto [z, x, y] =
        zip(empty<float>(shape()), std::move(a.operation), std::move(b.operation)).apply("elementwise_add").unzip();
    return {clamped(std::move(z)), sum(a.expected, b.expected)};
  }
  Pair crossed(Pair a, Pair b) {
    auto [x, y] = zip(std::move(a.operation), std::move(b.operation)).unzip();
    auto [z, y_back, x_back] = plus_kernel(empty<float>(shape()), std::move(y), std::move(x)).unzip();
    if (number(2) == 0) return {clamped(std::move(z)), sum(a.expected, b.expected)};
    // A part that is only passed through fails with the rest.
    if (!a.expected || !b.expected) return {std::move(x_back), std::nullopt};
    return {std::move(x_back), a.expected};
  }
  Pair all_of(int depth) {
    std::vector<Operation> operations;
    std::optional<Values> total = Values(static_cast<std::size_t>(size_), 0);
    const int count = 1 + number(3);
    for (int i = 0; i < count; ++i) {
      Pair one = tree(depth > 1 ? depth - 2 : 0);
      operations.push_back(std::move(one.operation));
      total = sum(total, one.expected);
    }
    auto operation = when_all(std::move(operations)).map([device = device_](std::vector<Tensor<float>> tensors) {
      Values values(static_cast<std::size_t>(tensors[0].shape().elements()), 0);
      for (const Tensor<float>& tensor : tensors) {
        const Values more = tensor.buffer().read<float>();
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = bounded(values[i] + more[i]);
      }
      return Tensor<float>(device.buffer<float>(values));
    });
    return {std::move(operation), total};
  }
  // All operations that can come first have the same value.
  Pair first_of(int depth) {
    const auto seed = static_cast<unsigned>(random_());
    std::optional<Values> expected;
    std::vector<Operation> operations;
    const int count = 1 + number(3);
    for (int i = 0; i < count; ++i) {
      Trees twin(device_, seed);
      twin.size_ = size_;
      Pair one = twin.tree(depth > 1 ? depth - 2 : 0);
      expected = one.expected;
      operations.push_back(std::move(one.operation));
    }
    operations.push_back(tessera::value(1).map([](int) -> Tensor<float> { throw Failure("never first"); }));
    auto operation = when_any(std::move(operations)).map([](std::pair<std::size_t, Tensor<float>> first) {
      return std::move(first.second);
    });
    return {std::move(operation), expected};
  }
  Pair shared(Pair of) {
    auto operation =
        std::move(of.operation).shared().then([shape = shape()](const std::shared_ptr<const Tensor<float>>& t) {
          return plus_kernel(zeros<float>(shape), t, t);
        });
    return {clamped(std::move(operation)), changed(of.expected, [](float x) { return bounded(x + x); })};
  }
  Pair through_host(Pair of) {
    auto operation =
        std::move(of.operation).to_host().then([](Values values) { return from_host<float>(std::move(values)); });
    return {std::move(operation), of.expected};
  }

  Device device_;
  std::mt19937 random_;
  std::int64_t size_;
};

Task<Values> awaited(Operation operation) { co_return co_await std::move(operation).to_host(); }

Values run(Operation operation, const Device& device, int door) {
  switch (door) {
    case 0:
      return std::move(operation).to_host().sync_on(device.stream());
    case 1:
      return std::move(operation).on(device).to_host().spawn().wait();
    case 2:
      return sync_wait(awaited(std::move(operation).on(device)));
    case 3:
      return spawn(awaited(std::move(operation).on(device))).wait();
    default:
      return std::move(operation).on(device).to_host().submit_on(device.stream({.in_order = false})).wait();
  }
}

void check(const Device& device, unsigned seed) {
  Trees trees(device, seed);
  const int depth = trees.number(7);
  const int door = trees.number(5);
  Pair pair = trees.tree(depth);
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  try {
    const Values values = run(std::move(pair.operation), device, door);
    ASSERT_TRUE(pair.expected) << "it should have failed";
    EXPECT_EQ(values, *pair.expected);
  } catch (const Failure&) {
    EXPECT_FALSE(pair.expected);
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
}

// A cancelled tree returns its value, fails as expected, or is cancelled; nothing else.
void check_cancelled(const Device& device, unsigned seed) {
  Trees trees(device, seed);
  Pair pair = trees.tree(trees.number(7));
  const int microseconds = trees.number(200);
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::stop_source stop;
  Spawned<Values> running = std::move(pair.operation).on(device).to_host().spawn(stop.get_token());
  std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
  if (trees.number(2) == 0) {
    running.cancel();
  } else {
    stop.request_stop();
  }
  try {
    const Values values = running.wait();
    ASSERT_TRUE(pair.expected);
    EXPECT_EQ(values, *pair.expected);
  } catch (const Failure&) {
    EXPECT_FALSE(pair.expected);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::cancelled) << error.what();
  }
}

// Most trees are unique: compiling them all would take minutes.
struct Interpreted {
  Interpreted() { compile::set_interpreted(true); }
  ~Interpreted() { compile::set_interpreted(false); }
};

// The seeds of as many trees at full depth.
auto seeds(int full) {
  const auto first = static_cast<unsigned>(test::seed());
  return std::views::iota(first, first + static_cast<unsigned>(test::rounds(full)));
}

TEST(RandomOperations, Agree_with_direct_evaluation) {
  for (const unsigned seed : seeds(100)) check(Device::best(), seed);
}

TEST(RandomOperations, Agree_when_they_are_interpreted) {
  const Interpreted interpreted;
  for (const unsigned seed : seeds(3000)) check(Device::best(), seed);
}

TEST(RandomOperations, Agree_on_simulated_devices) {
  const Interpreted interpreted;
  for (const unsigned seed : seeds(3000)) {
    check(Device::simulated({.seed = seed, .workers = seed % 3}), seed);
  }
}

TEST(RandomOperations, Agree_from_several_threads) {
  const Interpreted interpreted;
  const Device device = Device::best();
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (const unsigned seed : seeds(750)) check(device, 4 * seed + t);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(RandomOperations, End_in_an_allowed_state_when_cancelled) {
  const Interpreted interpreted;
  for (const unsigned seed : seeds(3000)) {
    check_cancelled(seed % 2 == 0 ? Device::best() : Device::simulated({.seed = seed, .workers = 2}), seed);
  }
}

}  // namespace
}  // namespace tessera
