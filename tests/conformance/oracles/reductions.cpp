#include "conformance/oracles/oracles.hpp"

#include <algorithm>

namespace tessera::conformance {

namespace {

const Real nan = std::numeric_limits<Real>::quiet_NaN();

// The rows of an array along an axis: their elements, and where each stands.
struct Rows {
  std::vector<std::vector<std::size_t>> places;

  Rows(const Shape& shape, int axis) {
    std::int64_t outer = 1;
    std::int64_t inner = 1;
    for (int i = 0; i < axis; ++i) outer *= shape[i];
    for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
    for (std::int64_t o = 0; o < outer; ++o) {
      for (std::int64_t i = 0; i < inner; ++i) {
        std::vector<std::size_t>& row = places.emplace_back();
        for (std::int64_t k = 0; k < shape[axis]; ++k) {
          row.push_back(static_cast<std::size_t>((o * shape[axis] + k) * inner + i));
        }
      }
    }
  }
  // One row of all elements.
  explicit Rows(std::size_t elements) : places(1) {
    for (std::size_t i = 0; i < elements; ++i) places[0].push_back(i);
  }
};

Rows rows_of(const Call& call) {
  const Shape& shape = call.inputs[0].shape;
  const bool is_whole = !call.params.find("axis") && call.shape.rank() == 0 && shape.rank() != 1;
  return is_whole ? Rows(call.inputs[0].size()) : Rows(shape, call.axis("axis", shape.rank()));
}

template <class F>
Oracle reduction(F f, bool zeros_have_signs = false) {
  return [f, zeros_have_signs](const Call& call) {
    Answer answer(call);
    answer.zeros_have_signs = zeros_have_signs;
    const std::vector<Real> x = call.inputs[0].numbers();
    const Rows rows = rows_of(call);
    for (std::size_t i = 0; i < rows.places.size(); ++i) {
      std::vector<Real> row;
      for (const std::size_t place : rows.places[i]) row.push_back(x[place]);
      answer.points[i] = f(call, row);
    }
    return answer;
  };
}

Wide integer_sum(const std::vector<Real>& row) {
  Wide sum = 0;
  for (const Real x : row) sum += static_cast<Wide>(x);
  return sum;
}

Sum real_sum(const std::vector<Real>& row) {
  Sum sum;
  for (const Real x : row) sum.add(x);
  return sum;
}

Approx sum(const Call& call, const std::vector<Real>& row) {
  if (is_float(call.dtype)) return real_sum(row).in(call.dtype);
  return with_type(call.dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T>) return Approx(static_cast<Real>(wrapped<T>(integer_sum(row))));
    return Approx();
  });
}

// To the nearest, halves away from zero.
Wide rounded_quotient(Wide a, Wide b) {
  const Wide size = (2 * (a < 0 ? -a : a) + b) / (2 * b);
  return a < 0 ? -size : size;
}

Approx mean(const Call& call, const std::vector<Real>& row) {
  const auto count = static_cast<Real>(row.size());
  if (row.empty()) return is_float(call.dtype) ? nan : Real{0};
  if (is_float(call.inputs[0].dtype)) {
    const Approx total = real_sum(row).in(call.dtype);
    const Real value = total.value / count;
    if (!std::isfinite(value)) return {value, total.slack};
    return {value, total.slack / count + epsilon(call.dtype) * std::fabs(value)};
  }
  const Wide total = integer_sum(row);
  if (!is_float(call.dtype)) return static_cast<Real>(rounded_quotient(total, static_cast<Wide>(row.size())));
  const Real value = static_cast<Real>(total) / count;
  return {value, 3 * epsilon(call.dtype) * std::fabs(value)};
}

bool has_nan(const std::vector<Real>& row) {
  return std::ranges::any_of(row, [](Real x) { return std::isnan(x); });
}

Approx maximum(const Call&, const std::vector<Real>& row) { return has_nan(row) ? nan : std::ranges::max(row); }
Approx minimum(const Call&, const std::vector<Real>& row) { return has_nan(row) ? nan : std::ranges::min(row); }

Approx argmax(const Call&, const std::vector<Real>& row) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < row.size(); ++i) {
    if (std::isnan(row[best])) break;
    if (std::isnan(row[i]) || row[i] > row[best]) best = i;
  }
  return static_cast<Real>(best);
}

// A difference from the maximum of d is off by d * epsilon, and so is its exp, relatively.
Answer softmax(const Call& call) {
  Answer answer(call);
  const std::vector<Real> x = call.inputs[0].numbers();
  const Real eps = epsilon(call.dtype);
  for (const std::vector<std::size_t>& row : Rows(call.shape, call.axis("axis", call.shape.rank())).places) {
    Real top = -infinity;
    for (const std::size_t i : row) top = std::isnan(x[i]) ? nan : std::max(top, x[i]);
    Real total = 0;
    for (const std::size_t i : row) total += std::exp(x[i] - top);
    for (const std::size_t i : row) {
      const Real value = std::exp(x[i] - top) / total;
      const Real steps = 8 + static_cast<Real>(row.size()) + std::fabs(x[i] - top);
      answer.points[i] = value > 0 ? Approx(value, value * eps * steps + least_normal(call.dtype)) : Approx(value);
    }
  }
  return answer;
}

// The error of a two-pass computation: that of the mean moves every difference, those move the variance.
Answer layer_norm(const Call& call) {
  Answer answer(call);
  answer.zeros_have_signs = false;
  const std::vector<Real> x = call.inputs[0].numbers();
  const Real eps = epsilon(call.dtype);
  const int last = call.shape.rank() - 1;
  for (const std::vector<std::size_t>& row : Rows(call.shape, last).places) {
    const auto count = static_cast<Real>(row.size());
    Sum sum;
    for (const std::size_t i : row) sum.add(x[i]);
    const Real average = sum.value() / count;
    Real squares = 0;
    Real distances = 0;
    for (const std::size_t i : row) {
      squares += (x[i] - average) * (x[i] - average);
      distances += std::fabs(x[i] - average);
    }
    const Real variance = squares / count + call.number("epsilon", 1e-5);
    const Real shift = (count + 1) * eps * sum.magnitude() / count;
    const Real variance_error = 2 * shift * distances / count + shift * shift + (count + 2) * eps * variance;
    for (std::size_t k = 0; k < row.size(); ++k) {
      const Real gamma = call.inputs.size() > 1 ? call.inputs[1].at(k) : 1;
      const Real beta = call.inputs.size() > 2 ? call.inputs[2].at(k) : 0;
      const Real normal = (x[row[k]] - average) / std::sqrt(variance);
      const Real value = normal * gamma + beta;
      const Real error = shift / std::sqrt(variance) + std::fabs(normal) * (variance_error / variance + 8 * eps);
      const Real slack = std::fabs(gamma) * error + 2 * eps * (std::fabs(value) + std::fabs(beta));
      const bool is_too_great = std::isfinite(squares) && squares > greatest(call.dtype);
      answer.points[row[k]] = {value, is_too_great ? infinity : std::isfinite(value) ? slack : 0};
    }
  }
  return answer;
}

}  // namespace

void add_reduction_oracles(Oracles& to) {
  to["reduce_sum"] = reduction(sum);
  to["reduce_mean"] = reduction(mean);
  to["reduce_max"] = reduction(maximum);
  to["reduce_min"] = reduction(minimum);
  to["argmax"] = reduction(argmax);
  to["softmax"] = softmax;
  to["layer_norm"] = layer_norm;
}

}  // namespace tessera::conformance
