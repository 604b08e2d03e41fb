#include "core/environment.hpp"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace tessera::core {

namespace {

// An array that `environ` has pointed at. Never freed, since other threads may be reading it.
struct Published {
  std::string variable;
  std::vector<char*> environment;
};

}  // namespace

const char* environment_variable(const char* name) noexcept {
#if defined(__linux__) && !defined(__ANDROID__)
  return secure_getenv(name);
#else
  return std::getenv(name);  // no program of a phone or of Windows has such privileges
#endif
}

bool is_switched_on(const char* name) noexcept {
  const char* value = environment_variable(name);
  return value && std::string_view(value) == "1";
}

void set_default_environment(const char* name, const char* value) {
  static auto& mutex = *new std::mutex();
  static auto& published = *new std::deque<Published>();
  const std::scoped_lock lock(mutex);
  if (std::getenv(name)) return;
  Published& next = published.emplace_back();
  next.variable = std::string(name) + "=" + value;
  for (char** variable = environ; variable && *variable; ++variable) next.environment.push_back(*variable);
  next.environment.push_back(next.variable.data());
  next.environment.push_back(nullptr);
  std::atomic_ref(environ).store(next.environment.data(), std::memory_order_release);
}

}  // namespace tessera::core
