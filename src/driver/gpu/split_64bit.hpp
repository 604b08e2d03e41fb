#pragma once

#include "compile/gpu/source.hpp"
#include "driver/driver.hpp"
#include "ir/ir.hpp"

#include <optional>

// Elements of 64 bits that are only moved, as two words of 32 each: for devices that cannot compute with them.
namespace tessera::driver::gpu {

// The program that does with words what this one, a copy or a fill, does with elements of a type that the device lacks;
// none if it is something else, or the device has the type.
std::optional<ir::Program> in_words(const ir::Program& program, const compile::gpu::Target& target);
// A launch of the one as a launch of the other.
Launch in_words(const Launch& launch);

}  // namespace tessera::driver::gpu
