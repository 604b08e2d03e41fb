#pragma once

#include "compile/compile.hpp"
#include "compile/cpu/host.hpp"

#include <memory>

namespace tessera::compile {

// Machine code for the program, from the disk cache or from the compiler; null where there is no compiler.
std::shared_ptr<const Compiled> jit(const ir::Program& program, const Tiling& tiling, const Host& host);

// How many programs went through the compiler, and how many came from the disk cache, in this process.
struct JitCounts {
  std::uint64_t compiled = 0;
  std::uint64_t from_disk = 0;
};
JitCounts jit_counts() noexcept;

}  // namespace tessera::compile
