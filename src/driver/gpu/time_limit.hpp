#pragma once

#include <chrono>

namespace tessera::driver::gpu {

// The longest that a device may take for one submission; after that it is considered lost. TESSERA_GPU_TIMEOUT sets it
// in seconds, 0 for no limit.
//
// 60 s: submissions are cut so that a slow device needs about a second for each (see long_launches.hpp), and systems
// reset a hardware device that hangs after 2 to 10 s. What is left are software GPUs on a busy machine, and single
// workgroups with very long loops.
std::chrono::nanoseconds time_limit() noexcept;
// Throws Errc::invalid_argument if the variable is no such number; the limit is the usual one then.
void check_time_limit();

}  // namespace tessera::driver::gpu
