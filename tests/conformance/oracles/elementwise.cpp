#include "conformance/oracles/oracles.hpp"

#include <algorithm>
#include <numbers>

namespace tessera::conformance {

namespace {

// Point by point in the inputs' type: f gets the elements, of one type.
template <class F>
Oracle unary(F f, bool zeros_have_signs = true) {
  return [f, zeros_have_signs](const Call& call) {
    Answer answer(call);
    answer.zeros_have_signs = zeros_have_signs;
    const Tensor& x = call.inputs[0];
    with_type(x.dtype, [&]<class T>() {
      for (std::size_t i = 0; i < x.size(); ++i) answer.points[i] = f(call, x.values<T>()[i]);
    });
    return answer;
  };
}

template <class F>
Oracle binary(F f, bool zeros_have_signs = true) {
  return [f, zeros_have_signs](const Call& call) {
    Answer answer(call);
    answer.zeros_have_signs = zeros_have_signs;
    const Tensor& a = call.inputs[0];
    const Tensor& b = call.inputs[1];
    with_type(call.dtype, [&]<class T>() {
      for_each_point(call.shape, [&](std::size_t i, const auto& point) {
        answer.points[i] =
            f(a.values<T>()[broadcast_index(a.shape, point)], b.values<T>()[broadcast_index(b.shape, point)]);
      });
    });
    return answer;
  };
}

template <class T>
inline constexpr bool is_real = std::is_floating_point_v<T>;

template <class T>
T quotient(T a, T b) {
  if constexpr (is_real<T>) {
    return a / b;
  } else {
    return b == 0 ? T{0} : wrapped<T>(Wide{a} / Wide{b});
  }
}

// By squaring, modulo 2^64, of which the narrower types keep the low bits.
template <class T>
T integer_power(T x, T n) {
  if (n < 0) {
    if (x == 1) return 1;
    if (Wide{x} == -1) return n % 2 == 0 ? T{1} : x;
    return 0;
  }
  auto base = static_cast<std::uint64_t>(x);
  std::uint64_t result = 1;
  for (auto left = static_cast<std::uint64_t>(n); left > 0; left /= 2) {
    if (left % 2 == 1) result *= base;
    base *= base;
  }
  return wrapped<T>(Wide{result});
}

Approx within_ulps(DType dtype, Real value, Real ulps) {
  if (!std::isfinite(value)) return value;
  return {value, ulps * epsilon(dtype) * std::fabs(value) + least_normal(dtype)};
}

template <class T>
Approx power(T a, T b) {
  if constexpr (is_real<T>) {
    return within_ulps(dtype_of<T>, std::pow(static_cast<Real>(a), static_cast<Real>(b)), 4);
  } else {
    return static_cast<Real>(integer_power(a, b));
  }
}

template <class T>
Approx greater_or_nan(T a, T b) {
  if (a != a || b != b) return std::numeric_limits<Real>::quiet_NaN();
  return static_cast<Real>(std::max(a, b));
}

template <class T>
Approx less_or_nan(T a, T b) {
  if (a != a || b != b) return std::numeric_limits<Real>::quiet_NaN();
  return static_cast<Real>(std::min(a, b));
}

// x * factor. Integers: exact if the factor is whole, else in f64.
template <class T>
Approx scaled(T x, Real factor) {
  if constexpr (is_real<T>) {
    return static_cast<Real>(x * static_cast<T>(factor));
  } else {
    if (std::isnan(factor)) return 0;
    if (std::isinf(factor)) return x == 0 ? Real{0} : static_cast<Real>(x) * factor;
    const Real product = static_cast<Real>(x) * factor;
    if (std::trunc(factor) == factor && std::fabs(factor) < 0x1p63L) {
      return static_cast<Real>(std::clamp<Wide>(Wide{x} * static_cast<Wide>(factor), Wide{INT64_MIN}, Wide{INT64_MAX}));
    }
    const bool is_exact = static_cast<Real>(static_cast<double>(x) * static_cast<double>(factor)) == product;
    return {product, is_exact ? 0 : std::fabs(product) * 0x1p-52L};
  }
}

template <class T>
Approx relu(const Call& call, T x) {
  const Real slope = call.exact_number("slope", 0);
  if (!(x < 0)) return static_cast<Real>(x);
  return slope == 0 ? Approx(0) : scaled(x, slope);
}

template <class T>
Approx clamped(const Call& call, T x) {
  const double least = call.number("min", 0);
  const double most = call.number("max", 1);
  if constexpr (is_real<T>) {
    if (std::isnan(x)) return static_cast<Real>(x);
    return static_cast<Real>(std::min(std::max(x, static_cast<T>(least)), static_cast<T>(most)));
  } else {
    return static_cast<Real>(std::min(std::max(x, nearest<T>(std::ceil(least))), nearest<T>(std::floor(most))));
  }
}

// A function of real numbers, to within some ulps of the type it is computed in: integers in f64.
template <class F>
Oracle function(F f) {
  return unary([f](const Call&, auto x) {
    const DType dtype = dtype_of<decltype(x)>;
    const Approx exact = f(static_cast<Real>(x), dtype);
    const Approx rounded = within_ulps(dtype, exact.value, 4);
    return Approx(exact.value, rounded.slack + exact.slack);
  });
}

// What the factor that goes to 0 loses for great negative x is relative to x, and infinity times 0 is anybody's guess.
Approx times(Real x, Real factor, DType dtype) {
  if (std::isinf(x) && x < 0) return {0, infinity};
  if (!std::isfinite(x)) return x * factor;
  return {x * factor, 2 * epsilon(dtype) * std::fabs(x)};
}

void add_functions(Oracles& to) {
  to["exp"] = function([](Real x, DType) { return Approx(std::exp(x)); });
  to["log"] = function([](Real x, DType) { return Approx(std::log(x)); });
  to["sqrt"] = function([](Real x, DType) { return Approx(std::sqrt(x)); });
  to["tanh"] = function([](Real x, DType) { return Approx(std::tanh(x)); });
  to["sigmoid"] = function([](Real x, DType) { return Approx(1 / (1 + std::exp(-x))); });
  to["gelu"] = function(
      [](Real x, DType dtype) { return times(x, (1 + std::erf(x / std::numbers::sqrt2_v<Real>)) / 2, dtype); });
  to["silu"] = function([](Real x, DType dtype) {
    if (x < 0 && std::isinf(x)) return Approx(0, infinity);
    return Approx(std::isfinite(x) ? x / (1 + std::exp(-x)) : x, std::isfinite(x) ? 2 * least_normal(dtype) : 0);
  });
}

// Towards zero, saturated; to a float the nearest.
Answer cast(const Call& call) {
  Answer answer(call);
  const Tensor& x = call.inputs[0];
  for (std::size_t i = 0; i < x.size(); ++i) answer.points[i] = is_float(call.dtype) ? x.at(i) : std::trunc(x.at(i));
  return answer;
}

Answer fill(const Call& call) {
  Answer answer(call);
  std::ranges::fill(answer.points, Approx(call.exact_number("value", 0)));
  return answer;
}

template <class T>
T negated(T x) {
  if constexpr (is_real<T>) {
    return -x;
  } else {
    return wrapped<T>(-Wide{x});
  }
}

template <class T>
T absolute(T x) {
  if constexpr (is_real<T>) {
    return std::fabs(x);
  } else {
    return x < 0 ? negated(x) : x;
  }
}

template <class T, class F>
Approx arithmetic(T a, T b, F f) {
  if constexpr (is_real<T>) {
    return static_cast<Real>(static_cast<T>(f(a, b)));
  } else {
    return static_cast<Real>(wrapped<T>(f(Wide{a}, Wide{b})));
  }
}

}  // namespace

void add_elementwise_oracles(Oracles& to) {
  to["elementwise_add"] = binary([](auto a, auto b) { return arithmetic(a, b, std::plus<>()); });
  to["elementwise_sub"] = binary([](auto a, auto b) { return arithmetic(a, b, std::minus<>()); });
  to["elementwise_mul"] = binary([](auto a, auto b) { return arithmetic(a, b, std::multiplies<>()); });
  to["elementwise_div"] = binary([](auto a, auto b) { return Approx(static_cast<Real>(quotient(a, b))); });
  to["elementwise_min"] = binary([](auto a, auto b) { return less_or_nan(a, b); }, false);
  to["elementwise_max"] = binary([](auto a, auto b) { return greater_or_nan(a, b); }, false);
  to["pow"] = binary([](auto a, auto b) { return power(a, b); });
  to["relu"] = unary([](const Call& call, auto x) { return relu(call, x); });
  to["scale"] = unary([](const Call& call, auto x) { return scaled(x, call.exact_number("factor", 1)); });
  to["clamp"] = unary([](const Call& call, auto x) { return clamped(call, x); }, false);
  to["abs"] = unary([](const Call&, auto x) { return Approx(static_cast<Real>(absolute(x))); });
  to["neg"] = unary([](const Call&, auto x) { return Approx(static_cast<Real>(negated(x))); });
  to["copy"] = unary([](const Call&, auto x) { return Approx(static_cast<Real>(x)); });
  to["cast"] = cast;
  to["fill"] = fill;
  add_functions(to);
}

}  // namespace tessera::conformance
