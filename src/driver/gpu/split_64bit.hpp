#pragma once

#include "compile/gpu/source.hpp"
#include "driver/driver.hpp"
#include "ir/ir.hpp"

#include <optional>

// Copies and fills of 64-bit elements as pairs of 32-bit words, for devices without 64-bit types.
namespace tessera::driver::gpu {

// The equivalent 32-bit program of a copy or fill whose element type the device lacks; nullopt for any other program,
// or if the device has the type.
std::optional<ir::Program> split_64bit(const ir::Program& program, const compile::gpu::Target& target);
// A launch of the original program as a launch of the split one.
Launch split_64bit(const Launch& launch);

}  // namespace tessera::driver::gpu
