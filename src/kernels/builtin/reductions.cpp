// Kernels along an axis: reductions, softmax, layer_norm.
#include <tessera/tile.hpp>

#include "core/text.hpp"
#include "kernels/builtin/common.hpp"
#include "kernels/kernel.hpp"
#include "tile/trace.hpp"

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace tessera::kernels {

namespace {

using core::text;
using tile::Tile;

constexpr std::array index_dtypes = {s64, s32, u32};

ParamSpec axis_param() {
  return {.name = "axis",
          .kind = ParamSpec::Kind::integer,
          .default_value = -1,
          .documentation = "the axis; negative counts from the end"};
}

// A shape split at an axis: the product of the extents before it, its extent, the product of those after it.
struct Lines {
  std::int64_t outer = 1;
  std::int64_t extent = 1;
  std::int64_t inner = 1;

  // Contiguous lines need no inner axis, which is faster.
  Shape view(std::int64_t along) const { return inner == 1 ? Shape{outer, along} : Shape{outer, along, inner}; }
  Shape view() const { return view(extent); }
};

Lines lines_along(const Shape& shape, int axis) {
  Lines lines;
  for (int i = 0; i < shape.rank(); ++i) (i < axis ? lines.outer : i == axis ? lines.extent : lines.inner) *= shape[i];
  return lines;
}

Shape without_axis(const Shape& shape, int axis) {
  std::vector<std::int64_t> dims(shape.begin(), shape.end());
  dims.erase(dims.begin() + axis);
  return Shape(dims);
}

Shape with_axis_of_one(const Shape& shape, int axis) {
  std::vector<std::int64_t> dims(shape.begin(), shape.end());
  dims[static_cast<std::size_t>(axis)] = 1;
  return Shape(dims);
}

// The lines to reduce; checks the output's shape.
Lines reduced_lines(const Call& call) {
  const Shape &shape = *call.inputs[0].shape, &output = *call.output.shape;
  if (!call["axis"].is_given && output.rank() == 0 && shape.rank() != 1) return {1, shape.elements(), 1};
  const int axis = checked_axis(call, "axis", shape.rank());
  const Shape dropped = without_axis(shape, axis), one = with_axis_of_one(shape, axis);
  if (output != dropped && output != one) {
    fail(call, Errc::shape_mismatch,
         text("output must be ", to_string(dropped), " or ", to_string(one), ", the input ", to_string(shape),
              " without axis ", axis, ", got ", to_string(output)));
  }
  return lines_along(shape, axis);
}

// `reduce` turns the lines, which run along axis 1, into the result.
Lowering reduction_lowering(const Call& call, Tile (*reduce)(const Tile& lines)) {
  const Lines lines = reduced_lines(call);
  Lowering lowering = plain_lowering(call, [reduce] {
    const tile::Output z;
    z.store(reduce(tile::load_lines(tile::Input(0), z, 1)));
  });
  lowering.shapes = {lines.view(1), lines.view()};
  return lowering;
}

// The maximum of no elements is undefined.
void check_has_elements(const Call& call) {
  if (call.inputs[0].shape->elements() != 0 || call.output.shape->elements() == 0) return;
  throw Error(Errc::shape_mismatch, text(describe_input(call, 0), " must have elements along the axis, got ",
                                         to_string(call.inputs[0].dtype, *call.inputs[0].shape)));
}

std::vector<DType> sums_of(DType dtype) {
  switch (dtype) {
    case DType::u8:
      return {u8, u32, s32, s64, f32, f64};
    case DType::u32:
    case DType::s32:
      return {dtype, s64, f64};
    case DType::f32:
      return {f32, f64};
    default:
      return {dtype};
  }
}

Lowering lower_sum(const Call& call) {
  const DType dtype = call.inputs[0].dtype;
  check_dtype_in(call, call.output.dtype, text("the sum of ", to_string(dtype), " elements"), sums_of(dtype));
  return reduction_lowering(
      call, [](const Tile& lines) { return tile::reduce_sum(tile::cast(lines, tile::Output().dtype()), 1); });
}

std::vector<DType> means_of(DType dtype) { return is_float(dtype) ? std::vector{dtype} : std::vector{dtype, f32, f64}; }

Tile mean_of_floats(const Tile& lines) {
  return tile::reduce_sum(lines, 1) / tile::cast(tile::Input(0).dim(1), tile::Output().dtype());
}

Tile mean_of_integers(const Tile& lines) {
  const Tile sum = tile::reduce_sum(tile::cast(lines, s64), 1);
  return tile::round_cast(tile::cast(sum, f64) / tile::cast(tile::Input(0).dim(1), f64), tile::Output().dtype());
}

// A sum of s64 may overflow, so the upper and lower halves are summed separately, which is exact for 2^30 elements.
Tile mean_of_s64(const Tile& lines) {
  const Tile high = tile::reduce_sum(lines >> 32, 1), low = tile::reduce_sum(lines & 0xffffffff, 1);
  const DType dtype = tile::Output().dtype();
  if (is_float(dtype)) {  // NaN if there are no elements
    const Tile sum = tile::cast(high, f64) * 0x1p32 + tile::cast(low, f64);
    return tile::cast(sum / tile::cast(tile::Input(0).dim(1), f64), dtype);
  }
  const Tile count = tile::max(tile::Input(0).dim(1), 1);
  // high = upper * count + remainder, and the rest of the sum = lower * count + remainder, both in 0…count - 1.
  const Tile towards_zero = high / count;
  const Tile upper = towards_zero - select(high < towards_zero * count, 1, 0);
  const Tile rest = ((high - upper * count) << 32) + low;
  const Tile lower = rest / count, twice_remainder = 2 * (rest - lower * count);
  const Tile below = (upper << 32) + lower;
  const Tile half_up = select(below >= 0, 1, 0);  // halves round away from zero
  return below + select(twice_remainder + half_up > count, 1, 0);
}

// For u8, up to this many elements: all intermediate values fit s32.
constexpr std::int64_t most_in_s32 = std::int64_t{1} << 23;
Tile mean_of_few_u8(const Tile& lines) {
  const Tile count = tile::cast(tile::max(tile::Input(0).dim(1), 1), s32);
  return tile::cast(small_quotient(tile::reduce_sum(tile::cast(lines, s32), 1) + (count >> 1), count, s32), u8);
}

Lowering lower_mean(const Call& call) {
  const DType dtype = call.inputs[0].dtype;
  check_dtype_in(call, call.output.dtype, text("the mean of ", to_string(dtype), " elements"), means_of(dtype));
  if (is_float(dtype)) return reduction_lowering(call, mean_of_floats);
  if (dtype == s64) return reduction_lowering(call, mean_of_s64);
  if (call.output.dtype != u8 || reduced_lines(call).extent > most_in_s32) {
    return reduction_lowering(call, mean_of_integers);
  }
  Lowering lowering = reduction_lowering(call, mean_of_few_u8);
  lowering.variant = "few";
  return lowering;
}

Lowering lower_max(const Call& call) {
  check_dtype(call, 0, call.output.dtype);
  check_has_elements(call);
  return reduction_lowering(call, [](const Tile& lines) { return tile::reduce_max(lines, 1); });
}

Lowering lower_min(const Call& call) {
  check_dtype(call, 0, call.output.dtype);
  check_has_elements(call);
  return reduction_lowering(call, [](const Tile& lines) { return tile::reduce_min(lines, 1); });
}

// The index must fit in the output: a cast would clamp it silently.
void check_indices_fit(const Call& call) {
  const DType dtype = call.output.dtype;
  const std::int64_t extent = reduced_lines(call).extent;
  const std::int64_t most = dtype == s32   ? std::numeric_limits<std::int32_t>::max()
                            : dtype == u32 ? std::numeric_limits<std::uint32_t>::max()
                                           : std::numeric_limits<std::int64_t>::max();
  if (extent - 1 <= most) return;
  fail(call, Errc::dtype_mismatch,
       text("output must be s64: indices along an axis of ", extent, " elements do not fit in ", to_string(dtype)));
}

Lowering lower_argmax(const Call& call) {
  check_dtype_in(call, call.output.dtype, "output", index_dtypes);
  check_has_elements(call);
  check_indices_fit(call);
  return reduction_lowering(
      call, [](const Tile& lines) { return tile::cast(tile::argmax(lines, 1), tile::Output().dtype()); });
}

Kernel reduction(std::string name, std::vector<DType> dtypes, std::string documentation,
                 Lowering (*lower)(const Call&)) {
  return {.name = std::move(name),
          .inputs = {"x"},
          .params = {axis_param()},
          .dtypes = std::move(dtypes),
          .documentation = std::move(documentation),
          .lower = lower};
}

Lowering lower_softmax(const Call& call) {
  check_dtype_in(call, call.output.dtype, "output", float_dtypes);
  check_same_as_output(call, 0);
  const Shape& shape = *call.output.shape;
  const Shape view = lines_along(shape, checked_axis(call, "axis", shape.rank())).view();
  Lowering lowering = plain_lowering(call, [] {
    const tile::Output z;
    const Tile x = tile::load_like(tile::Input(0), z);
    const Tile powers = exp(x - tile::reduce_max(x, 1));  // at most 1, so nothing overflows
    z.store(powers * (1 / tile::reduce_sum(powers, 1)));
  });
  lowering.shapes = {view, view};
  return lowering;
}

Kernel softmax() {
  return {.name = "softmax",
          .inputs = {"x"},
          .params = {axis_param()},
          .dtypes = to_vector(float_dtypes),
          .documentation = "exp(x) divided by its sum along the axis",
          .lower = lower_softmax};
}

void layer_norm_body(std::size_t inputs) {
  const tile::Output z;
  const Tile x = tile::load_like(tile::Input(0), z);
  const Tile count = tile::cast(z.dim(1), z.dtype());
  const Tile centred = x - tile::reduce_sum(x, 1) / count;
  const Tile variance = tile::reduce_sum(centred * centred, 1) / count;
  Tile normal = centred * tile::rsqrt(variance + tile::detail::scalar(0));
  if (inputs > 1) normal = normal * tile::load_like(tile::Input(1), z);
  if (inputs > 2) normal = normal + tile::load_like(tile::Input(2), z);
  z.store(normal);
}

Lowering lower_layer_norm(const Call& call) {
  const DType dtype = call.output.dtype;
  check_dtype_in(call, dtype, "output", float_dtypes);
  check_same_as_output(call, 0);
  check_rank(call, 0, 1, Shape::max_rank);
  const Shape& shape = *call.output.shape;
  const Lines lines = lines_along(shape, shape.rank() - 1);
  const std::size_t inputs = call.inputs.size();
  Lowering lowering = plain_lowering(call, [inputs] { layer_norm_body(inputs); });
  lowering.shapes[0] = lowering.shapes[1] = lines.view();
  for (std::size_t i = 1; i < inputs; ++i) {
    check_dtype(call, i, dtype);
    if (*call.inputs[i].shape == Shape{lines.extent}) continue;
    throw Error(Errc::shape_mismatch,
                text(describe_input(call, i), " must be ", to_string(dtype, {lines.extent}),
                     ", the last axis of input 0, got ", to_string(dtype, *call.inputs[i].shape)));
  }
  lowering.scalars = {{"epsilon", dtype, call["epsilon"]}};
  return lowering;
}

Kernel layer_norm() {
  return {.name = "layer_norm",
          .inputs = {"x", "gamma", "beta"},
          .optional_inputs = 2,
          .params = {{.name = "epsilon", .default_value = 1e-5, .documentation = "added to the variance", .min = 0}},
          .dtypes = to_vector(float_dtypes),
          .documentation = "(x - mean) / sqrt(variance + epsilon) * gamma + beta along the last axis",
          .lower = lower_layer_norm};
}

}  // namespace

std::vector<Kernel> reduction_kernels() {
  const std::vector<DType> every = to_vector(all_dtypes);
  return {
      reduction("reduce_sum", every,
                "the sum of x along the axis; the output may have a wider type; integers wrap around", lower_sum),
      reduction("reduce_mean", every, "the mean of x along the axis; for integers rounded to the nearest, or a float",
                lower_mean),
      reduction("reduce_max", every, "the maximum of x along the axis; NaN if there is one", lower_max),
      reduction("reduce_min", every, "the minimum of x along the axis; NaN if there is one", lower_min),
      reduction(
          "argmax", to_vector(index_dtypes),
          "the index of the first maximum of x along the axis; NaN counts as the maximum; the output must be s64 if "
          "indices do not fit in 32 bits",
          lower_argmax),
      softmax(),
      layer_norm(),
  };
}

}  // namespace tessera::kernels
