#pragma once

#include "driver/driver.hpp"

#include <memory>

namespace tessera::driver::gpu {

// A driver whose device is left alone when the process ends. Drivers of GPUs take themselves down in handlers of
// exit(), while threads of the process go on, and then crash when they are called. Before that happens, the device's
// queue is waited for, and from then on whoever wants anything of the device is told Errc::device_failure instead.
std::unique_ptr<Driver> make_exit_safe_driver(std::unique_ptr<Driver> below);

}  // namespace tessera::driver::gpu
