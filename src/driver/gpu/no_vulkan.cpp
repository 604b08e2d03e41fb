#include <tessera/error.hpp>

#include "driver/gpu/api.hpp"

// Stub for builds without Vulkan.
namespace tessera::driver::gpu {

std::vector<DeviceInfo> vulkan_devices() { return {}; }

std::unique_ptr<Api> open_vulkan(std::size_t) {
  throw Error(Errc::unknown_device, "there is no Vulkan device: this build is without Vulkan");
}

}  // namespace tessera::driver::gpu
