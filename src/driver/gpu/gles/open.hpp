#pragma once

#include "driver/gpu/api.hpp"
#include "driver/gpu/gles/context.hpp"

#include <memory>

namespace tessera::driver::gpu::gles {

// Opens a device, which must outlive it. Throws Errc::device_failure if that fails.
std::unique_ptr<Api> open(const Found& found);

}  // namespace tessera::driver::gpu::gles
