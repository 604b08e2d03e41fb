#include <tessera/error.hpp>

#include "driver/gpu/api.hpp"

// Stub for builds without OpenGL ES.
namespace tessera::driver::gpu {

std::vector<DeviceInfo> gles_devices() { return {}; }

std::unique_ptr<Api> open_gles(std::size_t) {
  throw Error(Errc::unknown_device, "there is no OpenGL ES device: this build is without OpenGL ES");
}

}  // namespace tessera::driver::gpu
