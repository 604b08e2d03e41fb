#include "kernels/builtin/image_filters.hpp"

#include <tessera/tile.hpp>

#include "core/text.hpp"
#include "kernels/builtin/common.hpp"
#include "kernels/builtin/gaussian.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace tessera::kernels {

using core::text;
using tile::Border;
using tile::Index;
using tile::Input;
using tile::Output;
using tile::Tile;

namespace {

using Kind = ParamSpec::Kind;

// Sums of u8 over windows of this radius fit 31 bits.
constexpr int max_radius = 1024;

// The radius that OpenCV derives from sigma: the weights beyond 3 sigma vanish when they are rounded for u8.
std::int64_t radius_of(const Call& call, double sigma) {
  const double reach = call.output.dtype == u8 ? 3 : 4;
  const double diameter = std::nearbyint(sigma * reach * 2 + 1);
  if (diameter > 2 * max_radius + 1) {
    fail(call, Errc::invalid_parameter,
         text("parameter 'sigma' is ", sigma, ", for which the radius would be above ", max_radius, ": give one"));
  }
  return static_cast<std::int64_t>(diameter) / 2;
}

// The sigma that OpenCV derives from the radius.
double sigma_of(std::int64_t radius) { return 0.3 * static_cast<double>(radius - 1) + 0.8; }

Weights blur_weights(const Call& call) {
  const Argument &radius = call["radius"], &sigma = call["sigma"];
  if (!sigma.is_given) return gaussian_weights(call.output.dtype, radius.integer, sigma_of(radius.integer));
  const bool is_derived = !radius.is_given;
  return gaussian_weights(call.output.dtype, is_derived ? radius_of(call, sigma.number) : radius.integer, sigma.number);
}

Lowering lower_gaussian_blur(const Call& call) {
  const Image image = checked_image_like_output(call);
  const Weights weights = blur_weights(call);
  const Taps taps(weights);
  const Rows x(image, call);
  Lowering lowering = rows_lowering(image, x, taps.variant(), [taps, x] {
    const Output z;
    z.store(taps.is_fixed ? blurred_to_u8(z, x, taps) : blurred(z, x, taps));
  });
  lowering.scalars = scalars_of(weights);
  return lowering;
}

Lowering lower_box_blur(const Call& call) {
  const Image image = checked_image_like_output(call);
  const int radius = static_cast<int>(call["radius"].integer);
  const Rows x(image, call);
  return rows_lowering(image, x, text("radius ", radius), [radius, x] {
    const Output z;
    const int side = 2 * radius + 1, window = side * side;
    const Tile rows = z.index(0, radius, radius);
    const Tile columns = z.index(1);
    const auto window_sum = [&](const auto& part) {
      constexpr int short_sum = 16;
      return sum_of(side, short_sum, part, [&](const Tile& sum, const Index& k) { return sum + part(k); });
    };
    const Tile sums = window_sum([&](const Index& k) {
      return tile::cast(x.at(rows, columns + (k - radius) * x.step), z.dtype() == u8 ? u32 : f32);
    });
    const Tile sum = window_sum([&](const Index& k) { return row_of(z, sums, k); });
    constexpr int most_exact = (1 << 24) / 255;  // number of u8 pixels whose sum is exact in f32
    if (z.dtype() == f32 || window <= most_exact) {
      return z.store(finished(z, as_float(sum) / static_cast<float>(window)));
    }
    const Tile half_up = tile::cast<std::int32_t>(sum + window / 2);  // a window has an odd number of pixels
    z.store(tile::cast<std::uint8_t>(small_quotient(half_up, tile::constant<std::int32_t>(window), s32)));
  });
}

Lowering lower_sobel(const Call& call) {
  const Image image = checked_image_like_output(call);
  const Rows rows(image, call);
  return rows_lowering(image, rows, "", [image, border = rows.border] {
    const Output z;
    const Input x(0);
    const auto at = [&](int dy, int dx) {
      const Tile pixel = tile::load_shifted(x, z, {dy, dx * image.step()}, border, image.step());
      return tile::cast(pixel, z.dtype() == u8 ? s32 : f32);
    };
    const Tile nw = at(-1, -1), n = at(-1, 0), ne = at(-1, 1), w = at(0, -1), e = at(0, 1);
    const Tile sw = at(1, -1), s = at(1, 0), se = at(1, 1);
    const Tile gx = (ne + 2 * e + se) - (nw + 2 * w + sw);
    const Tile gy = (sw + 2 * s + se) - (nw + 2 * n + ne);
    const Tile magnitude = finished(z, tile::sqrt(as_float(gx * gx + gy * gy)));
    z.store(keep_alpha(z, image, tile::load_like(x, z), magnitude));
  });
}

ParamSpec positive(std::string name, double default_value, std::string documentation) {
  return {.name = std::move(name),
          .default_value = default_value,
          .documentation = std::move(documentation),
          .min = ParamSpec::above_zero,
          .max = ParamSpec::greatest};
}

Kernel filter(std::string name, std::vector<ParamSpec> params, std::string documentation,
              std::function<Lowering(const Call&)> lower) {
  params.push_back(border_param());
  Kernel kernel;
  kernel.name = std::move(name);
  kernel.inputs = {"x"};
  kernel.params = std::move(params);
  kernel.dtypes.assign(std::begin(image_dtypes), std::end(image_dtypes));
  kernel.documentation = std::move(documentation);
  kernel.lower = std::move(lower);
  return kernel;
}

struct BorderName {
  std::string_view name;
  Border border;
};
// Named as OpenCV does, in whose names `reflect` repeats the outermost pixel.
constexpr BorderName border_names[] = {{"clamp", Border::clamp},
                                       {"reflect", Border::symmetric},
                                       {"reflect_101", Border::reflect},
                                       {"wrap", Border::wrap},
                                       {"zero", Border::zero}};

}  // namespace

