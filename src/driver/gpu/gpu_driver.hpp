#pragma once

#include "driver/driver.hpp"
#include "driver/gpu/api.hpp"

#include <memory>
#include <string>

namespace tessera::driver::gpu {

// A driver on top of a GPU API: programs become kernels in its language, launches become dispatches.
std::unique_ptr<Driver> make_gpu_driver(std::unique_ptr<Api> api, std::string backend);

}  // namespace tessera::driver::gpu
