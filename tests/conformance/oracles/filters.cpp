#include "conformance/oracles/image.hpp"
#include "support/gaussian.hpp"

namespace tessera::conformance {

namespace {

using test::fixed_gaussian;
using test::gaussian;

template <class Number>
Number window_sum(const Image& image, const std::vector<Number>& weights, std::int64_t y, std::int64_t x,
                  std::int64_t channel) {
  const auto radius = static_cast<std::int64_t>(weights.size() / 2);
  Number sum = 0;
  for (std::int64_t dy = -radius; dy <= radius; ++dy) {
    Number row = 0;
    for (std::int64_t dx = -radius; dx <= radius; ++dx) {
      row += weights[static_cast<std::size_t>(dx + radius)] * static_cast<Number>(image.at(y + dy, x + dx, channel));
    }
    sum += weights[static_cast<std::size_t>(dy + radius)] * row;
  }
  return sum;
}

// For f32 images the magnitude is that of the window.
double window_magnitude(const Image& image) {
  double most = 0;
  for (const double value : image.values) most = std::max(most, std::fabs(value));
  return most;
}

// As OpenCV derives them: the width of the window from sigma, or sigma from the width.
struct Blur {
  std::int64_t radius = 1;
  double sigma = 0;

  explicit Blur(const Call& call) {
    const bool has_radius = call.params.find("radius") != nullptr, has_sigma = call.params.find("sigma") != nullptr;
    if (has_radius) radius = call.integer("radius", 0);
    if (has_sigma) {
      sigma = call.number("sigma", 0);
      if (!has_radius) radius = (std::lrint(sigma * (call.dtype == u8 ? 3 : 4) * 2 + 1) | 1) / 2;
    } else {
      const auto width = static_cast<double>(2 * radius + 1);
      sigma = 0.3 * ((width - 1) * 0.5 - 1) + 0.8;
    }
  }
};

Answer gaussian_blur(const Call& call) {
  const Image image(call.inputs[0], call.string("border", "clamp"));
  const auto [radius, sigma] = Blur(call);
  const std::vector<double> weights = gaussian(radius, sigma);
  const std::vector<std::int64_t> fixed = fixed_gaussian(radius, sigma);
  const double magnitude = window_magnitude(image);
  return each_pixel(call, [&](std::int64_t y, std::int64_t x, std::int64_t c) {
    if (image.is_u8) return Approx(static_cast<Real>((window_sum(image, fixed, y, x, c) + 32768) >> 16));
    if (weights.size() == 1) return Approx(image.at(y, x, c));
    return pixel(f32, window_sum(image, weights, y, x, c), magnitude);
  });
}

Answer sharpen(const Call& call) {
  const Image image(call.inputs[0], call.string("border", "clamp"));
  const std::int64_t radius = call.integer("radius", 1);
  const double sigma = call.number("sigma", 1);
  const double amount = call.number("amount", call.number("strength", 1));
  const std::vector<double> weights = gaussian(radius, sigma);
  const std::vector<std::int64_t> fixed = fixed_gaussian(radius, sigma);
  const double magnitude = window_magnitude(image) * (1 + 2 * std::fabs(amount));
  const std::int64_t fixed_amount = std::llround(256 * amount);
  return each_pixel(call, [&](std::int64_t y, std::int64_t x, std::int64_t c) {
    const double in = image.at(y, x, c);
    if (!image.is_u8) return pixel(f32, in + amount * (in - window_sum(image, weights, y, x, c)), magnitude);
    const auto sharp = static_cast<std::int64_t>(in) * 65536;
    const std::int64_t v = window_sum(image, fixed, y, x, c);
    return Approx(static_cast<Real>((sharp * 256 + fixed_amount * (sharp - v) + (std::int64_t{1} << 23)) >> 24));
  });
}

Answer box_blur(const Call& call) {
  const Image image(call.inputs[0], call.string("border", "clamp"));
  const std::int64_t radius = call.integer("radius", 1);
  const double magnitude = window_magnitude(image);
  const std::vector<double> ones(static_cast<std::size_t>(2 * radius + 1), 1.0);
  const auto count = static_cast<double>(ones.size() * ones.size());
  return each_pixel(call, [&](std::int64_t y, std::int64_t x, std::int64_t c) {
    Approx result = pixel(call.dtype, window_sum(image, ones, y, x, c) / count, magnitude);
    if (!image.is_u8) result.slack *= static_cast<Real>(ones.size());
    return result;
  });
}

Answer sobel(const Call& call) {
  const Image image(call.inputs[0], call.string("border", "clamp"));
  const double magnitude = 8 * window_magnitude(image);
  return each_pixel(call, [&](std::int64_t y, std::int64_t x, std::int64_t c) {
    if (image.is_alpha(c)) return Approx(image.at(y, x, c));
    double gx = 0;
    double gy = 0;
    for (std::int64_t i = -1; i <= 1; ++i) {
      const double weight = i == 0 ? 2 : 1;
      gx += weight * (image.at(y + i, x + 1, c) - image.at(y + i, x - 1, c));
      gy += weight * (image.at(y + 1, x + i, c) - image.at(y - 1, x + i, c));
    }
    return pixel(call.dtype, std::sqrt(gx * gx + gy * gy), magnitude);
  });
}

Answer denoise(const Call& call) {
  const Image image(call.inputs[0], call.string("border", "clamp"));
  const std::int64_t radius = call.integer("radius", 2);
  const double space = call.number("sigma_space", 2);
  const bool has_strength = call.params.find("strength") != nullptr;
  const double color =
      has_strength ? call.number("strength", 0) * image.white() : call.number("sigma_color", image.is_u8 ? 25 : 0.1);
  const double magnitude = window_magnitude(image);
  return each_pixel(call, [&](std::int64_t y, std::int64_t x, std::int64_t c) {
    double sum = 0;
    double weights = 0;
    for (std::int64_t dy = -radius; dy <= radius; ++dy) {
      for (std::int64_t dx = -radius; dx <= radius; ++dx) {
        double difference = 0;
        for (std::int64_t k = 0; k < image.channels; ++k) {
          const double step = image.at(y + dy, x + dx, k) - image.at(y, x, k);
          if (!image.is_alpha(k)) difference += step * step;
        }
        const double weight = std::exp(-static_cast<double>(dx * dx + dy * dy) / (2 * space * space)) *
                              std::exp(-difference / (2 * color * color));
        sum += weight * image.at(y + dy, x + dx, c);
        weights += weight;
      }
    }
    return pixel(call.dtype, sum / weights, magnitude);
  });
}

}  // namespace

void add_filter_oracles(Oracles& to) {
  to["gaussian_blur"] = gaussian_blur;
  to["sharpen"] = sharpen;
  to["box_blur"] = box_blur;
  to["sobel"] = sobel;
  to["denoise"] = denoise;
}

}  // namespace tessera::conformance
