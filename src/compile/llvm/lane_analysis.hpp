#pragma once

#include "compile/analysis.hpp"
#include "compile/llvm/widths.hpp"

#include <optional>

namespace tessera::compile {

// And what vectors depend on: in how many bits everything is computed.
struct LaneAnalysis : Analysis {
  LaneAnalysis(const ir::Program& program, const Tiling& tiling);

  std::optional<Widths> widths;  // of integers

  int lane_bits = 0;  // of the widest elements that the vectors hold
  // The same of the stage that computes a value.
  int lane_bits_of(ir::Id root) const;

 private:
  void find_widths();
  int own_lane_bits(ir::Id id) const;

  const ir::Program& program_;
  bool has_wide_data_ = false;
};

}  // namespace tessera::compile
