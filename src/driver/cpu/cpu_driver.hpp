#pragma once

#include "driver/driver.hpp"

#include <cstdint>

namespace tessera::driver::cpu {

// Computes the elements [begin, end) of the output.
using Function = void (*)(const Launch& launch, std::int64_t begin, std::int64_t end);

// The implementation of a built-in kernel for a type.
Function function(kernels::Op op, DType dtype) noexcept;

}  // namespace tessera::driver::cpu
