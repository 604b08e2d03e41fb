#include <tessera/error.hpp>

#include "driver/gpu/api.hpp"

// Stub for builds without OpenCL.
namespace tessera::driver::gpu {

std::vector<DeviceInfo> opencl_devices() { return {}; }

std::unique_ptr<Api> open_opencl(std::size_t) {
  throw Error(Errc::unknown_device, "there is no OpenCL device: this build is without OpenCL");
}

}  // namespace tessera::driver::gpu
