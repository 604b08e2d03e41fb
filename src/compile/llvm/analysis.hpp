#pragma once

#include "compile/compile.hpp"
#include "compile/llvm/widths.hpp"
#include "ir/ir.hpp"

#include <optional>
#include <vector>

namespace tessera::compile {

// What the emitter decides before it emits anything, for each value of a program.
struct Analysis {
  Analysis(const ir::Program& program, const Tiling& tiling);
  Analysis(const Analysis&) = delete;
  Analysis& operator=(const Analysis&) = delete;

  std::vector<bool> is_live;          // the output depends on it
  std::vector<bool> is_materialised;  // computed once for the whole tile, kept in scratch memory
  std::vector<bool> is_inline_loop;   // a loop that can run for each point by itself
  std::vector<bool> is_clipped;       // by output axis: the last tile is as small as what is left

  std::optional<Widths> widths;  // of integers

  int lane_bits = 0;  // of the widest elements that the vectors hold
  // The same of the stage that computes a value.
  int lane_bits_of(ir::Id root) const;
  int cost = 0;  // operations a point of the output, roughly
  bool has_mma = false;

 private:
  void find_live();
  void find_inline_loops();
  void find_materialised();
  void find_widths();
  int own_lane_bits(ir::Id id) const;
  bool depends_on(ir::Id id, int region) const;
  bool is_pointwise_in(ir::Id id, int region, std::vector<signed char>& known) const;
  int cost_of(ir::Id id, std::vector<int>& known) const;

  const ir::Program& program_;
  bool has_wide_data_ = false;
};

// Whether an op computes each point from the same point of its operands.
bool is_elementwise(ir::Code code) noexcept;
bool is_reduction(ir::Code code) noexcept;

}  // namespace tessera::compile
