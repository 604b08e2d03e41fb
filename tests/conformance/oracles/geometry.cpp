#include "conformance/oracles/image.hpp"

#include <string>

namespace tessera::conformance {

namespace {

// Which pixels along an axis a point of the output is made from.
struct Taps {
  std::int64_t first = 0;
  std::vector<double> weights;
  double slack = 0;  // of the place between the pixels
};

// Keys' cubic with a = -0.75, at a distance.
double cubic(double distance) {
  const double a = -0.75;
  const double t = std::fabs(distance);
  if (t <= 1) return (a + 2) * t * t * t - (a + 3) * t * t + 1;
  if (t < 2) return a * t * t * t - 5 * a * t * t + 8 * a * t - 4 * a;
  return 0;
}

// Between pixels the place is computed in f32, as the contract says.
Taps taps(const std::string& method, std::int64_t i, std::int64_t in, std::int64_t out) {
  if (method == "nearest") return {(2 * i + 1) * in / (2 * out), {1}, 0};
  const float scale = static_cast<float>(in) / static_cast<float>(out);
  const float centre = (static_cast<float>(i) + 0.5F) * scale;
  const double place = centre - 0.5F;
  const double first = std::floor(place);
  const double slack = 2 * std::numeric_limits<float>::epsilon() * (std::fabs(place) + 1);
  if (method == "bilinear") return {static_cast<std::int64_t>(first), {1 - (place - first), place - first}, slack};
  Taps result{static_cast<std::int64_t>(first) - 1, {}, 4 * slack};
  for (int k = -1; k <= 2; ++k) result.weights.push_back(cubic(place - first - k));
  return result;
}

// A value before rounding, and its slack.
Approx resized(const Image& image, const std::string& method, std::int64_t y, std::int64_t x, std::int64_t channel,
               std::int64_t height, std::int64_t width) {
  const Taps rows = taps(method, y, image.height, height);
  const Taps columns = taps(method, x, image.width, width);
  double value = 0;
  double most = 0;
  for (std::size_t i = 0; i < rows.weights.size(); ++i) {
    for (std::size_t k = 0; k < columns.weights.size(); ++k) {
      const double at =
          image.at(rows.first + static_cast<std::int64_t>(i), columns.first + static_cast<std::int64_t>(k), channel);
      value += rows.weights[i] * columns.weights[k] * at;
      most = std::max(most, std::fabs(at));
    }
  }
  if (method == "nearest") return value;
  return {value, static_cast<Real>(2 * most * (rows.slack + columns.slack) + 32 * most * 0x1p-23)};
}

Answer resize(const Call& call, const std::string& method) {
  const Image image(call.inputs[0]);
  return each_pixel(call, [&](std::int64_t y, std::int64_t x, std::int64_t c) {
    Approx result = resized(image, method, y, x, c, call.shape[0], call.shape[1]);
    if (image.is_u8 && method != "nearest") result.slack += 1e-3L;
    return result;
  });
}

Answer crop(const Call& call) {
  const Image image(call.inputs[0]);
  const std::int64_t top = call.integer("top", call.integer("y", 0));
  const std::int64_t left = call.integer("left", call.integer("x", 0));
  Answer answer(call);
  const std::int64_t channels = image.channels;
  for (std::int64_t i = 0; i < call.shape.elements(); ++i) {
    const std::int64_t y = i / channels / call.shape[1] + top;
    const std::int64_t x = i / channels % call.shape[1] + left;
    const std::int64_t from = (y * image.width + x) * channels + i % channels;
    answer.points[static_cast<std::size_t>(i)] = call.inputs[0].at(static_cast<std::size_t>(from));
  }
  return answer;
}

Answer preprocess(const Call& call) {
  Answer answer(call);
  answer.zeros_have_signs = false;
  const Image image(call.inputs[0]);
  const Value* given = call.params.find("normalize");
  const bool normalizes = !given || given->boolean();
  const std::vector<double> mean = call.list("mean", {0.485, 0.456, 0.406});
  const std::vector<double> deviation = call.list("std", {0.229, 0.224, 0.225});
  for_each_point(call.shape, [&](std::size_t i, const std::vector<std::int64_t>& point) {
    const auto c = static_cast<std::size_t>(point[1]);
    Approx value = resized(image, "bilinear", point[2], point[3], point[1], call.shape[2], call.shape[3]);
    value = {value.value / 255, value.slack / 255 + 4 * epsilon(f32)};
    if (normalizes) {
      value = {(value.value - mean[c]) / deviation[c], (value.slack + 8 * epsilon(f32)) / std::fabs(deviation[c])};
    }
    answer.points[i] = value;
  });
  return answer;
}

}  // namespace

void add_geometry_oracles(Oracles& to) {
  to["resize"] = [](const Call& call) { return resize(call, call.string("method", "bilinear")); };
  to["bicubic_scale"] = [](const Call& call) { return resize(call, "bicubic"); };
  to["video_crop"] = crop;
  to["crop"] = crop;
  to["preprocess"] = preprocess;
}

}  // namespace tessera::conformance
