#include <tessera/error.hpp>

#include "driver/gpu/api.hpp"

// In place of Vulkan where it is not built.
namespace tessera::driver::gpu {

std::vector<DeviceInfo> vulkan_devices() { return {}; }

std::unique_ptr<Api> open_vulkan(std::size_t) { throw Error(Errc::unknown_device, "Tessera was built without Vulkan"); }

}  // namespace tessera::driver::gpu
