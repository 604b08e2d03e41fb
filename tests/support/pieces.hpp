#pragma once

#include "core/random.hpp"
#include "driver/cpu/gemm/engine.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

namespace tessera::driver::cpu::test {

// Makes an engine the one in use while it lives.
class EngineInUse {
 public:
  explicit EngineInUse(const Engine& engine) : before_(cpu::engine()) { use_engine(engine); }
  ~EngineInUse() { use_engine(before_); }
  EngineInUse(const EngineInUse&) = delete;
  EngineInUse& operator=(const EngineInUse&) = delete;

 private:
  const Engine& before_;
};

// Runs the pieces in random order; if there are some, on three threads.
template <class Work>
void run_pieces(const Work& work, const Cut& cut) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(cut.pieces));
  std::iota(order.begin(), order.end(), 0);
  core::Random random(order.size());
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  std::atomic<std::size_t> next = 0;
  const auto drain = [&] {
    for (std::size_t i = next++; i < order.size(); i = next++) run_piece(work, cut, order[i]);
  };
  if (order.size() == 1) return drain();
  std::jthread one(drain), other(drain);
  drain();
}

}  // namespace tessera::driver::cpu::test
