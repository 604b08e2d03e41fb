#pragma once

#include "compile/compile.hpp"
#include "ir/ir.hpp"

#include <string>
#include <string_view>

// What becomes of kernels, shown on stderr: TESSERA_DUMP names the steps, with commas, or is "all".
namespace tessera::compile {

bool dump_wants(std::string_view step);
void dump_show(std::string_view kernel, std::string_view step, const std::string& text);

// The steps "ir" and "tiles", which all devices have, if they are wanted.
void dump_program(const ir::Program& program);
void dump_tiles(const ir::Program& program, const Tiling& tiling);

}  // namespace tessera::compile
