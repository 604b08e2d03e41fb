#pragma once

#include <span>
#include <string_view>

namespace tessera::compile::gpu {

// A function that kernels may call. In its source, $F stands for the type, $X for the type's name, and #number# for a
// literal of the type.
struct Function {
  std::string_view name;  // with $X
  std::string_view of;    // the types: f32 f64 s32 s64 u32
  bool is_glsl_only;
  std::string_view source;
};

std::span<const Function> functions_of_integers();
std::span<const Function> functions_of_floats();

}  // namespace tessera::compile::gpu
