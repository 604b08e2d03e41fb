#include "conformance/oracles/image.hpp"

namespace tessera::conformance {

namespace {

// f gets the image, a place and a channel that is not alpha; alpha is kept.
template <class F>
Oracle color_filter(F f) {
  return [f](const Call& call) {
    const Image image(call.inputs[0]);
    return each_pixel(call, [&](std::int64_t y, std::int64_t x, std::int64_t c) {
      return image.is_alpha(c) ? Approx(image.at(y, x, c)) : f(call, image, y, x, c);
    });
  };
}

Answer grayscale(const Call& call) {
  const Image image(call.inputs[0]);
  return each_pixel(call, [&](std::int64_t y, std::int64_t x, std::int64_t c) {
    if (c == 3) return Approx(image.at(y, x, 3));
    if (!image.is_u8) return pixel(f32, image.gray(y, x), 2);
    const auto channel = [&](std::int64_t k) { return static_cast<std::int64_t>(image.at(y, x, k)); };
    return Approx(static_cast<Real>((9798 * channel(0) + 19235 * channel(1) + 3735 * channel(2) + 16384) >> 15));
  });
}

Approx brightness_contrast(const Call& call, const Image& image, std::int64_t y, std::int64_t x, std::int64_t c) {
  const double brightness = call.number("brightness", 0);
  const double contrast = call.number("contrast", 1);
  const double middle = image.white() / 2;
  const double value = (image.at(y, x, c) - middle) * contrast + middle + image.white() * brightness;
  return pixel(call.dtype, value, 2 + 2 * std::fabs(contrast) + std::fabs(brightness));
}

Approx saturation(const Call& call, const Image& image, std::int64_t y, std::int64_t x, std::int64_t c) {
  const double amount = call.number("amount", 1);
  const double gray = image.gray(y, x);
  return pixel(call.dtype, gray + (image.at(y, x, c) - gray) * amount, 2 + 4 * std::fabs(amount));
}

Approx sepia(const Call& call, const Image& image, std::int64_t y, std::int64_t x, std::int64_t c) {
  static constexpr double weights[3][3] = {{0.393, 0.769, 0.189}, {0.349, 0.686, 0.168}, {0.272, 0.534, 0.131}};
  double toned = 0;
  for (std::int64_t k = 0; k < 3; ++k) toned += weights[c][k] * image.at(y, x, k);
  const double amount = call.number("amount", 1);
  const double value = image.at(y, x, c) + (toned - image.at(y, x, c)) * amount;
  return pixel(call.dtype, value, 3 + 6 * std::fabs(amount));
}

Approx vignette(const Call& call, const Image& image, std::int64_t y, std::int64_t x, std::int64_t c) {
  const double strength = call.number("strength", 0.5);
  const double radius = call.number("radius", 0.75);
  const auto height = static_cast<double>(image.height);
  const auto width = static_cast<double>(image.width);
  const double dy = static_cast<double>(y) + 0.5 - height / 2;
  const double dx = static_cast<double>(x) + 0.5 - width / 2;
  const double d = std::hypot(dy, dx) / (std::hypot(height, width) / 2);
  const double t = radius >= 1 ? (d >= radius ? 1 : 0) : std::clamp((d - radius) / (1 - radius), 0.0, 1.0);
  const double factor = 1 - strength * t * t * (3 - 2 * t);
  // Where radius is next to 1, what d is off by is stretched.
  const double stretch = radius >= 1 ? 0 : 2 * std::fabs(strength) / (1 - radius);
  return pixel(call.dtype, image.at(y, x, c) * factor, 2 + 2 * std::fabs(strength) + stretch);
}

// Of the texts, the cases have these.
std::vector<double> key_color(const Call& call, double white) {
  const Value* given = call.params.find("color");
  if (!given || !given->is_string()) return call.list("color", {0, white, 0});
  if (given->string() == "magenta") return {white, 0, white};
  return {white * 0x20 / 255, white * 0x80 / 255, white * 0xF1 / 255};  // "#2080F1"
}

// Distances next to the threshold may fall on either side of a hard edge.
Answer chroma_key(const Call& call) {
  const Image image(call.inputs[0]);
  const std::vector<double> key = key_color(call, image.white());
  const double threshold = call.number("threshold", 0.3);
  const double softness = call.number("softness", 0.1);
  return each_pixel(call, [&](std::int64_t y, std::int64_t x, std::int64_t c) {
    if (c < 3) return Approx(image.at(y, x, c));
    double squares = 0;
    for (std::int64_t k = 0; k < 3; ++k) {
      const double step = (image.at(y, x, k) - key[static_cast<std::size_t>(k)]) / image.white();
      squares += step * step;
    }
    const double d = std::sqrt(squares / 3);
    const double own = image.has_alpha() ? image.at(y, x, 3) : image.white();
    if (softness == 0) return Approx(d > threshold ? own : 0, std::fabs(d - threshold) < 1e-6 ? infinity : 0);
    const double alpha = std::clamp((d - threshold) / softness, 0.0, 1.0);
    return pixel(call.dtype, alpha * own, 2 + 2 / softness);
  });
}

Answer overlay_alpha(const Call& call) {
  const Image base(call.inputs[0]);
  const Image top(call.inputs[1]);
  const double opacity = call.number("opacity", call.number("alpha", 1));
  const std::int64_t left = call.integer("x", 0);
  const std::int64_t above = call.integer("y", 0);
  return each_pixel(call, [&](std::int64_t row, std::int64_t column, std::int64_t c) {
    const double below = base.at(row, column, c);
    const std::int64_t y = row - above;
    const std::int64_t x = column - left;
    if (y < 0 || x < 0 || y >= top.height || x >= top.width) return Approx(below);
    const double alpha = top.at(y, x, 3) / base.white() * opacity;
    if (base.is_alpha(c)) return pixel(call.dtype, alpha * base.white() + below * (1 - alpha), 4);
    return pixel(call.dtype, below + (top.at(y, x, c) - below) * alpha, 4);
  });
}

Answer mix(const Call& call) {
  Answer answer(call);
  answer.zeros_have_signs = false;
  const double amount = call.number("amount", 0.5);
  for (std::size_t i = 0; i < answer.points.size(); ++i) {
    const auto a = static_cast<double>(call.inputs[0].at(i));
    const auto b = static_cast<double>(call.inputs[1].at(i));
    answer.points[i] = pixel(call.dtype, a + (b - a) * amount, (std::fabs(a) + std::fabs(b)) * (1 + std::fabs(amount)));
  }
  return answer;
}

Answer video_mix(const Call& call) {
  const Image a(call.inputs[0]);
  const Image b(call.inputs[1]);
  const std::string mode = call.string("mode", "dissolve");
  const double ratio = call.number("ratio", 0.5);
  return each_pixel(call, [&](std::int64_t y, std::int64_t x, std::int64_t c) {
    const double first = a.at(y, x, c);
    const double second = b.at(y, x, c);
    if (mode != "dissolve" && a.is_alpha(c)) return Approx(first);
    const double magnitude = 4 * (1 + std::fabs(ratio));
    if (mode == "add") return pixel(call.dtype, first + ratio * second, magnitude);
    const double target = mode == "multiply" ? first * second / a.white() : second;
    return pixel(call.dtype, (1 - ratio) * first + ratio * target, magnitude);
  });
}

Approx rgb_to_yuv(const Call& call, const Image& image, std::int64_t y, std::int64_t x, std::int64_t c) {
  static constexpr double weights[3][3] = {
      {0.299, 0.587, 0.114}, {-0.168736, -0.331264, 0.5}, {0.5, -0.418688, -0.081312}};
  double value = c == 0 ? 0 : (image.is_u8 ? 128 : 0.5);
  for (std::int64_t k = 0; k < 3; ++k) value += weights[c][k] * image.at(y, x, k);
  return pixel(call.dtype, value, 3);
}

Approx yuv_to_rgb(const Call& call, const Image& image, std::int64_t y, std::int64_t x, std::int64_t c) {
  static constexpr double weights[3][2] = {{0, 1.402}, {-0.344136, -0.714136}, {1.772, 0}};
  const double zero = image.is_u8 ? 128 : 0.5;
  const double value =
      image.at(y, x, 0) + weights[c][0] * (image.at(y, x, 1) - zero) + weights[c][1] * (image.at(y, x, 2) - zero);
  return pixel(call.dtype, value, 6);
}

Answer lut_apply(const Call& call) {
  const Image image(call.inputs[0]);
  const Tensor& lut = call.inputs[1];
  return each_pixel(call, [&](std::int64_t y, std::int64_t x, std::int64_t c) {
    const auto entry = static_cast<std::int64_t>(image.at(y, x, c));
    return Approx(lut.at(static_cast<std::size_t>(lut.shape.rank() == 1 ? entry : entry * lut.shape[1] + c)));
  });
}

}  // namespace

void add_color_oracles(Oracles& to) {
  to["grayscale"] = grayscale;
  to["brightness_contrast"] = color_filter(brightness_contrast);
  to["saturation"] = color_filter(saturation);
  to["sepia"] = color_filter(sepia);
  to["vignette"] = color_filter(vignette);
  to["chroma_key"] = chroma_key;
  to["overlay_alpha"] = overlay_alpha;
  to["mix"] = mix;
  to["video_mix"] = video_mix;
  to["rgb_to_yuv"] = color_filter(rgb_to_yuv);
  to["yuv_to_rgb"] = color_filter(yuv_to_rgb);
  to["lut_apply"] = lut_apply;
}

}  // namespace tessera::conformance
