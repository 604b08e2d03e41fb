// Each pixel depends on itself and its position only. Kernels that mix channels view images as [pixels,C]; per-pixel
// values are [pixels,1].
#include <tessera/tile.hpp>

#include "core/text.hpp"
#include "kernels/builtin/color_text.hpp"
#include "kernels/builtin/image.hpp"
#include "tile/trace.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>

namespace tessera::kernels {

using core::text;
using tile::Border;
using tile::Input;
using tile::Output;
using tile::Tile;

namespace {

using Kind = ParamSpec::Kind;

Tile luma(const Tile& r, const Tile& g, const Tile& b) { return r * 0.299f + g * 0.587f + b * 0.114f; }

struct Rgb {
  Rgb(const Input& x, const Output& z) : r(channel(x, z, 0)), g(channel(x, z, 1)), b(channel(x, z, 2)) {}
  Tile r, g, b;

  Tile dot(float fr, float fg, float fb) const { return r * fr + g * fg + b * fb; }
  Tile luma() const { return kernels::luma(r, g, b); }
};

// Selects a value for each of the channels 0, 1 and 2 of z's pixels.
Tile by_channel(const Output& z, const Tile& first, const Tile& second, const Tile& third) {
  const Tile c = z.index(z.rank() - 1);
  return tile::select(c == 0, first, tile::select(c == 1, second, third));
}

// A lowering that views all operands as [pixels,C].
Lowering pixels_lowering(const Call& call, std::vector<Lowering::Scalar> scalars, std::function<void()> body) {
  Lowering lowering;
  lowering.shapes.push_back(Image(*call.output.shape).pixels());
  for (const Operand& input : call.inputs) lowering.shapes.push_back(Image(*input.shape).pixels());
  for (int i = 0; i < static_cast<int>(lowering.shapes.size()); ++i) lowering.fixed.emplace_back(i, 1);
  lowering.scalars = std::move(scalars);
  lowering.body = std::move(body);
  return lowering;
}

Lowering::Scalar scalar(const Call& call, std::string_view param) { return {param, f32, call[param]}; }

// --- grayscale

// channel(0), (1) and (2) are red, green and blue.
template <class Channel>
Tile gray(DType dtype, const Channel& channel) {
  if (dtype == f32) return luma(channel(0), channel(1), channel(2));
  const auto part = [&](int number) { return tile::cast<std::uint32_t>(channel(number)); };
  const Tile sum = part(0) * 9798 + part(1) * 19235 + part(2) * 3735;
  return tile::cast<std::uint8_t>((sum + 16384) >> 15);
}

Lowering lower_grayscale(const Call& call) {
  const Image image = checked_colors(call, 0);
  check_output_dtype(call, call.inputs[0].dtype);
  const Shape& out = *call.output.shape;
  const Shape flat{image.height, image.width};
  if (image.has_alpha() && out == *call.inputs[0].shape) {
    return pixels_lowering(call, {}, [image] {
      const Output z;
      const Input x(0);
      z.store(keep_alpha(z, image, tile::load_like(x, z),
                         gray(x.dtype(), [&](int number) { return tile::load_channel(x, z, number); })));
    });
  }
  if (out != flat && out != Shape{image.height, image.width, 1}) check_output_shape(call, flat);
  Lowering lowering;
  lowering.shapes = {flat, image.rows()};
  lowering.variant = text("channels ", image.channels);
  lowering.body = [step = image.step()] {
    const Output z;
    const Input x(0);
    z.store(gray(x.dtype(), [&](int number) { return tile::load_of_group(x, z, step, number); }));
  };
  return lowering;
}

// --- amounts

Lowering lower_brightness_contrast(const Call& call) {
  const Image image = checked_image_like_output(call);
  const auto body = [image] {
    const Output z;
    const Input x(0);
    const Tile brightness = tile::detail::scalar(0), contrast = tile::detail::scalar(1);
    const float full = full_scale(z.dtype()), middle = full / 2;
    const Tile pixel = tile::load_like(x, z);
    const Tile value = (as_float(pixel) - middle) * contrast + middle + brightness * full;
    z.store(keep_alpha(z, image, pixel, finished(z, value)));
  };
  Lowering lowering = plain_lowering(call, body);
  lowering.is_pointwise = !image.has_alpha();
  if (image.has_alpha()) {
    lowering.shapes = {image.rows(), image.rows()};
    lowering.variant = "alpha";
  }
  lowering.scalars = {scalar(call, "brightness"), scalar(call, "contrast")};
  return lowering;
}

Lowering lower_saturation(const Call& call) {
  const Image image = checked_colors(call, 0);
  check_same_as_output(call, 0);
  return pixels_lowering(call, {scalar(call, "amount")}, [image] {
    const Output z;
    const Input x(0);
    const Tile value = tile::load_like(x, z);
    const Tile result = mixed(Rgb(x, z).luma(), as_float(value), tile::detail::scalar(0));
    z.store(keep_alpha(z, image, value, finished(z, result)));
  });
}

Lowering lower_sepia(const Call& call) {
  const Image image = checked_colors(call, 0);
  check_same_as_output(call, 0);
  return pixels_lowering(call, {scalar(call, "amount")}, [image] {
    const Output z;
    const Input x(0);
    const Rgb rgb(x, z);
    const Tile value = tile::load_like(x, z);
    const Tile brown = by_channel(z, rgb.dot(0.393f, 0.769f, 0.189f), rgb.dot(0.349f, 0.686f, 0.168f),
                                  rgb.dot(0.272f, 0.534f, 0.131f));
    const Tile result = mixed(as_float(value), brown, tile::detail::scalar(0));
    z.store(keep_alpha(z, image, value, finished(z, result)));
  });
}

// The factor for each pixel of z, viewed as grid().
Tile vignette_factor(const Output& z, const Tile& strength, const Tile& radius) {
  const Tile height = as_float(z.dim(0)), width = as_float(z.dim(1));
  const Tile y = as_float(z.index(0)) + 0.5f - height * 0.5f;
  const Tile x = as_float(z.index(1)) + 0.5f - width * 0.5f;
  const Tile distance = tile::sqrt(y * y + x * x) / (tile::sqrt(height * height + width * width) * 0.5f);
  const Tile slope = clamp_to_unit((distance - radius) / (1.0f - radius));
  const Tile edge = tile::select(distance >= radius, tile::constant(1.0f), tile::constant(0.0f));
  const Tile t = tile::select(radius >= 1.0f, edge, slope);
  return 1.0f - strength * t * t * (3.0f - 2.0f * t);
}

Lowering lower_vignette(const Call& call) {
  const Image image = checked_image_like_output(call);
  Lowering lowering;
  lowering.shapes = {image.grid(), image.grid()};
  if (image.channels != 1) lowering.fixed = {{0, 2}, {1, 2}};
  lowering.scalars = {scalar(call, "strength"), scalar(call, "radius")};
  lowering.body = [image] {
    const Output z;
    const Tile value = tile::load_like(Input(0), z);
    const Tile factor = vignette_factor(z, tile::detail::scalar(0), tile::detail::scalar(1));
    z.store(keep_alpha(z, image, value, finished(z, as_float(value) * factor)));
  };
  return lowering;
}

// --- tables

Lowering lower_lut_apply(const Call& call) {
  check_dtype(call, 0, u8);
  check_rank(call, 0, 2, 3);
  check_dtype_in(call, call.inputs[1].dtype, "input 1 (lut)", image_dtypes);
  check_output_dtype(call, call.inputs[1].dtype);
  check_output_shape(call, *call.inputs[0].shape);
  const Image image(*call.inputs[0].shape);
  const Shape& lut = *call.inputs[1].shape;
  const bool is_common = lut == Shape{256};
  if (!is_common && lut != Shape{256, image.channels}) {
    fail(call, Errc::shape_mismatch,
         text("input 1 (lut) must be [256] or [256,", image.channels, "], got ", to_string(call.inputs[1].dtype, lut)));
  }
  Lowering lowering;
  const Shape view = is_common ? Shape{image.pixels().elements()} : image.pixels();
  lowering.shapes = {view, view, lut};
  lowering.fixed = {{2, 0}};
  if (!is_common) lowering.fixed = {{0, 1}, {1, 1}, {2, 0}, {2, 1}};
  lowering.body = [is_common] {
    const Output z;
    const Tile entry = tile::cast<std::int64_t>(tile::load_like(Input(0), z));
    const Input table(1);
    z.store(is_common ? table.at({entry}) : table.at({entry, z.index(1)}));
  };
  return lowering;
}

// --- transparency

// The opacity of each pixel: 0 for the key colour. Scalars: the key, threshold, softness.
Tile key_alpha(const Input& x, const Output& z) {
  const Rgb rgb(x, z);
  const Tile r = rgb.r - tile::detail::scalar(0), g = rgb.g - tile::detail::scalar(1),
             b = rgb.b - tile::detail::scalar(2);
  const Tile threshold = tile::detail::scalar(3), softness = tile::detail::scalar(4);
  const float farthest = full_scale(x.dtype()) * std::sqrt(3.0f);
  const Tile distance = tile::sqrt(r * r + g * g + b * b) / farthest;
  const Tile edge = tile::select(distance > threshold, tile::constant(1.0f), tile::constant(0.0f));
  return tile::select(softness > 0.0f, clamp_to_unit((distance - threshold) / softness), edge);
}

Lowering lower_chroma_key(const Call& call) {
  const Image image = checked_colors(call, 0);
  check_output_dtype(call, call.inputs[0].dtype);
  check_output_shape(call, Shape{image.height, image.width, 4});
  const std::array<double, 3> color = checked_color(call, "color", call.output.dtype);
  std::vector<Lowering::Scalar> scalars = {number_scalar("red", color[0]), number_scalar("green", color[1]),
                                           number_scalar("blue", color[2]), scalar(call, "threshold"),
                                           scalar(call, "softness")};
  return pixels_lowering(call, std::move(scalars), [image] {
    const Output z;
    const Input x(0);
    const Tile opaque = image.has_alpha() ? channel(x, z, 3) : tile::constant(full_scale(z.dtype()));
    const Tile alpha = finished(z, key_alpha(x, z) * opaque);
    // Clamped, since channel 3 may not exist.
    z.store(tile::select(z.index(1) == 3, alpha, tile::load_channel(x, z, z.index(1), Border::clamp)));
  });
}

// Blends a channel of `over`, whose opacity here is `alpha`, with that of the base. z's last axis is the channel.
void store_blend(const Output& z, const Image& image, const Tile& below, const Tile& over, const Tile& alpha) {
  const Tile opaque = alpha * full_scale(z.dtype()) + below * (1.0f - alpha);
  z.store(finished(z, keep_alpha(z, image, opaque, mixed(below, over, alpha))));
}

// The overlay has the base's size and covers it.
Lowering lower_same_size_overlay(const Call& call, const Image& image) {
  return pixels_lowering(call, {scalar(call, "opacity")}, [image] {
    const Output z;
    const Input base(0), over(1);
    const Tile alpha = channel(over, z, 3) / full_scale(z.dtype()) * tile::detail::scalar(0);
    const Tile color = as_float(tile::load_channel(over, z, z.index(1)));
    store_blend(z, image, as_float(tile::load_like(base, z)), color, alpha);
  });
}

// The overlay's upper left corner is at x, y: outside of it, where reads yield 0, its alpha is 0.
Lowering lower_placed_overlay(const Call& call, const Image& image, const Image& top) {
  Lowering lowering;
  lowering.shapes = {image.grid(), image.grid(), top.grid()};
  lowering.fixed = {{0, 2}, {1, 2}, {2, 2}};
  // Beyond the base nothing shows, however far.
  const auto position = [&](std::string_view param, std::int64_t size, std::int64_t top_size) {
    return integer_scalar(param, std::clamp(call[param].integer, -top_size, size), s32);
  };
  lowering.scalars = {scalar(call, "opacity"), position("x", image.width, top.width),
                      position("y", image.height, top.height)};
  lowering.body = [image] {
    const Output z;
    const Input over(1);
    const Tile column = z.index(1) - tile::cast<std::int64_t>(tile::detail::scalar(1));
    const Tile row = z.index(0) - tile::cast<std::int64_t>(tile::detail::scalar(2));
    const auto at = [&](const Tile& c) { return as_float(over.at({row, column, c})); };
    const Tile alpha = at(3) / full_scale(z.dtype()) * tile::detail::scalar(0);
    store_blend(z, image, as_float(tile::load_like(Input(0), z)), at(z.index(2)), alpha);
  };
  return lowering;
}

Lowering lower_overlay_alpha(const Call& call) {
  const Image image = checked_colors(call, 0);
  check_same_as_output(call, 0);
  const Operand& top = call.inputs[1];
  check_dtype(call, 1, call.output.dtype);
  if (top.shape->rank() != 3 || (*top.shape)[2] != 4) {
    fail(call, Errc::shape_mismatch, text("input 1 (top) must be [h,w,4], got ", to_string(top.dtype, *top.shape)));
  }
  const Image over(*top.shape);
  constexpr std::int64_t longest = std::numeric_limits<std::int32_t>::max() / 2;
  if (std::max({image.width, image.height, over.width, over.height}) > longest) {
    fail(call, Errc::shape_mismatch, text("the images' sides must be at most ", longest));
  }
  const bool is_same_size = over.width == image.width && over.height == image.height;
  if (is_same_size && call["x"].integer == 0 && call["y"].integer == 0) return lower_same_size_overlay(call, image);
  return lower_placed_overlay(call, image, over);
}

Lowering lower_mix(const Call& call) {
  check_dtype_in(call, call.output.dtype, "output", image_dtypes);
  for (std::size_t i = 0; i < 2; ++i) check_same_as_output(call, i);
  Lowering lowering = pointwise_lowering(call, [] {
    const Output z;
    const Tile a = as_float(tile::load_like(Input(0), z)), b = as_float(tile::load_like(Input(1), z));
    z.store(finished(z, mixed(a, b, tile::detail::scalar(0))));
  });
  lowering.only_scalars_vary = true;
  lowering.scalars = {scalar(call, "amount")};
  return lowering;
}

// What a and b become together; `full` is white.
Tile combined(std::string_view mode, const Tile& a, const Tile& b, const Tile& ratio, float full) {
  if (mode == "add") return a + b * ratio;
  return mixed(a, mode == "multiply" ? a * b / full : b, ratio);
}

Lowering lower_video_mix(const Call& call) {
  const Image image = checked_image_like_output(call);
  check_same_as_output(call, 1);
  const std::string mode(call["mode"].string());
  const bool keeps_alpha = image.has_alpha() && mode != "dissolve";
  Lowering lowering = pointwise_lowering(call, [image, mode, keeps_alpha] {
    const Output z;
    const Tile a = tile::load_like(Input(0), z), b = as_float(tile::load_like(Input(1), z));
    const Tile value = finished(z, combined(mode, as_float(a), b, tile::detail::scalar(0), full_scale(z.dtype())));
    z.store(keeps_alpha ? keep_alpha(z, image, a, value) : value);
  });
  lowering.is_pointwise = !keeps_alpha;
  if (keeps_alpha) lowering.shapes = {image.rows(), image.rows(), image.rows()};
  lowering.variant = text(mode, keeps_alpha ? " alpha" : "");
  lowering.scalars = {scalar(call, "ratio")};
  return lowering;
}

// --- colour spaces: BT.601 at full range, as in JPEG

float chroma_zero(DType dtype) { return dtype == u8 ? 128.0f : 0.5f; }

Lowering lower_rgb_to_yuv(const Call& call) {
  checked_colors(call, 0, 3);
  check_same_as_output(call, 0);
  return pixels_lowering(call, {}, [] {
    const Output z;
    const Rgb rgb(Input(0), z);
    const float zero = chroma_zero(z.dtype());
    z.store(finished(z, by_channel(z, rgb.luma(), rgb.dot(-0.168736f, -0.331264f, 0.5f) + zero,
                                   rgb.dot(0.5f, -0.418688f, -0.081312f) + zero)));
  });
}

Lowering lower_yuv_to_rgb(const Call& call) {
  checked_colors(call, 0, 3);
  check_same_as_output(call, 0);
  return pixels_lowering(call, {}, [] {
    const Output z;
    const Input x(0);
    const float zero = chroma_zero(z.dtype());
    const Tile y = channel(x, z, 0), u = channel(x, z, 1) - zero, v = channel(x, z, 2) - zero;
    z.store(finished(z, by_channel(z, y + v * 1.402f, y - u * 0.344136f - v * 0.714136f, y + u * 1.772f)));
  });
}

Kernel color_kernel(std::string name, std::vector<std::string> inputs, std::vector<ParamSpec> params,
                    std::string documentation, std::function<Lowering(const Call&)> lower) {
  Kernel kernel;
  kernel.name = std::move(name);
  kernel.inputs = std::move(inputs);
  kernel.params = std::move(params);
  kernel.dtypes.assign(std::begin(image_dtypes), std::end(image_dtypes));
  kernel.documentation = std::move(documentation);
  kernel.lower = std::move(lower);
  return kernel;
}

}  // namespace

std::vector<Kernel> image_color_kernels() {
  const auto amount = [](double value, std::string documentation) {
    return ParamSpec{"amount", Kind::number, value, std::move(documentation)};
  };
  return {
      color_kernel("grayscale", {"x"}, {}, "0.299 R + 0.587 G + 0.114 B; with 4 output channels alpha is unchanged",
                   lower_grayscale),
      color_kernel("brightness_contrast", {"x"},
                   {{"brightness", Kind::number, 0, "added to each channel; 1 turns black into white"},
                    {"contrast", Kind::number, 1, "factor around middle gray"}},
                   "(x - middle) * contrast + middle + brightness; alpha is unchanged", lower_brightness_contrast),
      color_kernel("saturation", {"x"}, {amount(1, "0: gray, 1: unchanged, more: stronger")},
                   "gray + (x - gray) * amount; alpha is unchanged", lower_saturation),
      color_kernel("sepia", {"x"}, {amount(1, "0: unchanged, 1: full sepia")},
                   "brown like an old photograph; alpha is unchanged", lower_sepia),
      color_kernel("vignette", {"x"},
                   {{"strength", Kind::number, 0.5, "how dark the corners get"},
                    {"radius", Kind::number, 0.75, "where it starts; 1: at the corners"}},
                   "darker towards the corners; alpha is unchanged", lower_vignette),
      color_kernel("lut_apply", {"x", "lut"}, {}, "lut[x], or lut[x, channel] for a lut [256,C]; x is u8",
                   lower_lut_apply),
      color_kernel("chroma_key", {"x"},
                   {{"color", Kind::color, "green",
                     "what becomes transparent: red, green and blue (0..255 for u8, 0..1 for f32), #rrggbb or a name"},
                    {"threshold", Kind::number, 0.3, "colours up to this distance become fully transparent"},
                    {"softness", Kind::number, 0.1, "distance beyond the threshold at which pixels are opaque", 0}},
                   "alpha from the distance to a colour", lower_chroma_key),
      color_kernel(
          "overlay_alpha", {"base", "top"},
          {{.name = "opacity", .default_value = 1, .documentation = "multiplies top's alpha", .aliases = {"alpha"}},
           {"x", Kind::integer, 0, "base's column at which top begins; may be negative"},
           {"y", Kind::integer, 0, "base's row at which top begins; may be negative"}},
          "top, of any size, blended over base by its alpha; outside of top base is unchanged", lower_overlay_alpha),
      color_kernel("mix", {"a", "b"}, {amount(0.5, "0: a, 1: b")}, "a + (b - a) * amount", lower_mix),
      color_kernel("video_mix", {"a", "b"},
                   {{.name = "mode",
                     .kind = Kind::string,
                     .default_value = "dissolve",
                     .documentation = "dissolve: a + (b - a) * ratio; add: a + b * ratio; multiply: dissolve to a * b, "
                                      "where white is 1",
                     .choices = {"dissolve", "add", "multiply"}},
                    {"ratio", Kind::number, 0.5, "how much of b there is"}},
                   "two frames as one; add and multiply leave a's alpha unchanged", lower_video_mix),
      color_kernel("yuv_to_rgb", {"x"}, {}, "BT.601 at full range, as in JPEG", lower_yuv_to_rgb),
      color_kernel("rgb_to_yuv", {"x"}, {}, "BT.601 at full range, as in JPEG", lower_rgb_to_yuv),
  };
}

}  // namespace tessera::kernels
