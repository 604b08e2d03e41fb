#pragma once

#include "driver/gpu/api.hpp"

#include <cstddef>
#include <memory>

namespace tessera::driver::gpu {

// As open_opencl(number), which lets host and device share memory where that costs nothing; without, all is copied.
std::unique_ptr<Api> open_opencl(std::size_t number, bool shares_memory);

}  // namespace tessera::driver::gpu
