#include "driver/gpu/time_limit.hpp"

#include <tessera/error.hpp>

#include "core/environment.hpp"
#include "core/text.hpp"

#include <cmath>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace tessera::driver::gpu {

namespace {

constexpr const char* variable = "TESSERA_GPU_TIMEOUT";
constexpr double usual_seconds = 60;
constexpr double most_seconds = 1e9;  // more would overflow when added to a time

// The value of the variable; nullopt if it is no number of seconds.
std::optional<double> wished_seconds() noexcept {
  const char* wish = core::environment_variable(variable);
  if (!wish || *wish == '\0') return usual_seconds;
  char* end = nullptr;
  const double value = std::strtod(wish, &end);
  if (*end != '\0' || !std::isfinite(value) || value < 0) return std::nullopt;
  return value;
}

}  // namespace

std::chrono::nanoseconds time_limit() noexcept {
  double seconds = wished_seconds().value_or(usual_seconds);
  if (seconds == 0 || seconds > most_seconds) seconds = most_seconds;
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
}

void check_time_limit() {
  if (wished_seconds()) return;
  throw Error(Errc::invalid_argument,
              core::text(variable, " is '", std::string_view(core::environment_variable(variable)).substr(0, 64),
                         "'; it must be a number of seconds, or 0 for no limit"));
}

}  // namespace tessera::driver::gpu
