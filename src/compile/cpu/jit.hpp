#pragma once

#include "compile/compile.hpp"
#include "compile/cpu/host.hpp"

#include <memory>

namespace tessera::compile::cpu {

// Machine code for the program, from the disk cache or the compiler; null if there is no compiler.
std::shared_ptr<const Compiled> jit(const ir::Program& program, const Tiling& tiling, const Host& host);

// How many programs this process has compiled, and how many it has loaded from the disk cache.
struct JitCounts {
  std::uint64_t compiled = 0;
  std::uint64_t from_disk = 0;
};
JitCounts jit_counts() noexcept;

}  // namespace tessera::compile::cpu
