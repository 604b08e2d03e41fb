#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::compile::gpu::glsl {

// Compiles a compute shader in GLSL to SPIR-V for Vulkan 1.2, by a plugin that is opened when it is first needed, or
// takes it from the disk cache. Any thread may call it.
//
// Throws Errc::invalid_kernel with the compiler's message if it does not compile, Errc::unsupported if there is no
// compiler. With TESSERA_VALIDATE=1 it is always compiled and validated: Errc::internal if it is invalid.
std::vector<std::uint32_t> spirv(const std::string& source, const std::string& name);

}  // namespace tessera::compile::gpu::glsl
