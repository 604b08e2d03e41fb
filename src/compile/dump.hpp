#pragma once

#include "compile/compile.hpp"
#include "ir/ir.hpp"

#include <string>
#include <string_view>

// Shows on stderr what the compiler makes of kernels. TESSERA_DUMP lists the steps to show, separated by commas, or is
// "all". docs/debugging.md has an example of each.
namespace tessera::compile {

// The steps that can be shown, in the order in which they run. A new step needs a line here and a call of dump_show.
struct DumpStep {
  std::string_view name;
  std::string_view shows;
};
inline constexpr DumpStep dump_steps[] = {
    {"fuse", "two programs fused into one, or why they were not"},
    {"deinterleave", "a fused program that reads the channels it needs once"},
    {"split", "the programs that a reduction is split into"},
    {"ir", "the program that is compiled"},
    {"tiles", "the extents of the output's tiles"},
    {"ranges", "the integers whose range is smaller than their type's"},
    {"values", "the values that are stored for a whole tile, and the cost of a point"},
    {"llvm", "LLVM IR, for the CPU"},
    {"asm", "the processor's instructions"},
    {"gpu", "the source for the GPU's compiler"},
};

// Whether TESSERA_DUMP names this step. Reports unknown steps once.
bool dump_wants(std::string_view step);
void dump_show(std::string_view kernel, std::string_view step, const std::string& text);

// Each shows its step, if TESSERA_DUMP names it.
void dump_program(const ir::Program& program, std::string_view step = "ir");
void dump_tiles(const ir::Program& program, const Tiling& tiling);
void dump_ranges(const ir::Program& program);
void dump_values(const ir::Program& program, const Tiling& tiling);

}  // namespace tessera::compile
