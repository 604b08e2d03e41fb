#pragma once

#include "driver/gpu/api.hpp"

#include <cstddef>
#include <memory>

namespace tessera::driver::gpu {

// Like open_opencl(number), which shares memory between host and device where that is free. If not shares_memory, data
// is always copied.
std::unique_ptr<Api> open_opencl(std::size_t number, bool shares_memory);

}  // namespace tessera::driver::gpu
