#pragma once

#include "conformance/oracles/oracles.hpp"

#include <cstddef>
#include <optional>

namespace tessera::conformance {

struct Difference {
  std::size_t index = 0;
  Approx expected;
  Real got = 0;
};

struct Check {
  std::optional<Difference> first;  // that is too far off
  std::size_t failures = 0;
  Real largest_error = 0;  // of those that are right
  Real largest_share = 0;  // of what is allowed
};

Check check(const Answer& expected, const Tensor& got);

}  // namespace tessera::conformance
