#pragma once

#include <cstdint>

namespace tessera::core {

// A small random number generator (SplitMix64) for simulated schedules and faults. The same seed yields the same
// numbers everywhere, which the standard distributions do not guarantee.
class Random {
 public:
  explicit Random(std::uint64_t seed) noexcept : state_(seed) {}

  std::uint64_t next() noexcept {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  // In [0, end); `end` must not be 0.
  std::uint64_t below(std::uint64_t end) noexcept { return next() % end; }
  // In [0, 1).
  double fraction() noexcept { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

}  // namespace tessera::core
