#pragma once

#include <cstdint>
#include <string>
#include <vector>

// What the library asks of the compiler of GLSL, which is a plugin: see spirv.cpp.
namespace tessera::compile::glsl {

struct Request {
  const char* source;  // a compute shader for Vulkan
  bool is_validated;   // whether what was made is checked too
};

// SPIR-V 1.5 for Vulkan 1.2. With an error there are no words, or those that are not valid.
struct Result {
  std::vector<std::uint32_t> words;
  std::string error;
};

// Any thread.
using Function = void(const Request& request, Result& result);

// The one name that the plugin exports. Its number goes up when the types above change.
inline constexpr const char* plugin_symbol = "tessera_glsl_1";

}  // namespace tessera::compile::glsl
