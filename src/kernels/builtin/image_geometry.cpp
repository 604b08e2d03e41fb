// Kernels that move pixels: resize, bicubic_scale, crop, preprocess.
#include <tessera/tile.hpp>

#include "core/text.hpp"
#include "kernels/builtin/image.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <string>

namespace tessera::kernels {

using core::text;
using tile::Border;
using tile::Index;
using tile::Input;
using tile::Output;
using tile::Tile;

namespace {

using Kind = ParamSpec::Kind;

// The pixel of x at a row and a column, as f32.
using Fetch = std::function<Tile(const Tile& row, const Tile& column)>;

// The input position of output elements along an axis: between element `first` and the next one.
struct Position {
  Tile first;     // s64
  Tile fraction;  // f32
};

// Classes of the longest side, by the precision of f32 positions: within 1/4000 of an element for usual images, within
// one element for large ones.
enum class Length : std::uint8_t { usual, large, huge };
Length length_of(std::initializer_list<std::int64_t> sides) {
  constexpr std::int64_t longest_usual = 4096, longest_large = std::int64_t{1} << 20;
  const std::int64_t longest = std::max(sides);
  return longest <= longest_usual ? Length::usual : longest <= longest_large ? Length::large : Length::huge;
}
std::string_view variant_of(Length length) {
  return length == Length::usual ? "" : length == Length::large ? " large" : " huge";
}

Tile scaled_centre(const Tile& index, const Index& in, const Index& out) {
  return (as_float(index) + 0.5f) * (as_float(in) / as_float(out));
}

// whole + rest / step, all s32, with 0 <= rest < step.
struct Quotient {
  Tile whole, rest, step;
};

// The input position of an output element's centre: (2 * index + 1) * in / (2 * out), measured from the start or from
// the centre (half an element later) of input element 0. Exact, so that all devices agree: estimated in f32 and
// corrected by the remainder, which is small and so correct in 32 bits even where its terms wrap around.
enum class From : std::uint8_t { start, centre };
Quotient centre_of(const Tile& index, const Index& in, const Index& out, From from, Length length) {
  const Tile i = tile::cast<std::int32_t>(index), size = tile::cast<std::int32_t>(in);
  const Tile half = tile::cast<std::int32_t>(out), step = 2 * half;
  const Tile scaled = from == From::centre ? (2 * i + 1) * size - half : (2 * i + 1) * size;
  const auto rest_of = [&](const Tile& whole) { return scaled - whole * step; };
  const Tile centre = scaled_centre(index, in, out);
  Tile whole = tile::cast<std::int32_t>(from == From::centre ? tile::floor(centre - 0.5f) : centre);
  if (length == Length::huge) whole = whole + tile::cast<std::int32_t>(as_float(rest_of(whole)) / as_float(step));
  const Tile rest = rest_of(whole);
  const Tile correction = tile::cast<std::int32_t>(rest >= step) - tile::cast<std::int32_t>(rest < 0);
  return {whole + correction, rest - correction * step, step};
}

Position position_of(const Tile& index, const Index& in, const Index& out, Length length) {
  if (length == Length::usual) {
    const Tile source = scaled_centre(index, in, out) - 0.5f;
    const Tile first = tile::floor(source);
    return {tile::cast<std::int64_t>(first), source - first};
  }
  const Quotient centre = centre_of(index, in, out, From::centre, length);
  return {tile::cast<std::int64_t>(centre.whole), as_float(centre.rest) / as_float(centre.step)};
}

Tile bilinear(const Position& y, const Position& x, const Fetch& fetch) {
  const auto row = [&](const Tile& at) { return mixed(fetch(at, x.first), fetch(at, x.first + 1), x.fraction); };
  return mixed(row(y.first), row(y.first + 1), y.fraction);
}

// The weights of elements -1, 0, 1 and 2, counted from `first`: cubic convolution with a = -0.75.
std::array<Tile, 4> cubic_weights(const Tile& t) {
  constexpr float a = -0.75f;
  const auto near = [&](const Tile& d) { return ((a + 2) * d - (a + 3)) * d * d + 1.0f; };
  const auto far = [&](const Tile& d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
  return {far(t + 1.0f), near(t), near(1.0f - t), far(2.0f - t)};
}

Tile bicubic(const Position& y, const Position& x, const Fetch& fetch) {
  const std::array<Tile, 4> wy = cubic_weights(y.fraction), wx = cubic_weights(x.fraction);
  const auto sum = [](const std::array<Tile, 4>& w, const auto& part) {
    return part(-1) * w[0] + part(0) * w[1] + part(1) * w[2] + part(2) * w[3];
  };
  return sum(wy, [&](int dy) { return sum(wx, [&](int dx) { return fetch(y.first + dy, x.first + dx); }); });
}

void check_has_elements(const Call& call) {
  if (call.inputs[0].shape->elements() > 0 || call.output.shape->elements() == 0) return;
  fail(call, Errc::shape_mismatch,
       text("input 0 (x) has no pixels: ", to_string(call.inputs[0].dtype, *call.inputs[0].shape)));
}

// The output must have the input's type, rank and number of channels.
void check_like_input_but_size(const Call& call) {
  check_rank(call, 0, 2, 3);
  const Shape &in = *call.inputs[0].shape, &out = *call.output.shape;
  check_output_dtype(call, call.inputs[0].dtype);
  if (in.rank() == out.rank() && (in.rank() == 2 || in[2] == out[2])) return;
  fail(call, Errc::shape_mismatch,
       text("output must be ", in.rank() == 2 ? "[h,w]" : text("[h,w,", in[2], "]"), " like input 0 (x), got ",
            to_string(call.output.dtype, out)));
}

// The parameters width and height, whose default is the output's size, in an image's kernel; they must match it.
std::vector<ParamSpec> size_params() {
  constexpr std::string_view documentation = "of the output in pixels; default: as it is";
  std::vector<ParamSpec> params;
  for (const char* name : {"width", "height"}) {
    params.push_back({name, Kind::integer, 0, std::string(documentation), 0});
  }
  return params;
}
void check_size_params(const Call& call) {
  const Shape& out = *call.output.shape;
  std::vector<std::int64_t> wanted(out.begin(), out.end());
  if (call["height"].is_given) wanted[0] = call["height"].integer;
  if (call["width"].is_given) wanted[1] = call["width"].integer;
  check_output_shape(call, Shape(wanted));
}

// --- resize

void resize_body(std::string_view method, Length length) {
  const Output z;
  const Input x(0);
  const auto load = [&](const Tile& row, const Tile& column) {
    return z.rank() == 2 ? x.at({row, column}, Border::clamp) : x.at({row, column, z.index(2)}, Border::clamp);
  };
  if (method == "nearest") {
    const auto nearest = [&](int axis) {
      const Quotient centre = centre_of(z.index(axis), x.dim(axis), z.dim(axis), From::start, length);
      return tile::cast<std::int64_t>(centre.whole);
    };
    return z.store(load(nearest(0), nearest(1)));
  }
  const auto position = [&](int axis) { return position_of(z.index(axis), x.dim(axis), z.dim(axis), length); };
  const auto fetch = [&](const Tile& row, const Tile& column) { return as_float(load(row, column)); };
  z.store(finished(z, (method == "bilinear" ? bilinear : bicubic)(position(0), position(1), fetch)));
}

Lowering lower_resize(const Call& call, const std::string& method) {
  checked_image(call, 0);
  check_like_input_but_size(call);
  check_size_params(call);
  check_has_elements(call);
  const Image in(*call.inputs[0].shape), out(*call.output.shape);
  Lowering lowering;
  lowering.shapes = {out.grid(), in.grid()};
  if (in.channels != 1) lowering.fixed = {{0, 2}, {1, 2}};
  const Length length = length_of({in.height, in.width, out.height, out.width});
  lowering.variant = text(method, variant_of(length));
  lowering.body = [method, length] { resize_body(method, length); };
  return lowering;
}

// --- crop

void check_inside(const Call& call, std::string_view param, int axis) {
  const Shape &in = *call.inputs[0].shape, &out = *call.output.shape;
  const std::int64_t start = call[param].integer;
  if (out[axis] <= in[axis] && start <= in[axis] - out[axis]) return;
  fail(call, Errc::invalid_parameter,
       text("parameter '", param, "' is ", start, ": output ", to_string(call.output.dtype, out),
            " must lie inside input 0 (x), ", to_string(call.inputs[0].dtype, in)));
}

Lowering lower_crop(const Call& call) {
  check_like_input_but_size(call);
  check_size_params(call);
  check_inside(call, "top", 0);
  check_inside(call, "left", 1);
  const Image in(*call.inputs[0].shape), out(*call.output.shape);
  Lowering lowering;
  lowering.shapes = {out.rows(), in.rows()};
  const std::int64_t top = call["top"].integer, left = call["left"].integer * in.channels;
  const bool is_small = std::max(top, left) <= std::numeric_limits<std::int32_t>::max();
  const DType dtype = is_small ? s32 : s64;
  lowering.scalars = {integer_scalar("top", top, dtype), integer_scalar("left", left, dtype)};
  lowering.variant = is_small ? "" : "wide";
  lowering.body = [] {
    const Output z;
    const Input x(0);
    // Always within bounds; the clamp shows that to devices without 64-bit integers.
    const auto index = [&](int axis) {
      const Tile start = tile::cast<std::int64_t>(tile::detail::scalar(axis));
      return z.index(axis) + tile::min(tile::max(start, 0), x.dim(axis));
    };
    z.store(x.at({index(0), index(1)}));
  };
  return lowering;
}

// --- preprocess

void check_preprocess_output(const Call& call) {
  check_output_dtype(call, f32);
  const Shape& out = *call.output.shape;
  if (call["size"].is_given) {
    checked_numbers(call, "size", 2);
    const std::vector<std::int64_t> size = call["size"].integers();
    return check_output_shape(call, Shape{1, 3, size[0], size[1]});
  }
  if (out.rank() == 4 && out[0] == 1 && out[1] == 3) return;
  fail(call, Errc::shape_mismatch, text("output must be f32[1,3,h,w], got ", to_string(f32, out)));
}

// Scalars: three means, three deviations.
void preprocess_body(bool is_normalized, Length length) {
  const Output z;  // [3,h,w]
  const Input x(0);
  const Tile c = z.index(0);
  const auto fetch = [&](const Tile& row, const Tile& column) {
    return as_float(x.at({row, column, c}, Border::clamp));
  };
  const auto position = [&](int axis) { return position_of(z.index(axis + 1), x.dim(axis), z.dim(axis + 1), length); };
  const Tile value = bilinear(position(0), position(1), fetch) / 255.0f;
  if (!is_normalized) return z.store(value);
  const auto of_channel = [&](int first) {
    const auto scalar = [&](int i) { return tile::detail::scalar(first + i); };
    return tile::select(c == 0, scalar(0), tile::select(c == 1, scalar(1), scalar(2)));
  };
  z.store((value - of_channel(0)) / of_channel(3));
}

Lowering lower_preprocess(const Call& call) {
  check_dtype(call, 0, u8);
  const Image image = checked_colors(call, 0);
  check_preprocess_output(call);
  check_has_elements(call);
  const bool is_normalized = call["normalize"].boolean();
  const std::vector<double> mean = checked_numbers(call, "mean", 3), deviation = checked_numbers(call, "std", 3);
  Lowering lowering;
  const Shape& out = *call.output.shape;
  lowering.shapes = {Shape{3, out[2], out[3]}, image.grid()};
  lowering.fixed = {{0, 0}, {1, 2}};
  const Length length = length_of({image.height, image.width, out[2], out[3]});
  lowering.variant = text(is_normalized ? "normalize" : "", variant_of(length));
  if (is_normalized) {
    for (const double number : mean) lowering.scalars.push_back(number_scalar("mean", number));
    for (const double number : deviation) lowering.scalars.push_back(number_scalar("std", number));
  }
  lowering.body = [is_normalized, length] { preprocess_body(is_normalized, length); };
  return lowering;
}

}  // namespace

std::vector<Kernel> image_geometry_kernels() {
  Kernel resize;
  resize.name = "resize";
  resize.inputs = {"x"};
  resize.params = {{"method", Kind::string, "bilinear", "interpolation: bilinear, nearest or bicubic"}};
  resize.params[0].choices = {"bilinear", "nearest", "bicubic"};
  resize.dtypes.assign(std::begin(image_dtypes), std::end(image_dtypes));
  std::ranges::move(size_params(), std::back_inserter(resize.params));
  resize.documentation = "x scaled to the output's size";
  resize.lower = [](const Call& call) { return lower_resize(call, std::string(call["method"].string())); };

  Kernel bicubic_scale;
  bicubic_scale.name = "bicubic_scale";
  bicubic_scale.inputs = {"x"};
  bicubic_scale.params = size_params();
  bicubic_scale.dtypes = resize.dtypes;
  bicubic_scale.documentation =
      "x scaled by cubic convolution with a = -0.75, not smoothed first; OpenCV's resize with INTER_CUBIC, for u8 "
      "within 1";
  bicubic_scale.lower = [](const Call& call) { return lower_resize(call, "bicubic"); };

  Kernel crop;
  crop.name = "crop";
  crop.inputs = {"x"};
  crop.params = {{"top", Kind::integer, 0, "the first row", 0}, {"left", Kind::integer, 0, "the first column", 0}};
  crop.params[0].aliases = {"y"};
  crop.params[1].aliases = {"x"};
  std::ranges::move(size_params(), std::back_inserter(crop.params));
  crop.nicknames = {"video_crop"};
  crop.dtypes.assign(std::begin(all_dtypes), std::end(all_dtypes));
  crop.documentation = "the part of x, of the output's size, that starts at top and left";
  crop.lower = lower_crop;

  Kernel preprocess;
  preprocess.name = "preprocess";
  preprocess.inputs = {"x"};
  preprocess.params = {
      {"size", Kind::integers, std::vector<int>{224, 224}, "height and width; default: the output's", 1, 1 << 20},
      {"normalize", Kind::boolean, true, "whether to apply mean and std"},
      {"mean", Kind::numbers, std::vector<double>{0.485, 0.456, 0.406}, "subtracted from each channel"},
      {"std", Kind::numbers, std::vector<double>{0.229, 0.224, 0.225}, "divides each channel"}};
  preprocess.dtypes = {f32};
  preprocess.documentation = "a u8 image as network input: resized, scaled to 0..1, normalised, f32[1,3,h,w]";
  preprocess.lower = lower_preprocess;

  return {resize, bicubic_scale, crop, preprocess};
}

}  // namespace tessera::kernels
