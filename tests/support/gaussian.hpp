#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

// Weights of Gaussian filters, for oracles: written without a look at the library's.
namespace tessera::test {

// exp(-i^2 / (2 sigma^2)), i = -r … r, of which the sum is 1.
inline std::vector<double> gaussian(std::int64_t radius, double sigma) {
  std::vector<double> weights;
  double sum = 0;
  for (std::int64_t i = -radius; i <= radius; ++i) {
    weights.push_back(std::exp(-static_cast<double>(i * i) / (2 * sigma * sigma)));
    sum += weights.back();
  }
  for (double& weight : weights) weight /= sum;
  return weights;
}

// In 256ths that sum up to 256: from the outside inwards, what rounding took from one weight is given to the next; the
// middle one gets what is left.
inline std::vector<std::int64_t> fixed_gaussian(std::int64_t radius, double sigma) {
  const std::vector<double> weights = gaussian(radius, sigma);
  std::vector<std::int64_t> fixed(weights.size());
  double error = 0;
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(radius); ++i) {
    const double wanted = weights[i] * 256 + error;
    fixed[i] = std::lrint(wanted);
    error = wanted - static_cast<double>(fixed[i]);
    fixed[weights.size() - 1 - i] = fixed[i];
    sum += 2 * fixed[i];
  }
  fixed[static_cast<std::size_t>(radius)] = 256 - sum;
  return fixed;
}

}  // namespace tessera::test
