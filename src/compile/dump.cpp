#include "compile/dump.hpp"

#include "compile/passes/value_analysis.hpp"
#include "core/environment.hpp"
#include "core/text.hpp"
#include "ir/ranges.hpp"

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <iterator>
#include <mutex>
#include <sstream>
#include <string>

namespace tessera::compile {

using core::text;

namespace {

std::mutex& output_mutex() {
  static std::mutex mutex;
  return mutex;
}

std::string known_steps() {
  std::string list;
  for (const DumpStep& step : dump_steps) list += std::string(step.name) + ", ";
  return list;
}

// Reported once for each value of the variable: otherwise a typo would just show nothing.
void report_unknown_steps(const std::string& wanted) {
  static std::string reported;
  const std::scoped_lock lock(output_mutex());
  if (wanted == reported) return;
  reported = wanted;
  std::istringstream list(wanted);
  for (std::string step; wanted != "all" && std::getline(list, step, ',');) {
    if (step.empty() || std::ranges::find(dump_steps, step, &DumpStep::name) != std::end(dump_steps)) continue;
    std::cerr << "TESSERA_DUMP: unknown step '" << step << "'; the steps are " << known_steps() << "or all\n";
  }
}

}  // namespace

bool dump_wants(std::string_view step) {
  const char* wanted = core::environment_variable("TESSERA_DUMP");
  if (!wanted) return false;
  report_unknown_steps(wanted);
  const std::string list = text(",", wanted, ",");
  return list.find(text(",", step, ",")) != std::string::npos || list == ",all,";
}

void dump_show(std::string_view kernel, std::string_view step, const std::string& text) {
  const std::scoped_lock lock(output_mutex());
  std::cerr << "== " << kernel << ": " << step << '\n' << text << (text.ends_with('\n') ? "" : "\n");
}

void dump_program(const ir::Program& program, std::string_view step) {
  if (dump_wants(step)) dump_show(program.name, step, ir::to_string(program));
}

void dump_tiles(const ir::Program& program, const Tiling& tiling) {
  if (!dump_wants("tiles")) return;
  std::string extents;
  for (const std::int64_t extent : tiling.extents) extents += (extent == 0 ? "whole" : std::to_string(extent)) + " ";
  dump_show(program.name, "tiles", extents);
}

void dump_ranges(const ir::Program& program) {
  if (!dump_wants("ranges")) return;
  const std::vector<ir::Range> ranges = ir::find_ranges(program);
  std::string lines;
  for (std::size_t id = 0; id < ranges.size(); ++id) {
    const ir::Op& op = program.ops[id];
    const ir::Range& range = ranges[id];
    if (op.code == ir::Code::constant || range == ir::range_of(op.type)) continue;
    lines += text("%", id, ": ", to_string(op.type), " from ", range.low, " to ", range.high, "\n");
  }
  dump_show(program.name, "ranges", lines);
}

void dump_values(const ir::Program& program, const Tiling& tiling) {
  if (!dump_wants("values")) return;
  const ValueAnalysis analysis(program, tiling);
  std::string lines = text("cost of a point: ", analysis.cost, ", longest chain: ", analysis.depth, "\n");
  for (std::size_t id = 0; id < program.ops.size(); ++id) {
    if (!analysis.is_live[id]) continue;
    if (analysis.is_materialised[id]) lines += text("%", id, ": stored for the whole tile\n");
    if (analysis.is_inline_loop[id]) lines += text("%", id, ": a loop at each point\n");
  }
  dump_show(program.name, "values", lines);
}

}  // namespace tessera::compile
