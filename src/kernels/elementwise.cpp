#include <tessera/tile.hpp>

#include "kernels/kernel.hpp"

#include <limits>
#include <utility>

namespace tessera::kernels {

namespace {

using tile::Input;
using tile::Output;
using tile::Tile;

std::vector<DType> every_dtype() { return {std::begin(all_dtypes), std::end(all_dtypes)}; }

// Of one type all of them, broadcast to the output.
Plan uniform_plan(const Call& call, std::function<void()> body) {
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (call.inputs[i].dtype != call.output.dtype) check_same_as_output(call, i);
  }
  return pointwise_plan(call, std::move(body));
}

Kernel binary(std::string name, std::vector<std::string> aliases, std::string documentation,
              Tile (*function)(const Tile&, const Tile&)) {
  Kernel kernel;
  kernel.name = std::move(name);
  kernel.inputs = {"a", "b"};
  kernel.dtypes = every_dtype();
  kernel.documentation = std::move(documentation);
  kernel.aliases = std::move(aliases);
  kernel.plan = [function](const Call& call) {
    return uniform_plan(call, [function] {
      const Output z;
      z.store(function(load_like(Input(0), z), load_like(Input(1), z)));
    });
  };
  return kernel;
}

// x * factor, both s64, saturated.
Tile saturated_product(const Tile& x, const Tile& factor) {
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t greatest = std::numeric_limits<std::int64_t>::max();
  const Tile product = x * factor;
  // Division undoes a product that did not wrap around, but for the least by -1, which wraps around itself.
  const Tile is_least_negated = ((x == -1) & (factor == least)) | ((x == least) & (factor == -1));
  const Tile is_over = ((x != 0) & (product / x != factor)) | is_least_negated;
  const Tile end = select((x < 0) != (factor < 0), tile::constant(least), tile::constant(greatest));
  return select(is_over, end, product);
}

// A plan with the number `param` as its scalar 0: of the output's type for floats, else s64 if it is a whole number,
// and f64 if it is not.
Plan with_factor(Plan plan, const Call& call, std::string_view param) {
  const Argument& argument = call[param];
  DType dtype = call.output.dtype;
  plan.only_scalars_vary = is_float(dtype);
  if (!is_float(dtype)) {
    plan.variant = argument.is_integer ? "whole" : "fraction";
    dtype = argument.is_integer ? s64 : f64;
  }
  plan.scalars.push_back({param, dtype, argument});
  return plan;
}

// x * scalar 0, rounded to the nearest and saturated for integers.
Tile scaled(const Tile& x, DType dtype, bool is_whole) {
  const Tile factor = tile::detail::scalar(0);
  if (is_float(dtype)) return x * factor;
  if (is_whole) return cast(saturated_product(cast(x, s64), factor), dtype);
  return round_cast(cast(x, f64) * factor, dtype);
}

Plan scale_plan(const Call& call) {
  return with_factor(uniform_plan(call,
                                  [dtype = call.output.dtype, is_whole = call["factor"].is_integer] {
                                    const Output z;
                                    z.store(scaled(load_like(Input(0), z), dtype, is_whole));
                                  }),
                     call, "factor");
}

Plan relu_plan(const Call& call) {
  return with_factor(uniform_plan(call,
                                  [dtype = call.output.dtype, is_whole = call["slope"].is_integer] {
                                    const Output z;
                                    const Tile x = load_like(Input(0), z), slope = tile::detail::scalar(0);
                                    // Not as a product: that of minus infinity and 0 is NaN.
                                    const Tile below = select(slope == 0, full_like(z, 0), scaled(x, dtype, is_whole));
                                    z.store(select(x < 0, below, x));
                                  }),
                     call, "slope");
}

Plan fill_plan(const Call& call) {
  return with_factor(pointwise_plan(call,
                                    [dtype = call.output.dtype] {
                                      const Output z;
                                      const Tile value = tile::detail::scalar(0);
                                      z.store(is_float(dtype) ? value : round_cast(value, dtype));
                                    }),
                     call, "value");
}

Plan copy_plan(const Call& call) {
  return uniform_plan(call, [] {
    const Output z;
    z.store(load_like(Input(0), z));
  });
}

Kernel with_number(std::string name, std::vector<std::string> inputs, ParamSpec param, std::string documentation,
                   Plan (*plan)(const Call&)) {
  Kernel kernel;
  kernel.name = std::move(name);
  kernel.inputs = std::move(inputs);
  kernel.params = {std::move(param)};
  kernel.dtypes = every_dtype();
  kernel.documentation = std::move(documentation);
  kernel.plan = plan;
  return kernel;
}

}  // namespace

std::vector<Kernel> elementwise_kernels() {
  using Kind = ParamSpec::Kind;
  std::vector<Kernel> kernels;
  kernels.push_back(binary("elementwise_add", {"add"}, "a + b; integers wrap around", tile::operator+));
  kernels.push_back(binary("elementwise_mul", {"multiply", "mul"}, "a * b; integers wrap around", tile::operator*));
  kernels.push_back(with_number("relu", {"x"}, {"slope", Kind::number, 0, "the factor below 0"},
                                "x, or slope * x below 0; rounded to the nearest and saturated for integers",
                                relu_plan));
  kernels.push_back(with_number("scale", {"x"}, {"factor", Kind::number, 1, "what every element is multiplied with"},
                                "x * factor; rounded to the nearest and saturated for integers", scale_plan));
  kernels.back().aliases = {"scalar_mul"};
  kernels.push_back(with_number("fill", {}, {"value", Kind::number, 0, "what every element becomes"},
                                "value; rounded to the nearest and saturated for integers", fill_plan));
  Kernel copy;
  copy.name = "copy";
  copy.inputs = {"x"};
  copy.dtypes = every_dtype();
  copy.documentation = "x";
  copy.plan = copy_plan;
  kernels.push_back(std::move(copy));
  return kernels;
}

}  // namespace tessera::kernels
