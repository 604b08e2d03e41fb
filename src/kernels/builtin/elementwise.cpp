// Element-wise kernels: each output element depends only on the input elements at the same index.
#include <tessera/tile.hpp>

#include "core/text.hpp"
#include "kernels/builtin/common.hpp"
#include "kernels/kernel.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

namespace tessera::kernels {

namespace {

using core::text;
using tile::Tile;

using Unary = Tile (*)(const Tile& x);
using Binary = Tile (*)(const Tile& a, const Tile& b);

Tile input_like_output(int number) { return tile::load_like(tile::Input(number), tile::Output()); }

// All inputs must have the output's type.
Lowering lower_one_type(const Call& call, std::function<void()> body) {
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (call.inputs[i].dtype != call.output.dtype) check_same_as_output(call, i);
  }
  return pointwise_lowering(call, std::move(body));
}

Kernel binary(std::string name, std::vector<std::string> nicknames, std::string documentation, Binary function) {
  const auto body = [function] { tile::Output().store(function(input_like_output(0), input_like_output(1))); };
  return {.name = std::move(name),
          .inputs = {"a", "b"},
          .dtypes = to_vector(all_dtypes),
          .documentation = std::move(documentation),
          .nicknames = std::move(nicknames),
          .lower = [body](const Call& call) { return lower_one_type(call, body); }};
}

Kernel multiplication() {
  Kernel kernel = binary("elementwise_mul", {"mul"}, "a * b; integers wrap around",
                         [](const Tile& a, const Tile& b) { return a * b; });
  kernel.aliases = {"multiply"};
  return kernel;
}

Kernel unary(std::string name, std::string documentation, Unary function) {
  const auto body = [function] { tile::Output().store(function(input_like_output(0))); };
  return {.name = std::move(name),
          .inputs = {"x"},
          .dtypes = to_vector(all_dtypes),
          .documentation = std::move(documentation),
          .lower = [body](const Call& call) { return lower_one_type(call, body); }};
}

// A real function: integers are computed in f64.
template <Unary function>
Tile through_f64(const Tile& x) {
  const DType dtype = tile::Output().dtype();
  return is_float(dtype) ? function(x) : tile::round_cast(function(tile::cast(x, f64)), dtype);
}

template <Unary function>
Kernel real_unary(std::string name, const std::string& formula) {
  return unary(std::move(name), formula + "; integers in f64, rounded to the nearest and saturated",
               through_f64<function>);
}

Tile sigmoid(const Tile& x) { return 1 / (1 + exp(-x)); }
Tile silu(const Tile& x) { return x * sigmoid(x); }
Tile gelu(const Tile& x) { return 0.5 * x * (1 + erf(x * (1 / std::numbers::sqrt2))); }

Tile absolute(const Tile& x) {
  const DType dtype = tile::Output().dtype();
  return dtype == u8 || dtype == u32 ? x : abs(x);
}

struct Limits {
  std::int64_t least;
  std::int64_t greatest;
};

template <class T>
constexpr Limits limits = {std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};

// The limits of an integer type.
Limits limits_of(DType dtype) {
  switch (dtype) {
    case DType::s32:
      return limits<std::int32_t>;
    case DType::u32:
      return limits<std::uint32_t>;
    case DType::u8:
      return limits<std::uint8_t>;
    default:
      return limits<std::int64_t>;
  }
}

std::int64_t saturated(double whole, const Limits& limits) {
  if (std::isnan(whole)) return 0;
  // The largest s64 is not representable as a double: it compares as 2^63, which must not be converted.
  if (whole >= static_cast<double>(limits.greatest)) return limits.greatest;
  if (whole <= static_cast<double>(limits.least)) return limits.least;
  return static_cast<std::int64_t>(whole);
}

// A parameter converted to an integer type: rounded by `to_whole` (std::round, ceil or floor), then saturated.
std::int64_t to_integer(const Argument& argument, DType dtype, double (*to_whole)(double)) {
  const Limits limits = limits_of(dtype);
  if (argument.is_integer) return std::clamp(argument.integer, limits.least, limits.greatest);
  return saturated(to_whole(argument.number), limits);
}

std::int64_t wrapped(std::int64_t value, DType dtype) {
  switch (dtype) {
    case DType::s32:
      return static_cast<std::int32_t>(value);
    case DType::u32:
      return static_cast<std::uint32_t>(value);
    case DType::u8:
      return static_cast<std::uint8_t>(value);
    default:
      return value;
  }
}

// The scalars of scaled_whole(), in its order: x * factor, exact and saturated. The x for which the product overflows
// are known beforehand, so no wider type is needed.
std::vector<Lowering::Scalar> whole_factor(DType dtype, std::int64_t factor) {
  const auto [least, greatest] = limits_of(dtype);
  std::int64_t first = least, last = greatest;  // the range of x whose product fits
  if (factor > 0) {
    first = least / factor;
    last = greatest / factor;
  } else if (factor < 0) {
    first = std::max(greatest / factor, least);
    last = factor == -1 && least < 0 ? greatest : least / factor;
  }
  return {whole_scalar("factor", dtype, wrapped(factor, dtype)), whole_scalar("first", dtype, first),
          whole_scalar("last", dtype, last), whole_scalar("below", dtype, factor < 0 ? greatest : least),
          whole_scalar("above", dtype, factor < 0 ? least : greatest)};
}

Tile scaled_whole(const Tile& x) {
  const auto scalar = tile::detail::scalar;
  return select(x < scalar(1), scalar(3), select(x > scalar(2), scalar(4), x * scalar(0)));
}

Tile scaled_real(const Tile& x) {
  return tile::round_cast(tile::cast(x, f64) * tile::detail::scalar(0), tile::Output().dtype());
}

// The lowering of a kernel that multiplies by a parameter: `body` takes x and the product.
Lowering lower_with_factor(const Call& call, std::string_view param, Tile (*body)(const Tile& x, const Tile& scaled)) {
  const Argument& factor = call[param];
  const DType dtype = call.output.dtype;
  check_same_as_output(call, 0);
  const auto scaled_by = [&](Unary times) {
    return pointwise_lowering(call, [body, times] {
      const Tile x = input_like_output(0);
      tile::Output().store(body(x, times(x)));
    });
  };
  if (is_float(dtype)) {
    Lowering made = scaled_by([](const Tile& x) { return x * tile::detail::scalar(0); });
    made.scalars = {{param, dtype, factor}};
    made.only_scalars_vary = true;
    return made;
  }
  Lowering made = scaled_by(factor.is_integer ? scaled_whole : scaled_real);
  made.variant = factor.is_integer ? "whole" : "real";
  made.scalars =
      factor.is_integer ? whole_factor(dtype, factor.integer) : std::vector<Lowering::Scalar>{{"factor", f64, factor}};
  return made;
}

// With a slope of 0 the result is 0, even where the product would be NaN or -0.
Tile relu_body(const Tile& x, const Tile& scaled) {
  const Tile slope = tile::detail::scalar(0);
  return select(x < 0, is_float(tile::Output().dtype()) ? select(slope == 0, 0, scaled) : scaled, x);
}

Kernel relu() {
  return {.name = "relu",
          .inputs = {"x"},
          .params = {{.name = "slope", .default_value = 0, .documentation = "the factor below 0"}},
          .dtypes = to_vector(all_dtypes),
          .documentation = "x, or slope * x below 0; rounded to the nearest and saturated for integers",
          .lower = [](const Call& call) { return lower_with_factor(call, "slope", relu_body); }};
}

Kernel scale() {
  return {.name = "scale",
          .inputs = {"x"},
          .params = {{.name = "factor", .default_value = 1, .documentation = "multiplies every element"}},
          .dtypes = to_vector(all_dtypes),
          .documentation = "x * factor; rounded to the nearest and saturated for integers",
          .aliases = {"scalar_mul"},
          .lower = [](const Call& call) {
            return lower_with_factor(call, "factor", [](const Tile&, const Tile& scaled) { return scaled; });
          }};
}

Lowering lower_clamp(const Call& call) {
  check_same_as_output(call, 0);
  const Argument &min = call["min"], &max = call["max"];
  if (!(min.number <= max.number) || (min.is_integer && max.is_integer && min.integer > max.integer)) {
    fail(call, Errc::invalid_parameter,
         text("parameter 'min' must not be above parameter 'max', got ", to_string(*min.value), " and ",
              to_string(*max.value)));
  }
  const DType dtype = call.output.dtype;
  Lowering lowering = pointwise_lowering(call, [] {
    const Tile x = input_like_output(0);
    tile::Output().store(tile::min(tile::max(x, tile::detail::scalar(0)), tile::detail::scalar(1)));
  });
  if (is_float(dtype)) {
    lowering.scalars = {{"min", dtype, min}, {"max", dtype, max}};
  } else {
    lowering.scalars = {whole_scalar("min", dtype, to_integer(min, dtype, std::ceil)),
                        whole_scalar("max", dtype, to_integer(max, dtype, std::floor))};
  }
  return lowering;
}

Kernel clamp() {
  return {.name = "clamp",
          .inputs = {"x"},
          .params = {{.name = "min", .default_value = 0, .documentation = "the lower bound"},
                     {.name = "max", .default_value = 1, .documentation = "the upper bound"}},
          .dtypes = to_vector(all_dtypes),
          .documentation = "min(max(x, min), max); NaN stays NaN; for integers the bounds are rounded inward",
          .nicknames = {"clip"},
          .lower = lower_clamp};
}

Kernel cast() {
  const auto body = [] { tile::Output().store(tile::cast(input_like_output(0), tile::Output().dtype())); };
  return {.name = "cast",
          .inputs = {"x"},
          .dtypes = to_vector(all_dtypes),
          .documentation = "x converted to the output's type; to integers truncated and saturated, NaN becomes 0",
          .lower = [body](const Call& call) { return pointwise_lowering(call, body); }};
}

Lowering lower_fill(const Call& call) {
  const DType dtype = call.output.dtype;
  const Argument& value = call["value"];
  Lowering lowering = pointwise_lowering(call, [] { tile::Output().store(tile::detail::scalar(0)); });
  if (is_float(dtype)) {
    lowering.scalars = {{"value", dtype, value}};
    lowering.only_scalars_vary = true;
  } else {
    lowering.scalars = {whole_scalar("value", dtype, to_integer(value, dtype, std::round))};
  }
  return lowering;
}

Kernel fill() {
  return {.name = "fill",
          .params = {{.name = "value", .default_value = 0, .documentation = "the value of every element"}},
          .dtypes = to_vector(all_dtypes),
          .documentation = "value; rounded to the nearest and saturated for integers",
          .lower = lower_fill};
}

}  // namespace

