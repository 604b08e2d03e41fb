#include "compile/dump.hpp"

#include "core/text.hpp"

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <mutex>

namespace tessera::compile {

bool dump_wants(std::string_view step) {
  const char* wanted = std::getenv("TESSERA_DUMP");
  if (!wanted) return false;
  const std::string list = core::text(",", wanted, ",");
  return list.find(core::text(",", step, ",")) != std::string::npos || list == ",all,";
}

void dump_show(std::string_view kernel, std::string_view step, const std::string& text) {
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
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
