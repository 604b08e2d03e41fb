#pragma once

#include "driver/gpu/api.hpp"

namespace tessera::driver::gpu {

// Runs a small kernel, so that atexit handlers registered after this run before the driver's. Compilers inside drivers
// register theirs on first use; Mesa's do so on a driver thread when a kernel first runs. Ignores errors: the first
// command will report them.
void warm_up(Api& api) noexcept;

}  // namespace tessera::driver::gpu