std::vector<Kernel> elementwise_kernels() {
  return {
      binary("elementwise_add", {"add"}, "a + b; integers wrap around",
             [](const Tile& a, const Tile& b) { return a + b; }),
      binary("elementwise_sub", {"sub", "subtract"}, "a - b; integers wrap around",
             [](const Tile& a, const Tile& b) { return a - b; }),
      multiplication(),
      binary("elementwise_div", {"div", "divide"}, "a / b; integers round towards zero, and are 0 where b is 0",
             [](const Tile& a, const Tile& b) { return a / b; }),
      binary("elementwise_min", {"min", "minimum"}, "the smaller of a and b; NaN if either is NaN", tile::min),
      binary("elementwise_max", {"max", "maximum"}, "the larger of a and b; NaN if either is NaN", tile::max),
      binary("pow", {"power"},
             "a to the power of b; integers wrap around; for b < 0 they are 1 / a^-b, rounded towards zero", tile::pow),
      relu(),
      scale(),
      real_unary<sigmoid>("sigmoid", "1 / (1 + exp(-x))"),
      real_unary<tile::tanh>("tanh", "the hyperbolic tangent of x"),
      real_unary<gelu>("gelu", "x/2 * (1 + erf(x / sqrt(2)))"),
      real_unary<silu>("silu", "x * sigmoid(x)"),
      real_unary<tile::exp>("exp", "e to the power of x"),
      real_unary<tile::log>("log", "the natural logarithm of x"),
      real_unary<tile::sqrt>("sqrt", "the square root of x"),
      unary("abs", "the magnitude of x; integers wrap around", absolute),
      unary("neg", "-x; integers wrap around", [](const Tile& x) { return -x; }),
      clamp(),
      cast(),
      fill(),
      unary("copy", "x", [](const Tile& x) { return x; }),
  };
}

}  // namespace tessera::kernels
