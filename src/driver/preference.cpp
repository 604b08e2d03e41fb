#include "driver/preference.hpp"

namespace tessera::driver {

std::vector<std::string> by_preference(const std::vector<DeviceInfo>& devices) {
  std::vector<std::string> backends;
  const auto add = [&](auto is_wanted) {
    for (const DeviceInfo& info : devices) {
      if (is_wanted(info)) backends.push_back(info.backend);
    }
  };
  add([](const DeviceInfo& info) { return info.is_gpu && info.is_discrete; });
  add([](const DeviceInfo& info) { return info.is_gpu && !info.is_discrete; });
  add([](const DeviceInfo& info) { return info.backend == "cpu"; });
  return backends;
}

}  // namespace tessera::driver
