#pragma once

#include "compile/compile.hpp"
#include "ir/ir.hpp"

#include <cstddef>
#include <vector>

namespace tessera::compile {

// What the emitters decide about each value of a program before they emit anything.
struct ValueAnalysis {
  ValueAnalysis(const ir::Program& program, const Tiling& tiling);
  ValueAnalysis(const ValueAnalysis&) = delete;
  ValueAnalysis& operator=(const ValueAnalysis&) = delete;

  std::vector<bool> is_live;          // the output depends on it
  std::vector<bool> is_materialised;  // computed once for the whole tile and stored in scratch memory
  std::vector<bool> is_inline_loop;   // a loop that can run for each point separately
  std::vector<bool> is_clipped;       // by output axis: the last tile ends where the output ends

  int cost = 0;   // roughly the operations for a point of the output
  int depth = 0;  // the longest chain of operations that depend on each other
  bool has_mma = false;

 private:
  void find_live();
  void find_inline_loops();
  void find_materialised();
  void find_depth();
  bool depends_on(ir::Id id, int region) const;
  bool is_pointwise_in(ir::Id id, int region, std::vector<signed char>& known) const;
  int cost_of(ir::Id id, std::vector<int>& known) const;

  const ir::Program& program_;
};

// Whether an op computes each point from the same point of its operands.
bool is_elementwise(ir::Code code) noexcept;
bool is_reduction(ir::Code code) noexcept;
// Whether an index of a load or pick is inside of what it reads at every point of a tile. `is_clipped` as in
// ValueAnalysis.
bool is_inside(const ir::Program& program, const ir::Op& op, std::size_t axis, const std::vector<bool>& is_clipped);

}  // namespace tessera::compile
