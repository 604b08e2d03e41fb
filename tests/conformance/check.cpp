#include "conformance/check.hpp"

#include <algorithm>
#include <cmath>

namespace tessera::conformance {

namespace {

template <class T>
bool is_right(const Approx& expected, T got, bool zeros_have_signs) {
  if (std::isinf(expected.slack)) return true;
  if (std::isnan(expected.value) && std::is_floating_point_v<T>) return got != got;
  if (got != got) return false;
  if (got < nearest<T>(expected.value - expected.slack) || got > nearest<T>(expected.value + expected.slack))
    return false;
  if constexpr (std::is_floating_point_v<T>) {
    if (zeros_have_signs && expected.slack == 0 && expected.value == 0) {
      return std::signbit(got) == std::signbit(expected.value);
    }
  }
  return true;
}

}  // namespace

Check check(const Answer& expected, const Tensor& got) {
  Check result;
  with_type(got.dtype, [&]<class T>() {
    const std::span<const T> values = got.values<T>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Approx& point = expected.points[i];
      if (!is_right(point, values[i], expected.zeros_have_signs)) {
        if (!result.first) result.first = {i, point, static_cast<Real>(values[i])};
        ++result.failures;
      } else if (std::isfinite(point.slack) && std::isfinite(point.value) && point.slack > 0) {
        const Real target = std::is_integral_v<T> ? static_cast<Real>(nearest<T>(point.value)) : point.value;
        const Real error = std::fabs(static_cast<Real>(values[i]) - target);
        if (!std::isfinite(error)) continue;
        result.largest_error = std::max(result.largest_error, error);
        if (!std::is_integral_v<T>)
          result.largest_share =
              std::max(result.largest_share, error / (point.slack + epsilon(got.dtype) * std::fabs(point.value)));
      }
    }
  });
  return result;
}

}  // namespace tessera::conformance
