#include "kernels/builtin/image_filters.hpp"

#include <tessera/tile.hpp>

#include "core/text.hpp"
#include "kernels/builtin/common.hpp"
#include "kernels/builtin/gaussian.hpp"

#include <algorithm>
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

Lowering lower_gaussian_blur(const Call& call) {
  const Image image = checked_image_like_output(call);
  const std::int64_t radius = call["radius"].integer;
  const double automatic = static_cast<double>(std::max<std::int64_t>(radius, 1)) / 2;
  const double sigma = call["sigma"].is_given ? call["sigma"].number : automatic;
  const Weights weights = gaussian_weights(call.output.dtype, radius, sigma);
  const Taps taps(weights);
  Lowering lowering = rows_lowering(image, taps.variant(), [taps, step = image.step()] {
    const Output z;
    const Input x(0);
    z.store(taps.is_fixed ? blurred_to_u8(z, x, taps, step) : blurred(z, x, taps, step));
  });
  lowering.scalars = scalars_of(weights);
  return lowering;
}

Lowering lower_box_blur(const Call& call) {
  const Image image = checked_image_like_output(call);
  const int radius = static_cast<int>(call["radius"].integer);
  return rows_lowering(image, text("radius ", radius), [radius, step = image.step()] {
    const Output z;
    const Input x(0);
    const int side = 2 * radius + 1, window = side * side;
    const Tile rows = z.index(0, radius, radius);
    const Tile columns = z.index(1);
    const auto window_sum = [&](const auto& part) {
      constexpr int short_sum = 16;
      return sum_of(side, short_sum, part, [&](const Tile& sum, const Index& k) { return sum + part(k); });
    };
    const Tile sums = window_sum([&](const Index& k) {
      return tile::cast(x.at({rows, columns + (k - radius) * step}, Border::clamp, step), z.dtype() == u8 ? u32 : f32);
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
  return rows_lowering(image, "", [image] {
    const Output z;
    const Input x(0);
    const auto at = [&](int dy, int dx) {
      const Tile pixel = tile::load_shifted(x, z, {dy, dx * image.step()}, Border::clamp, image.step());
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
  Kernel kernel;
  kernel.name = std::move(name);
  kernel.inputs = {"x"};
  kernel.params = std::move(params);
  kernel.dtypes.assign(std::begin(image_dtypes), std::end(image_dtypes));
  kernel.documentation = std::move(documentation);
  kernel.lower = std::move(lower);
  return kernel;
}

}  // namespace

std::vector<Kernel> image_filter_kernels() {
  const ParamSpec radius = {"radius", Kind::integer, 1, "pixels to each side", 0, max_radius};
  std::vector<Kernel> kernels;
  kernels.push_back(filter("gaussian_blur", {radius, positive("sigma", 0.5, "in pixels; default max(radius, 1) / 2")},
                           "Gaussian blur; for u8 as OpenCV's GaussianBlur", lower_gaussian_blur));
  kernels.back().aliases = {"blur"};
  kernels.push_back(filter("sharpen",
                           {{"amount", Kind::number, 1, "how much detail is added", -65536, 65536},
                            radius,
                            positive("sigma", 1, "of the blur, in pixels")},
                           "x + amount * (x - gaussian_blur(x))", lower_sharpen));
  kernels.push_back(filter("box_blur", {radius}, "the mean of a square window", lower_box_blur));
  kernels.push_back(
      filter("sobel", {}, "gradient magnitude of each channel: sqrt(gx^2 + gy^2); alpha is unchanged", lower_sobel));
  kernels.push_back(filter("denoise",
                           {{"radius", Kind::integer, 2, "pixels to each side", 1, 8},
                            positive("sigma_space", 2, "spatial reach of the weights, in pixels"),
                            positive("sigma_color", 25, "reach of the weights in colour; default 0.1 for f32")},
                           "bilateral filter: the mean of nearby pixels with a similar colour", lower_denoise));
  return kernels;
}

}  // namespace tessera::kernels
