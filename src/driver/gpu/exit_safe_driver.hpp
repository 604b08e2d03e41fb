#pragma once

#include "driver/driver.hpp"

#include <memory>

namespace tessera::driver::gpu {

// Wraps a driver so that nothing calls it once the process exits. GPU drivers shut down in atexit handlers while other
// threads of the process keep running, and crash if they are called afterwards. So at exit this waits for the queue to
// drain; from then on every call fails with Errc::device_failure instead of reaching the device.
std::unique_ptr<Driver> make_exit_safe_driver(std::unique_ptr<Driver> below);

}  // namespace tessera::driver::gpu
