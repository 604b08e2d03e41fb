#pragma once

#include "compile/cpu/llvm/widths.hpp"
#include "compile/passes/value_analysis.hpp"

#include <optional>

namespace tessera::compile::cpu {

// The analysis of values, and what vectors depend on: the bits in which each value is computed.
struct LaneAnalysis : ValueAnalysis {
  LaneAnalysis(const ir::Program& program, const Tiling& tiling, bool multiplies_bytes, bool has_vbmi);

  std::optional<Widths> widths;  // of integers

  bool has_gather = false;  // an index of a load comes from data
  int lane_bits = 0;        // of the widest elements that the vectors hold
  // The values of the stage that computes `root`, down to and including the materialised values that it reads.
  std::vector<ir::Id> stage_of(ir::Id root) const;
  // The widest elements in that stage.
  int lane_bits_of(ir::Id root) const;
  // Whether that stage multiplies bytes without widening them.
  bool has_byte_sum(ir::Id root) const;

 private:
  void find_widths(bool multiplies_bytes);
  void find_gathers(bool has_vbmi);
  int own_lane_bits(ir::Id id) const;

  const ir::Program& program_;
  bool has_wide_data_ = false;
};

// Whether a value is the counter of a loop.
bool is_counter(const ir::Op& op) noexcept;
// Whether a value is computed from coordinates, extents, scalars and loop counters alone, so that it can be computed
// ahead of a loop.
bool is_coordinate(const ir::Program& program, ir::Id id);

// Whether a load looks bytes up in a table of 256 bytes.
bool is_byte_table(const ir::Program& program, const ir::Op& load);

inline bool is_extent_one(const ir::Program& program, ir::Id extent) {
  std::int64_t value = 0;
  return ir::is_constant(program, extent, value) && value == 1;
}

}  // namespace tessera::compile::cpu
