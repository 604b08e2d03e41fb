#include "compile/dump.hpp"

#include "core/text.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <mutex>
#include <sstream>
#include <string>

namespace tessera::compile {

namespace {

constexpr std::string_view steps[] = {"ir", "tiles", "llvm", "asm", "gpu"};

std::mutex& output_mutex() {
  static std::mutex mutex;
  return mutex;
}

// Said once for each value: whoever mistyped it waits for what never comes.
void tell_unknown_steps(const std::string& wanted) {
  static std::string looked_at;
  const std::scoped_lock lock(output_mutex());
  if (wanted == looked_at) return;
  looked_at = wanted;
  std::istringstream list(wanted);
  for (std::string step; wanted != "all" && std::getline(list, step, ',');) {
    if (step.empty() || std::ranges::find(steps, step) != std::end(steps)) continue;
    std::cerr << "TESSERA_DUMP: there is no '" << step
              << "'; it takes ir, tiles, llvm, asm, gpu, with commas, or all\n";
  }
}

}  // namespace

bool dump_wants(std::string_view step) {
  const char* wanted = std::getenv("TESSERA_DUMP");
  if (!wanted) return false;
  tell_unknown_steps(wanted);
  const std::string list = core::text(",", wanted, ",");
  return list.find(core::text(",", step, ",")) != std::string::npos || list == ",all,";
}

void dump_show(std::string_view kernel, std::string_view step, const std::string& text) {
  const std::scoped_lock lock(output_mutex());
  std::cerr << "== " << kernel << ": " << step << '\n' << text << (text.ends_with('\n') ? "" : "\n");
}

void dump_program(const ir::Program& program) {
  if (dump_wants("ir")) dump_show(program.name, "ir", ir::to_string(program));
}

void dump_tiles(const ir::Program& program, const Tiling& tiling) {
  if (!dump_wants("tiles")) return;
  std::string extents;
  for (const std::int64_t extent : tiling.extents) extents += (extent == 0 ? "whole" : std::to_string(extent)) + " ";
  dump_show(program.name, "tiles", extents);
}

}  // namespace tessera::compile
