#pragma once

#include "driver/gpu/api.hpp"

namespace tessera::driver::gpu {

// Runs a small kernel. Compilers inside of drivers have handlers of exit() of their own from their first use on, which
// on Mesa's devices is in a thread of the driver's, when a kernel first runs: whoever registers a handler after this
// is called before all of them. What fails is left to the first command, which is told why.
void warm_up(Api& api) noexcept;

}  // namespace tessera::driver::gpu
