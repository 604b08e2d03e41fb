#pragma once

#include "ir/ir.hpp"

#include <optional>
#include <span>
#include <string>
#include <vector>

// Fuses two programs into one: what one writes and the other reads is computed where it is read, and is never stored.
namespace tessera::compile {

struct Fused {
  // Its buffers are the reader's, then the writer's inputs that the reader does not have; its scalars the reader's,
  // then the writer's. The buffer between the two is still listed, but only its extents are used.
  std::optional<ir::Program> program;
  std::vector<int> writer_inputs;  // among its buffers
  std::string reason;              // why there is no program, for the user
  bool skips = false;              // elements between the two that are never read are not computed
  bool recomputes_halo = false;    // the elements around a tile are computed again for the next tile
};

// The reader with the writer inlined, whose output is the reader's buffer `input`. `same` has, for each input of the
// writer, the reader's buffer that is the same memory with the same extents, or -1.
//
// The first of these ways that fits is taken; none changes a result:
// - direct: the reader reads its own points, or a whole axis. The loads are replaced by the writer's values.
// - in parts: the reader reads around each point. The part that a tile needs is computed once, with its neighbours. If
//   the reader only reads some elements of each group along the last axis, such as the colours of pixels, only those
//   are computed.
// - by point: the writer is pointwise. The reader's loads become loads of the writer's inputs.
Fused fuse(const ir::Program& reader, int input, const ir::Program& writer, std::span<const int> same);

// If a program reads around each point, but only some elements of each group (some channels of pixels), these elements
// are separated first, once a tile.
void deinterleave_inputs(ir::Program& program);

// Removes the buffers that the program does not use; returns the numbers of those that stay, in order.
std::vector<int> drop_unused_buffers(ir::Program& program);

}  // namespace tessera::compile
