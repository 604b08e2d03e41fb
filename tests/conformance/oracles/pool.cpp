#include "conformance/oracles/oracles.hpp"

#include <algorithm>

namespace tessera::conformance {

namespace {

// What of a window lies inside of the image; f turns it and the window's size into the result.
template <class F>
Answer pooled(const Call& call, F f) {
  Answer answer(call);
  answer.zeros_have_signs = false;
  const Shape& shape = call.inputs[0].shape;
  const std::vector<Real> x = call.inputs[0].numbers();
  const auto kernel = call.two("kernel", {2, 2});
  const auto stride = call.two("stride", kernel);
  const auto padding = call.two("padding", {0, 0});
  for_each_point(call.shape, [&](std::size_t i, const std::vector<std::int64_t>& point) {
    std::vector<Real> window;
    for (std::int64_t ky = 0; ky < kernel.first; ++ky) {
      for (std::int64_t kx = 0; kx < kernel.second; ++kx) {
        const std::int64_t y = point[2] * stride.first - padding.first + ky;
        const std::int64_t column = point[3] * stride.second - padding.second + kx;
        if (y < 0 || y >= shape[2] || column < 0 || column >= shape[3]) continue;
        const std::int64_t from = ((point[0] * shape[1] + point[1]) * shape[2] + y) * shape[3] + column;
        window.push_back(x[static_cast<std::size_t>(from)]);
      }
    }
    answer.points[i] = f(window, static_cast<Real>(kernel.first * kernel.second));
  });
  return answer;
}

Answer max_pool2d(const Call& call) {
  return pooled(call, [](const std::vector<Real>& window, Real) {
    const bool has_nan = std::ranges::any_of(window, [](Real x) { return std::isnan(x); });
    return Approx(has_nan ? std::numeric_limits<Real>::quiet_NaN() : std::ranges::max(window));
  });
}

Answer avg_pool2d(const Call& call) {
  const Value* include = call.params.find("count_include_pad");
  const bool counts_padding = include && include->boolean();
  return pooled(call, [&](const std::vector<Real>& window, Real size) {
    Sum sum;
    for (const Real x : window) sum.add(x);
    const Real count = counts_padding ? size : static_cast<Real>(window.size());
    if (!is_float(call.dtype)) {
      const double mean = static_cast<double>(sum.value()) / static_cast<double>(count);
      // In f64 the order of a sum shows when its terms are beyond 2^53.
      const Real slack = sum.in(f64).slack;
      return Approx(mean, call.dtype == s64 && slack > 0.01 ? slack : 0);
    }
    const Approx total = sum.in(call.dtype);
    const Real value = total.value / count;
    const Real rounding = std::isfinite(value) ? 2 * epsilon(call.dtype) * std::fabs(value) : 0;
    // A factor 1 / count instead of a quotient is fine.
    return Approx(value, total.slack + rounding);
  });
}

}  // namespace

void add_pool_oracles(Oracles& to) {
  to["max_pool2d"] = max_pool2d;
  to["avg_pool2d"] = avg_pool2d;
}

}  // namespace tessera::conformance
