#pragma once

#include <cstdint>
#include <string>
#include <vector>

// The interface of the GLSL compiler, which is a plugin: see spirv.cpp.
namespace tessera::compile::gpu::glsl {

struct Request {
  const char* source;  // a compute shader for Vulkan
  bool is_validated;   // whether to validate the SPIR-V
};

// SPIR-V 1.5 for Vulkan 1.2. After an error there are no words, or invalid ones.
struct Result {
  std::vector<std::uint32_t> words;
  std::string error;
};

// Any thread may call it.
using Function = void(const Request& request, Result& result);

// The one name that the plugin exports. Its number increases when the types above change.
inline constexpr const char* plugin_symbol = "tessera_glsl_1";

}  // namespace tessera::compile::gpu::glsl
