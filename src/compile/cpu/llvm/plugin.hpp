#pragma once

#include "compile/compile.hpp"
#include "compile/cpu/host.hpp"
#include "ir/ir.hpp"

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

// The interface of the compiler, which is a plugin: see jit.cpp.
namespace tessera::compile::cpu {

// Shows what the compiler's steps made, if TESSERA_DUMP names them.
struct Dump {
  std::function<bool(std::string_view step)> wants;
  std::function<void(std::string_view step, const std::string& text)> show;
};

// Which functions of a program are compiled.
enum class Form {
  plain,      // those that every program needs
  streaming,  // the kernel with non-temporal stores; only if the plain form says that it exists
};

// Returns an ELF object with the functions that emitter.hpp names. Any thread may call it.
using CompileFunction = std::vector<std::byte>(const ir::Program& program, const Tiling& tiling, const Host& host,
                                               Form form, const Dump& dump);

struct Plugin {
  const char* version;  // a hash of the emitter's sources, which must equal the library's
  CompileFunction* compile;
};

// The one name that the plugin exports.
inline constexpr const char* plugin_symbol = "tessera_llvm_plugin";

}  // namespace tessera::compile::cpu
