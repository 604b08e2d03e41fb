#pragma once

#include "compile/compile.hpp"
#include "compile/cpu/host.hpp"
#include "ir/ir.hpp"

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

// What the library asks of the compiler, which is a plugin: see compile.cpp.
namespace tessera::compile {

// Receives what a step of the compilation made, if it was asked for: its name, and the text.
struct Dump {
  std::function<bool(std::string_view step)> wants;
  std::function<void(std::string_view step, const std::string& text)> show;
};

// What is compiled of a program.
enum class Form {
  plain,      // what every program needs
  streaming,  // the kernel with non-temporal stores; only where the plain form says that there is one
};

// An ELF object with the functions that emitter.hpp names. Any thread.
using CompileFunction = std::vector<std::byte>(const ir::Program& program, const Tiling& tiling, const Host& host,
                                               Form form, const Dump& dump);

struct Plugin {
  const char* version;  // of the emitter's sources: the library's must be the same
  CompileFunction* compile;
};

// The one name that the plugin exports.
inline constexpr const char* plugin_symbol = "tessera_llvm_plugin";

}  // namespace tessera::compile
