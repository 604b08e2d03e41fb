// Simulation: a program run in a thousand orders has one result, and any of those orders can be replayed.
// Expect: ^1000 seeds: 1 result, [0-9][0-9]+ orders.*seed 7 again: the same order
#include <tessera/tessera.hpp>

#include <iostream>
#include <set>
#include <utility>
#include <vector>

using tessera::Buffer;
using tessera::Command;
using tessera::CommandId;

namespace {

using Result = std::vector<int>;
using Order = std::vector<CommandId>;  // in which the commands finished

// Without workers nothing runs by itself: only the calls and the seed decide what runs when.
std::pair<Result, Order> program(std::uint64_t seed) {
  tessera::Device device = tessera::Device::simulated({.seed = seed, .workers = 0});
  const tessera::Stream one = device.stream({.in_order = false});
  const tessera::Stream two = device.stream();
  Buffer a = device.buffer<int>({1, 2, 3, 4});
  Buffer b = device.buffer<int>({10, 20, 30, 40});
  Buffer c = device.zeros({4}, tessera::s32);
  Buffer sum = device.zeros({4}, tessera::s32);

  Order order;
  const auto note = [&](const Command& command) {
    command.on_complete([&](const Command& over) { order.push_back(over.id()); });
  };
  for (int round = 0; round < 3; ++round) {
    note(one.submit("scale", {a}, c, {{"factor", round + 2}}));
    note(two.submit("elementwise_add", {b, c}, b));
    note(one.submit("relu", {b}, a));
    note(two.submit("elementwise_add", {sum, a}, sum));
    note(one.submit("copy", {c}, device.empty({4}, tessera::s32)));
  }
  device.synchronize();
  return {sum.read<int>(), order};
}

}  // namespace

int main() {
  std::set<Result> results;
  std::set<Order> orders;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    auto [result, order] = program(seed);
    results.insert(std::move(result));
    orders.insert(std::move(order));
  }
  std::cout << "1000 seeds: " << results.size() << " result, " << orders.size() << " orders\n";

  // A failure can be replayed as often as needed.
  std::cout << "seed 7 again: " << (program(7) == program(7) ? "the same order" : "another order") << '\n';
}