ParamSpec border_param() {
  ParamSpec spec{"border", Kind::string, "clamp",
                 "what is outside of a row abc: clamp aa|abc|cc, reflect ba|abc|cb, reflect_101 cb|abc|ba, "
                 "wrap bc|abc|ab, zero 00|abc|00"};
  for (const BorderName& one : border_names) spec.choices.emplace_back(one.name);
  return spec;
}

Border border_of(const Call& call) {
  return std::ranges::find(border_names, call["border"].string(), &BorderName::name)->border;
}

std::string border_variant(Border border) {
  return border == Border::clamp ? "" : text(" border ", static_cast<int>(border));
}

std::vector<Kernel> image_filter_kernels() {
  const ParamSpec radius = {"radius", Kind::integer, 1, "pixels to each side", 0, max_radius};
  ParamSpec blur_radius = radius;
  blur_radius.documentation += "; if only sigma is given, 3 sigma for u8 and 4 sigma for f32, rounded";
  std::vector<Kernel> kernels;
  kernels.push_back(
      filter("gaussian_blur", {blur_radius, positive("sigma", 0.8, "in pixels; default 0.3 * (radius - 1) + 0.8")},
             "Gaussian blur; OpenCV's GaussianBlur with the same size, sigma and border", lower_gaussian_blur));
  kernels.back().aliases = {"blur"};
  kernels.push_back(filter("sharpen",
                           {{.name = "amount",
                             .default_value = 1,
                             .documentation = "how much detail is added",
                             .min = -65536,
                             .max = 65536,
                             .aliases = {"strength"}},
                            radius,
                            positive("sigma", 1, "of the blur, in pixels")},
                           "x + amount * (x - gaussian_blur(x))", lower_sharpen));
  kernels.push_back(filter("box_blur", {radius}, "the mean of a square window", lower_box_blur));
  kernels.push_back(
      filter("sobel", {}, "gradient magnitude of each channel: sqrt(gx^2 + gy^2); alpha is unchanged", lower_sobel));
  kernels.push_back(filter("denoise",
                           {{"radius", Kind::integer, 2, "pixels to each side", 1, 8},
                            positive("sigma_space", 2, "spatial reach of the weights, in pixels"),
                            positive("sigma_color", 25, "reach of the weights in colour; default 0.1 for f32"),
                            {.name = "strength",
                             .default_value = 0.1,
                             .documentation = "sigma_color as a part of the full range: 0.1 is 25.5 for u8; give one",
                             .min = ParamSpec::above_zero,
                             .max = ParamSpec::greatest}},
                           "bilateral filter: the mean of nearby pixels with a similar colour", lower_denoise));
  return kernels;
}

}  // namespace tessera::kernels
