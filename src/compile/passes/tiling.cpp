#include "compile/compile.hpp"
#include "ir/rules.hpp"

#include <algorithm>

namespace tessera::compile {

using ir::Code;
using ir::Id;
using ir::Op;

std::int64_t Tiling::tiles(std::span<const std::int64_t> output_dims) const noexcept {
  std::int64_t count = 1;
  for (std::size_t axis = 0; axis < output_dims.size(); ++axis) {
    const std::int64_t dim = output_dims[axis], extent = extents[axis];
    if (dim == 0) return 0;
    if (extent != 0 && extent < dim)
      count *= (dim - 1) / extent + 1;  // a division takes a tenth of the time of a small command
  }
  return count;
}

namespace {

// Elements of a tile: enough to be worth the overhead, few enough for the caches.
constexpr std::int64_t line = 16384;
constexpr std::int64_t block_rows = 16, block_columns = 4096;
// For programs that read along both axes.
constexpr std::int64_t square = 64;
// For tiles that compute neighbours too: few rows are computed twice, and the stored values fit in the second cache.
// With 128 rows there were too few tiles for two threads: blur, sharpen and grayscale of 1080p took 2.8 ms instead
// of 2.5, since one of 18 tiles was left for the end. Many neighbours need taller tiles. The heights of most videos are
// multiples of 72, so that no tile is clipped.
constexpr std::int64_t halo_rows(std::int64_t neighbours) { return neighbours <= 16 ? 72 : 128; }
// Together with the neighbours: whole vectors, one more of which would be nearly empty (with both choices 1080p took 4
// % less time). If groups along the rows are separated, such as pixels into channels, as much is stored for each
// channel: blur, sharpen and grayscale take 5 % less time in tiles of half the width.
constexpr std::int64_t halo_columns(std::int64_t neighbours, bool has_groups) {
  return (has_groups ? 512 : 1024) - (neighbours <= 64 ? neighbours : 0);
}
// The same if the rows are not split: there may be thousands.
constexpr std::int64_t tall_halo_columns = 256;

// Whether an op is the extent of a tile with its neighbours: tile_dim + constant.
bool is_widened(const ir::Program& program, const Op& op, std::int64_t& more) {
  if (op.code != Code::add || !op.shape.empty()) return false;
  return (program[op.operands[0]].code == Code::tile_dim && ir::is_constant(program, op.operands[1], more)) ||
         (program[op.operands[1]].code == Code::tile_dim && ir::is_constant(program, op.operands[0], more));
}
bool is_widened(const ir::Program& program, const Op& op) {
  std::int64_t more = 0;
  return is_widened(program, op, more);
}

// The most neighbours that a tile computes along an axis; 0: none.
std::int64_t most_neighbours(const ir::Program& program, std::size_t axis) {
  std::int64_t most = 0, more = 0;
  for (const Op& op : program.ops) {
    if (!is_widened(program, op, more)) continue;
    const Op& first = program[op.operands[0]];
    const Op& tile = first.code == Code::tile_dim ? first : program[op.operands[1]];
    if (static_cast<std::size_t>(tile.axis) == axis) most = std::max(most, more);
  }
  return most;
}

// Finds the axes of the output that may be split: those along which each point is computed from its coordinate alone.
class Cuts {
 public:
  explicit Cuts(const ir::Program& program)
      : program_(program), is_whole_(static_cast<std::size_t>(program.buffers.front().rank())) {
    for (const Op& op : program.ops) look_at(op);
    for (const ir::Region& region : program.regions) look_at_uses(region.results);
  }

  const std::vector<bool>& whole() const { return is_whole_; }

 private:
  void look_at(const Op& op);
  void look_at_shape(const Op& op);
  void look_at_uses(std::span<const Id> operands);
  void keep_whole_of(Id extent) {
    if (const int axis = axis_of(extent); axis >= 0) is_whole_[static_cast<std::size_t>(axis)] = true;
  }
  // The axis of the origin in a value of the form origin + constant.
  const Op* origin_in(Id id) const {
    const Op& op = program_[id];
    if (op.code == Code::origin) return &op;
    if ((op.code != Code::add && op.code != Code::sub) || !op.shape.empty()) return nullptr;
    const Op& first = program_[op.operands[0]];
    std::int64_t number = 0;
    return first.code == Code::origin && ir::is_constant(program_, op.operands[1], number) ? &first : nullptr;
  }
  // The axis of the tile whose extent this is, widened or not; -1: it is something else. And by how much it is widened.
  int axis_of(Id extent) const {
    const Op& op = program_[extent];
    if (op.code == Code::tile_dim) return op.axis;
    if (!is_widened(program_, op)) return -1;
    const Op& first = program_[op.operands[0]];
    return first.code == Code::tile_dim ? first.axis : program_[op.operands[1]].axis;
  }
  std::int64_t slack(Id extent) const {
    const Op& op = program_[extent];
    std::int64_t more = 0;
    if (op.code == Code::tile_dim) return 0;
    if (!ir::is_constant(program_, op.operands[0], more)) ir::is_constant(program_, op.operands[1], more);
    return more;
  }
  void keep_whole(const Op& op) { is_whole_[static_cast<std::size_t>(op.axis)] = true; }

