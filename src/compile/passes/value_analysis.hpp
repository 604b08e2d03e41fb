#pragma once

#include "compile/compile.hpp"
#include "ir/ir.hpp"

#include <cstddef>
#include <vector>

namespace tessera::compile {

// What the emitters decide before they emit anything, for each value of a program.
struct Analysis {
  Analysis(const ir::Program& program, const Tiling& tiling);
  Analysis(const Analysis&) = delete;
  Analysis& operator=(const Analysis&) = delete;

  std::vector<bool> is_live;          // the output depends on it
  std::vector<bool> is_materialised;  // computed once for the whole tile, kept in scratch memory
  std::vector<bool> is_inline_loop;   // a loop that can run for each point by itself
  std::vector<bool> is_clipped;       // by output axis: the last tile is as small as what is left

  int cost = 0;   // operations a point of the output, roughly
  int depth = 0;  // how many of them wait for each other
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
// Whether an index of a load or pick surely is inside of what it reads, at every point of a tile. `is_clipped` as in
// Analysis.
bool is_inside(const ir::Program& program, const ir::Op& op, std::size_t axis, const std::vector<bool>& is_clipped);

}  // namespace tessera::compile
