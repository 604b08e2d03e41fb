#include "kernels/builtin/color_text.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"
#include "kernels/builtin/image.hpp"

#include <algorithm>
#include <optional>
#include <vector>

namespace tessera::kernels {

namespace {

using core::text;
using Bytes = std::array<int, 3>;

struct Named {
  std::string_view name;
  Bytes color;
};
constexpr Named names[] = {{"black", {0, 0, 0}},      {"white", {255, 255, 255}}, {"gray", {128, 128, 128}},
                           {"red", {255, 0, 0}},      {"green", {0, 255, 0}},     {"blue", {0, 0, 255}},
                           {"yellow", {255, 255, 0}}, {"cyan", {0, 255, 255}},    {"magenta", {255, 0, 255}}};

int digit_of(char letter) {
  if (letter >= '0' && letter <= '9') return letter - '0';
  if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
  if (letter >= 'A' && letter <= 'F') return letter - 'A' + 10;
  return -1;
}

// "#rrggbb" or "#rgb".
std::optional<Bytes> parsed(std::string_view given) {
  if (!given.starts_with('#') || (given.size() != 4 && given.size() != 7)) return std::nullopt;
  const std::size_t digits = given.size() / 3;  // of a channel
  Bytes color{};
  for (std::size_t c = 0; c < 3; ++c) {
    const int first = digit_of(given[1 + c * digits]), last = digit_of(given[c * digits + digits]);
    if (first < 0 || last < 0) return std::nullopt;
    color[c] = first * 16 + last;
  }
  return color;
}

Bytes color_of_text(const Call& call, std::string_view param, std::string_view given) {
  if (const auto found = std::ranges::find(names, given, &Named::name); found != std::end(names)) return found->color;
  if (const auto color = parsed(given)) return *color;
  std::vector<std::string_view> known;
  std::string listed;
  for (const Named& one : names) {
    known.push_back(one.name);
    listed += text(", ", one.name);
  }
  fail(call, Errc::invalid_parameter,
       text("parameter '", param, "' must be #rrggbb, #rgb or one of ", listed.substr(2), ", got \"",
            core::shortened(given), "\"", core::suggestion(given, known)));
}

}  // namespace

std::array<double, 3> checked_color(const Call& call, std::string_view param, DType dtype) {
  const Value& value = *call[param].value;
  if (!value.is_string()) {
    const std::vector<double> numbers = checked_numbers(call, param, 3);
    return {numbers[0], numbers[1], numbers[2]};
  }
  const Bytes color = color_of_text(call, param, value.string());
  std::array<double, 3> scaled{};
  for (std::size_t c = 0; c < 3; ++c) scaled[c] = color[c] / 255.0 * full_scale(dtype);
  return scaled;
}

}  // namespace tessera::kernels