  // origin + iota: the coordinate of a point, which does not depend on the tiles.
  bool is_coordinate(const Op& op) const {
    return op.code == Code::add && (is_coordinate(op.operands[0], program_[op.operands[1]]) ||
                                    is_coordinate(op.operands[1], program_[op.operands[0]]));
  }
  bool is_coordinate(Id start, const Op& iota) const {
    const Op* origin = origin_in(start);
    return origin && iota.code == Code::iota &&
           axis_of(iota.shape[static_cast<std::size_t>(iota.axis)]) == origin->axis;
  }

  const ir::Program& program_;
  std::vector<bool> is_whole_;
};

void Cuts::look_at(const Op& op) {
  look_at_shape(op);
  const bool is_start = origin_in(static_cast<Id>(&op - program_.ops.data())) != nullptr;
  if (!is_coordinate(op) && !is_start && !is_widened(program_, op)) look_at_uses(op.operands);
}

void Cuts::look_at_uses(std::span<const Id> operands) {
  for (const Id operand : operands) {
    const Op& used = program_[operand];
    // Numbers that depend on the tiles.
    if (used.code == Code::block) keep_whole(used);
    keep_whole_of(operand);
    if (const Op* origin = origin_in(operand)) keep_whole(*origin);
    if (used.code == Code::iota) keep_whole_of(used.shape[static_cast<std::size_t>(used.axis)]);
  }
}

// Ops that combine points along an axis.
void Cuts::look_at_shape(const Op& op) {
  if (op.operands.empty()) return;
  const std::vector<Id>& from = program_[op.operands.front()].shape;
  if (ir::is_reduction(op.code)) keep_whole_of(from[static_cast<std::size_t>(op.axis)]);
  if (op.code == Code::mma) keep_whole_of(from.back());
  if (op.code == Code::reshape) {
    for (const Id extent : from) keep_whole_of(extent);
    for (const Id extent : op.shape) keep_whole_of(extent);
  }
  if (op.code != Code::slice) return;
  for (std::size_t axis = 0; axis < from.size(); ++axis) {
    std::int64_t start = 0;
    const bool is_fixed = ir::is_constant(program_, op.operands[axis + 1], start);
    const bool is_all = is_fixed && start == 0 && from[axis] == op.shape[axis];
    // In a widened tile it is a neighbour, which does not depend on where the tile is.
    const int tile = axis_of(op.shape[axis]);
    const bool is_neighbour = is_fixed && start >= 0 && tile >= 0 && from[axis] != op.shape[axis] &&
                              axis_of(from[axis]) == tile && start <= slack(from[axis]) - slack(op.shape[axis]);
    if (is_all || is_neighbour) continue;
    keep_whole_of(from[axis]);
    keep_whole_of(op.shape[axis]);
  }
}

// Whether an axis of the output other than the last runs along the last axis of an input.
bool reads_across(const ir::Program& program) {
  const int last = program.buffers.front().rank() - 1;
  std::vector<bool> varies(program.ops.size());  // with the coordinate along an axis before the last
  bool across = false;
  for (std::size_t id = 0; id < program.ops.size(); ++id) {
    const Op& op = program.ops[id];
    const auto is_varying = [&](Id operand) { return varies[static_cast<std::size_t>(operand)]; };
    if (op.code == Code::load) {
      across = across || (!op.operands.empty() && is_varying(op.operands.back()));
    } else {
      varies[id] = (op.code == Code::origin && op.axis != last) || std::ranges::any_of(op.operands, is_varying);
    }
  }
  return across;
}

}  // namespace

std::vector<bool> whole_axes(const ir::Program& program) {
  return program.whole.empty() ? Cuts(program).whole() : program.whole;
}

bool sees_tiles(const ir::Program& program) {
  const std::vector<bool> whole = whole_axes(program);
  return std::ranges::find(whole, true) != whole.end();
}

bool reads_around(const ir::Program& program) {
  return std::ranges::any_of(program.ops,
                             [&](const Op& op) { return op.code == Code::pick || is_widened(program, op); });
}

Tiling choose_tiling(const ir::Program& program) {
  if (!program.tile.empty()) return {program.tile};
  const std::vector<bool> whole = whole_axes(program);
  const auto any = [&](auto is) { return std::ranges::any_of(program.ops, is); };
  const std::vector<std::int64_t>& dims = program.buffers.front().dims;
  const std::size_t rank = dims.size();
  std::int64_t rows = block_rows, columns = rank < 2 ? line : block_columns;
  if (any([](const Op& op) { return op.code == Code::mma; }) || reads_across(program)) {
    rows = columns = square;
  } else if (reads_around(program)) {
    rows = rank >= 2 ? halo_rows(most_neighbours(program, rank - 2)) : 1;
    const bool has_groups =
        std::ranges::any_of(program.same_extents, [](const ir::SameExtent& same) { return same.factor > 1; });
    columns =
        rank >= 2 && whole[rank - 2] ? tall_halo_columns : halo_columns(most_neighbours(program, rank - 1), has_groups);
  } else if (any([](const Op& op) { return ir::is_reduction(op.code); })) {
    rows = 1;
  } else if (rank >= 2 && dims.back() >= 0) {  // short rows, many at a time
    rows = std::max(rows, line / std::max<std::int64_t>(1, dims.back()));
  }
  Tiling tiling;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::int64_t cut = axis + 1 == rank ? columns : axis + 2 == rank ? rows : 1;
    const bool is_short = dims[axis] >= 0 && dims[axis] <= cut;  // a single tile in any case
    tiling.extents.push_back(whole[axis] || is_short ? 0 : cut);
  }
  return tiling;
}

}  // namespace tessera::compile
