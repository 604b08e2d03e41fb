#pragma once

#include "compile/cpu/llvm/widths.hpp"
#include "compile/passes/value_analysis.hpp"

#include <optional>

namespace tessera::compile {

// And what vectors depend on: in how many bits everything is computed.
struct LaneAnalysis : Analysis {
  LaneAnalysis(const ir::Program& program, const Tiling& tiling, bool multiplies_bytes, bool has_vbmi);

  std::optional<Widths> widths;  // of integers

  bool has_gather = false;  // something is read where data says
  int lane_bits = 0;        // of the widest elements that the vectors hold
  // What the stage that computes a value consists of, down to the materialised values that it reads, and with them.
  std::vector<ir::Id> stage_of(ir::Id root) const;
  // The widest elements there.
  int lane_bits_of(ir::Id root) const;
  // Whether bytes are multiplied as such there.
  bool has_byte_sum(ir::Id root) const;

 private:
  void find_widths(bool multiplies_bytes);
  void find_gathers(bool has_vbmi);
  int own_lane_bits(ir::Id id) const;

  const ir::Program& program_;
  bool has_wide_data_ = false;
};

// Whether a value counts the turns of a loop.
bool is_counter(const ir::Op& op) noexcept;
// Whether a value is made of places and of what loops count alone, so that it can be asked for ahead of a loop.
bool is_place(const ir::Program& program, ir::Id id);

// Whether a load looks bytes up in a table of bytes.
bool is_byte_table(const ir::Program& program, const ir::Op& load);

}  // namespace tessera::compile
