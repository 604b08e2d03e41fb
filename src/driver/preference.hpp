#pragma once

#include <tessera/device_info.hpp>
#include <tessera/error.hpp>

#include <cstddef>
#include <string>
#include <vector>

// The choice of the default device.
namespace tessera::driver {

// The backends of devices, best first: discrete GPUs, other GPUs, the CPU, each in the order given. Never a software
// GPU.
std::vector<std::string> by_preference(const std::vector<DeviceInfo>& devices);

// Opens the first that works; throws the last one's Error if none does.
template <class Open>
auto open_first(const std::vector<std::string>& backends, const Open& open) {
  for (std::size_t i = 0; i + 1 < backends.size(); ++i) {
    try {
      return open(backends[i]);
    } catch (const Error&) {
      // Listed, but it does not work; another one may.
    }
  }
  return open(backends.back());
}

}  // namespace tessera::driver
