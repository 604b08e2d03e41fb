// Kernels that move a window over images [N,C,H,W]: conv2d, max_pool2d, avg_pool2d.
#include "kernels/builtin/windows.hpp"

#include <tessera/tile.hpp>

#include "core/text.hpp"
#include "kernels/builtin/common.hpp"

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace tessera::kernels {

namespace {

using core::text;
using tile::Border;
using tile::Index;
using tile::Tile;

// A window along one axis.
struct Direction {
  std::int64_t window = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  bool is_larger = false;  // than the image: pooling then goes over the image instead of the window
};

struct Window {
  Direction y;
  Direction x;
};

constexpr double most = 65535;  // for strides and so on: far beyond practical use, and sums cannot overflow

ParamSpec window_param(std::string name, Value default_value, std::string documentation, double least) {
  return {.name = std::move(name),
          .kind = ParamSpec::Kind::integers,
          .default_value = std::move(default_value),
          .documentation = std::move(documentation),
          .min = least,
          .max = most};
}

// A parameter {y, x}, or one number for both.
std::pair<std::int64_t, std::int64_t> pair_of(const Call& call, std::string_view param) {
  const std::vector<std::int64_t> numbers = call[param].integers();
  if (numbers.size() == 1) return {numbers[0], numbers[0]};
  if (numbers.size() == 2) return {numbers[0], numbers[1]};
  fail(call, Errc::invalid_parameter,
       text("parameter '", param, "' must be an integer or a list of two, y and x, got ",
            core::shortened(to_string(*call[param].value))));
}

// The number of window positions along one axis.
std::int64_t positions(const Call& call, int axis, const Direction& direction) {
  const std::int64_t extent = (*call.inputs[0].shape)[axis];
  // Unsigned, since an empty buffer may have an extent of INT64_MAX.
  const auto padded = static_cast<std::uint64_t>(extent) + 2 * static_cast<std::uint64_t>(direction.padding);
  const auto steps = static_cast<std::uint64_t>(direction.window - 1);
  const auto dilation = static_cast<std::uint64_t>(direction.dilation);
  if (padded == 0 || steps > (padded - 1) / dilation) {
    throw Error(Errc::shape_mismatch,
                text(describe_input(call, 0), " must be at least as large as the window: axis ", axis, " has ", extent,
                     ", with padding ", padded, ", the window ", steps, " * ", dilation, " + 1"));
  }
  return static_cast<std::int64_t>((padded - 1 - steps * dilation) / static_cast<std::uint64_t>(direction.stride)) + 1;
}

void check_output(const Call& call, std::int64_t channels, const Window& window) {
  const Shape& x = *call.inputs[0].shape;
  check_output_shape(call, {x[0], channels, positions(call, 2, window.y), positions(call, 3, window.x)});
}

// Where the window starts along an axis of the image, for each element of the tile. Negative in the padding.
Tile begin_of(int axis, const Direction& direction) {
  return tile::Output().index(axis) * direction.stride - direction.padding;
}

struct Conv {
  Window window;
  std::int64_t groups = 1;
  bool has_bias = false;
};

void check_conv2d(const Call& call, std::int64_t groups) {
  const DType dtype = call.output.dtype;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    check_dtype(call, i, dtype);
    check_rank(call, i, i == 2 ? 1 : 4, i == 2 ? 1 : 4);
  }
  const Shape &x = *call.inputs[0].shape, &w = *call.inputs[1].shape;
  const auto wrong = [&](std::size_t input, const std::string& wanted) {
    throw Error(Errc::shape_mismatch, text(describe_input(call, input), " must have ", wanted, ", got ",
                                           to_string(dtype, *call.inputs[input].shape)));
  };
  if (x[1] % groups != 0) wrong(0, text("a multiple of ", groups, " channels, the number of groups"));
  if (w[0] % groups != 0) wrong(1, text("a multiple of ", groups, " outputs, the number of groups"));
  if (w[1] != x[1] / groups) wrong(1, text(x[1] / groups, " channels, as many as a group of input 0"));
  if (w[2] == 0 || w[3] == 0) wrong(1, "a window of at least [1,1]");
  if (call.inputs.size() == 3 && (*call.inputs[2].shape)[0] != w[0]) {
    wrong(2, text(w[0], " elements, one for each output channel"));
  }
}

void conv2d_body(const Conv& conv) {
  const tile::Output z;
  const tile::Input x(0), w(1);
  const Tile image = z.index(0), output = z.index(1);
  const Tile y0 = begin_of(2, conv.window.y), x0 = begin_of(3, conv.window.x);
  // The first channel of the output's group.
  const Tile first = conv.groups == 1 ? Tile(0) : output / (z.dim(1) / conv.groups) * w.dim(1);
  const Tile sum = tile::loop(w.dim(1), tile::zeros_like(z), [&](const Index& c, const Tile& channels) {
    return tile::loop(w.dim(2), channels, [&](const Index& ky, const Tile& rows) {
      return tile::loop(w.dim(3), rows, [&](const Index& kx, const Tile& columns) {
        const Tile pixel = x.at({image, first + c, y0 + ky * conv.window.y.dilation, x0 + kx * conv.window.x.dilation});
        return tile::fma(pixel, w.at({output, c, ky, kx}), columns);
      });
    });
  });
  z.store(conv.has_bias ? sum + tile::Input(2).at({output}) : sum);
}

// The idiom's numbers: stride, padding and dilation, each y and x, then groups and whether there is a bias.
Lowering lower_conv2d(const Call& call) {
  Conv conv;
  conv.groups = call["groups"].integer;
  conv.has_bias = call.inputs.size() == 3;
  check_conv2d(call, conv.groups);
  auto& [y, x] = conv.window;
  const Shape& w = *call.inputs[1].shape;
  y.window = w[2];
  x.window = w[3];
  std::tie(y.stride, x.stride) = pair_of(call, "stride");
  std::tie(y.padding, x.padding) = pair_of(call, "padding");
  std::tie(y.dilation, x.dilation) = pair_of(call, "dilation");
  check_output(call, w[0], conv.window);
  Lowering lowering = plain_lowering(call, [conv] { conv2d_body(conv); });
  lowering.idiom = {"conv2d",
                    {y.stride, x.stride, y.padding, x.padding, y.dilation, x.dilation, conv.groups, conv.has_bias}};
  for (const std::int64_t number : lowering.idiom.numbers) lowering.variant += text(number, ",");
  return lowering;
}

Kernel conv2d() {
  return {.name = "conv2d",
          .inputs = {"x", "w", "bias"},
          .optional_inputs = 1,
          .params = {window_param("stride", 1, "step of the window: an integer or {y, x}", 1),
                     window_param("padding", 0, "zeros around the image: an integer or {y, x}", 0),
                     window_param("dilation", 1, "spacing of the window's elements: an integer or {y, x}", 1),
                     {.name = "groups",
                      .kind = ParamSpec::Kind::integer,
                      .default_value = 1,
                      .documentation = "number of groups of channels, each convolved separately",
                      .min = 1}},
          .dtypes = to_vector(all_dtypes),
          .documentation = "convolution of x [N,C,H,W] with w [O,C/groups,KH,KW], plus bias [O]; integers wrap around",
          .lower = lower_conv2d};
}

Window pool_window(const Call& call) {
  Window window;
  auto& [y, x] = window;
  std::tie(y.window, x.window) = pair_of(call, "kernel");
  std::tie(y.stride, x.stride) = pair_of(call, call["stride"].is_given ? "stride" : "kernel");
  std::tie(y.padding, x.padding) = pair_of(call, "padding");
  if (y.padding >= y.window || x.padding >= x.window) {
    fail(
        call, Errc::invalid_parameter,
        text("parameter 'padding' must be less than 'kernel', got ", core::shortened(to_string(*call["padding"].value)),
             " and ", core::shortened(to_string(*call["kernel"].value))));
  }
  return window;
}

// `body` takes the window; `variant` names anything else it depends on.
template <class Body>
Lowering pool_lowering(const Call& call, const std::string& variant, Body body) {
  check_dtype(call, 0, call.output.dtype);
  check_rank(call, 0, 4, 4);
  Window window = pool_window(call);
  const Shape& shape = *call.inputs[0].shape;
  window.y.is_larger = window.y.window > shape[2];
  window.x.is_larger = window.x.window > shape[3];
  check_output(call, shape[1], window);
  if (shape.elements() == 0 && call.output.shape->elements() != 0) {
    throw Error(Errc::shape_mismatch, text(describe_input(call, 0), " must have elements to pool, got ",
                                           to_string(call.output.dtype, shape)));
  }
  // Each channel is an image, which saves an axis.
  const Shape& output = *call.output.shape;
  Lowering lowering = plain_lowering(call, [window, body] { body(window); });
  lowering.shapes = {Shape{output[0] * output[1], output[2], output[3]},
                     Shape{shape[0] * shape[1], shape[2], shape[3]}};
  for (const Direction& d : {window.y, window.x})
    lowering.variant += text(d.window, ",", d.stride, ",", d.padding, d.is_larger ? ",larger," : ",");
  lowering.variant += variant;
  return lowering;
}

// The steps over a window along an axis of the image: at most as many as the image is long, since a window of 65535
// may have nothing but padding around an image of 4.
Index steps_of(int axis, const Direction& direction) {
  return direction.is_larger ? tile::Input(0).dim(axis) : Index(direction.window);
}

// Where a step reads. A window that is larger than the image may end inside it; after its end the index is -1, or stays
// at the last one if the same element may be read twice.
Tile index_at(const Tile& begin, const Direction& direction, const Index& step, Border border) {
  if (!direction.is_larger) return begin + step;
  const Tile at = tile::max(begin, 0) + step, last = begin + (direction.window - 1);
  return border == Border::clamp ? tile::min(at, last) : tile::select(at <= last, at, -1);
}

// Accumulates the elements of the window. With a zero border each of them once; if it is clamped, perhaps more often.
template <class Step>
Tile over_window(const Window& window, const Tile& initial, Border border, Step step) {
  const Tile image = tile::Output().index(0), y0 = begin_of(1, window.y), x0 = begin_of(2, window.x);
  return tile::loop(steps_of(1, window.y), initial, [&](const Index& ky, const Tile& rows) {
    const Tile y = index_at(y0, window.y, ky, border);
    return tile::loop(steps_of(2, window.x), rows, [&](const Index& kx, const Tile& columns) {
      return step(columns, tile::Input(0).at({image, y, index_at(x0, window.x, kx, border)}, border));
    });
  });
}

Tile least_of(DType dtype) {
  switch (dtype) {
    case DType::s32:
      return std::numeric_limits<std::int32_t>::min();
    case DType::s64:
      return std::numeric_limits<std::int64_t>::min();
    case DType::u32:
    case DType::u8:
      return 0;
    default:
      return -std::numeric_limits<double>::infinity();
  }
}

// A window is never all padding, and the element nearest to a position in the padding is in the window, so clamping
// adds no new values.
void max_pool_body(const Window& window) {
  const tile::Output z;
  z.store(over_window(window, tile::full_like(z, least_of(z.dtype())), Border::clamp,
                      [](const Tile& greatest, const Tile& x) { return tile::max(greatest, x); }));
}

// How many elements of the window are inside the image, along an axis.
Tile inside(int axis, const Direction& direction) {
  const Tile begin = begin_of(axis, direction);
  return tile::min(begin + direction.window, tile::Input(0).dim(axis)) - tile::max(begin, 0);
}

// The sum over the window and its number of elements, both of this type.
std::pair<Tile, Tile> sum_and_count(const Window& window, bool counts_padding, DType type) {
  const tile::Output z;
  const Tile zeros = tile::broadcast(tile::constant(type, 0), {z.tile_dim(0), z.tile_dim(1), z.tile_dim(2)});
  const Tile sum = over_window(window, zeros, Border::zero,
                               [&](const Tile& partial, const Tile& x) { return partial + tile::cast(x, type); });
  const bool is_full = counts_padding || (window.y.padding == 0 && window.x.padding == 0);
  const Tile count = is_full ? tile::constant(type, window.y.window * window.x.window)
                             : tile::cast(inside(1, window.y) * inside(2, window.x), type);
  return {sum, count};
}

void avg_pool_body(const Window& window, bool counts_padding) {
  const tile::Output z;
  const DType dtype = z.dtype();
  constexpr std::int64_t most_in_32_bits = 1 << 22;  // 511 times this is less than 2^31
  if (dtype == u8 && window.y.window * window.x.window <= most_in_32_bits) {
    const auto [sum, count] = sum_and_count(window, counts_padding, s32);
    const Tile divisor = tile::max(count, 1);  // an empty image has no elements
    return z.store(tile::cast<std::uint8_t>(small_quotient(2 * sum + divisor, 2 * divisor, s32)));  // halves round up
  }
  const auto [sum, count] = sum_and_count(window, counts_padding, is_float(dtype) ? dtype : f64);
  z.store(tile::round_cast(sum / count, dtype));
}

Lowering lower_max_pool(const Call& call) { return pool_lowering(call, {}, max_pool_body); }

Lowering lower_avg_pool(const Call& call) {
  const bool counts_padding = call["count_include_pad"].integer != 0;
  return pool_lowering(call, counts_padding ? "padded" : "",
                       [counts_padding](const Window& window) { avg_pool_body(window, counts_padding); });
}

std::vector<ParamSpec> pool_params() {
  return {window_param("kernel", 2, "the window: an integer or {y, x}", 1),
          window_param("stride", 2, "step of the window: an integer or {y, x}; default: the kernel", 1),
          window_param("padding", 0, "around the image, less than the kernel: an integer or {y, x}", 0)};
}

Kernel max_pool2d() {
  return {.name = "max_pool2d",
          .inputs = {"x"},
          .params = pool_params(),
          .dtypes = to_vector(all_dtypes),
          .documentation = "the maximum of each window of x [N,C,H,W], ignoring padding; NaN if there is one",
          .lower = lower_max_pool};
}

Kernel avg_pool2d() {
  std::vector<ParamSpec> params = pool_params();
  params.push_back({.name = "count_include_pad",
                    .kind = ParamSpec::Kind::boolean,
                    .default_value = false,
                    .documentation = "whether padding counts as zeros"});
  return {.name = "avg_pool2d",
          .inputs = {"x"},
          .params = std::move(params),
          .dtypes = to_vector(all_dtypes),
          .documentation = "the mean of each window of x [N,C,H,W]; integers rounded to the nearest",
          .lower = lower_avg_pool};
}

}  // namespace

std::vector<Kernel> window_kernels() { return {conv2d(), max_pool2d(), avg_pool2d()}; }

}  // namespace tessera::kernels
