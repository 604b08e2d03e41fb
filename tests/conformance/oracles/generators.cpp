#include "conformance/oracles/oracles.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numbers>

namespace tessera::conformance {

namespace {

using Block = std::array<std::uint32_t, 4>;

// Philox4x32-10 (Salmon et al., 2011).
Block philox(std::uint64_t seed, std::uint64_t counter) {
  Block c = {static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), 0, 0};
  auto key0 = static_cast<std::uint32_t>(seed);
  auto key1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ key0, static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ key1, static_cast<std::uint32_t>(p0)};
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return c;
}

// In [0, 1): 24 bits for f32, 53 for f64.
Real unit(DType dtype, std::uint64_t seed, std::uint64_t i) {
  if (dtype == f32) return static_cast<Real>(philox(seed, i / 4)[i % 4] >> 8) * 0x1p-24L;
  const Block block = philox(seed, i / 2);
  const std::uint64_t low = block[2 * (i % 2)];
  const std::uint64_t high = block[2 * (i % 2) + 1];
  return static_cast<Real>((high << 32 | low) >> 11) * 0x1p-53L;
}

Answer uniform(const Call& call) {
  Answer answer(call);
  const auto seed = static_cast<std::uint64_t>(call.integer("seed", 0));
  const Real least = call.number("min", 0);
  const Real most = call.number("max", 1);
  const Real slack = 3 * epsilon(call.dtype) * (std::fabs(least) + std::fabs(most));
  const bool is_exact = least == 0 && most == 1;
  for (std::size_t i = 0; i < answer.points.size(); ++i) {
    answer.points[i] = {least + (most - least) * unit(call.dtype, seed, i), is_exact ? 0 : slack};
  }
  return answer;
}

Answer randn(const Call& call) {
  Answer answer(call);
  const auto seed = static_cast<std::uint64_t>(call.integer("seed", 0));
  const Real mean = call.number("mean", 0);
  const Real deviation = call.number("std", 1);
  const Real eps = epsilon(call.dtype);
  for (std::size_t i = 0; i < answer.points.size(); ++i) {
    const Real u1 = unit(call.dtype, seed, i / 2 * 2);
    const Real u2 = unit(call.dtype, seed, i / 2 * 2 + 1);
    const Real radius = std::sqrt(-2 * std::log1p(-u1));
    const Real angle = 2 * std::numbers::pi_v<Real> * u2;
    const Real value = radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
    // The angle is off by some epsilons of 2 pi, and so is the result, relative to the radius.
    answer.points[i] = {value * deviation + mean, 16 * eps * radius * std::fabs(deviation) + 2 * eps * std::fabs(mean)};
  }
  return answer;
}

// start + i * step: in f64, or, if both are whole and so is the type, in s64, saturated.
Answer arange(const Call& call) {
  Answer answer(call);
  const Real start = call.exact_number("start", 0);
  const Real step = call.exact_number("step", 1);
  const bool is_whole = std::trunc(start) == start && std::trunc(step) == step && !is_float(call.dtype);
  for (std::size_t i = 0; i < answer.points.size(); ++i) {
    if (is_whole) {
      const Wide value = static_cast<Wide>(start) + static_cast<Wide>(i) * static_cast<Wide>(step);
      answer.points[i] = static_cast<Real>(
          std::clamp<Wide>(value, std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()));
      continue;
    }
    const Real value = static_cast<double>(start) + static_cast<Real>(i) * static_cast<double>(step);
    const bool is_exact = static_cast<Real>(static_cast<double>(value)) == value;
    answer.points[i] = {value, is_exact ? 0 : 0x1p-52L * (std::fabs(start) + std::fabs(value))};
  }
  return answer;
}

std::int64_t ramp(std::int64_t at, std::int64_t extent) {
  return extent == 1 ? 0 : (510 * at + extent - 1) / (2 * (extent - 1));
}

Answer generate_gradient(const Call& call) {
  Answer answer(call);
  const double phase = call.number("phase", 0);
  const Real blue = 255 * static_cast<Real>(phase - std::floor(phase));
  for_each_point(call.shape, [&](std::size_t i, const std::vector<std::int64_t>& point) {
    switch (point[2]) {
      case 0:
        answer.points[i] = static_cast<Real>(ramp(point[1], call.shape[1]));
        break;
      case 1:
        answer.points[i] = static_cast<Real>(ramp(point[0], call.shape[0]));
        break;
      case 2:
        answer.points[i] = {blue, 1e-3L};
        break;
      default:
        answer.points[i] = 255;
    }
  });
  return answer;
}

}  // namespace

void add_generator_oracles(Oracles& to) {
  to["arange"] = arange;
  to["uniform"] = uniform;
  to["randn"] = randn;
  to["generate_gradient"] = generate_gradient;
}

}  // namespace tessera::conformance
