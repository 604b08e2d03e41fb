#pragma once

#include <tessera/device_info.hpp>
#include <tessera/error.hpp>

#include <cstddef>
#include <string>
#include <vector>

// Which device a program gets that has no wish.
namespace tessera::driver {

// The backends of devices, best first: GPUs with memory of their own, other GPUs, the processor, each in the order
// given. Never software that plays a GPU.
std::vector<std::string> by_preference(const std::vector<DeviceInfo>& devices);

// Opens the first that can be opened; if none can, the last one's Error is thrown.
template <class Open>
auto open_first(const std::vector<std::string>& backends, const Open& open) {
  for (std::size_t i = 0; i + 1 < backends.size(); ++i) {
    try {
      return open(backends[i]);
    } catch (const Error&) {
      // It is listed but does not work; another one may.
    }
  }
  return open(backends.back());
}

}  // namespace tessera::driver
