#pragma once

#include "ir/ir.hpp"

#include <optional>
#include <span>
#include <string>
#include <vector>

// Two programs as one: what one writes and the other reads is computed where it is read, and has no memory.
namespace tessera::compile {

struct Fused {
  // Its buffers are the reader's, then those of the writer's inputs that the reader does not have; its scalars the
  // reader's, then the writer's. The buffer that both had is still there, but only its extents are used.
  std::optional<ir::Program> program;
  std::vector<int> writer_inputs;  // their numbers among its buffers
  std::string reason;              // why there is none, for people
  bool skips = false;              // elements of what is in between that nobody reads are not computed
  bool is_in_parts = false;        // parts of it are computed with the neighbours, again in the next tile
};

// The reader with the writer inside of it, whose output is the reader's buffer `input`. `same` has for each input of
// the writer the reader's buffer that is the same memory seen with the same extents, or -1.
//
// It is done in the first of three ways that fits, of which none changes a result:
// - direct: the reader reads each tile of it where it computes one, or all along an axis. The values are put in place.
// - in parts: the reader reads around each point. The part that a tile needs is computed once, with the neighbours.
//   Of groups along the last axis of which it reads some elements only, as the colours of pixels, those are computed.
// - by point: the writer computes each point from the same point of its inputs. The reader's loads become loads of
// those.
Fused fuse(const ir::Program& reader, int input, const ir::Program& writer, std::span<const int> same);

// Of inputs that are read around each point, some elements of each group only, these are taken apart first, once.
void take_apart_groups(ir::Program& program);

// Takes out the buffers that the program does not need; the numbers of those that stay, in order.
std::vector<int> drop_unused_buffers(ir::Program& program);

}  // namespace tessera::compile
