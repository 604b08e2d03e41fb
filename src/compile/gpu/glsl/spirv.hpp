#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::compile {

// SPIR-V of a compute shader in GLSL for Vulkan 1.2: from the disk cache, or compiled by a plugin that is opened when
// it is first needed. Any thread.
//
// Errc::invalid_kernel with what the compiler said if it does not compile, Errc::unsupported if there is no compiler.
// With TESSERA_VALIDATE=1 it is always compiled, and what was made is checked: Errc::internal if it is not valid.
std::vector<std::uint32_t> spirv(const std::string& source, const std::string& name);

}  // namespace tessera::compile
