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
    if (extent != 0 && extent < dim) count *= (dim - 1) / extent + 1;  // a division is a tenth of a small command
  }
  return count;
}

namespace {

constexpr std::int64_t row = 16384;  // elements: enough to be worth a tile, few enough for the caches
constexpr std::int64_t square = 64;  // where both axes are read along

// Which axes of the output may be cut: those along which each point is computed for itself, from where it is.
class Cuts {
 public:
  explicit Cuts(const ir::Program& program)
      : program_(program), is_whole_(static_cast<std::size_t>(program.buffers.front().rank())) {
    for (const Op& op : program.ops) look_at(op);
    for (const ir::Region& region : program.regions) look_at_uses(region.results);
  }

  bool is_whole(std::size_t axis) const { return is_whole_[axis]; }

 private:
  void look_at(const Op& op);
  void look_at_shape(const Op& op);
  void look_at_uses(std::span<const Id> operands);
  void keep_extent_whole(Id extent) {
    if (program_[extent].code == Code::tile_dim) keep_whole(program_[extent]);
  }
  void keep_whole(const Op& op) { is_whole_[static_cast<std::size_t>(op.axis)] = true; }

  // origin + iota: where a point is, whatever the tiles are.
  bool is_place(const Op& op) const {
    return op.code == Code::add && (is_place(program_[op.operands[0]], program_[op.operands[1]]) ||
                                    is_place(program_[op.operands[1]], program_[op.operands[0]]));
  }
  bool is_place(const Op& origin, const Op& iota) const {
    if (origin.code != Code::origin || iota.code != Code::iota) return false;
    const Op& extent = program_[iota.shape[static_cast<std::size_t>(iota.axis)]];
    return extent.code == Code::tile_dim && extent.axis == origin.axis;
  }

  const ir::Program& program_;
  std::vector<bool> is_whole_;
};

void Cuts::look_at(const Op& op) {
  look_at_shape(op);
  if (!is_place(op)) look_at_uses(op.operands);
}

void Cuts::look_at_uses(std::span<const Id> operands) {
  for (const Id operand : operands) {
    const Op& used = program_[operand];
    // Numbers that change with the tiles.
    if (used.code == Code::tile_dim || used.code == Code::block || used.code == Code::origin) keep_whole(used);
    if (used.code == Code::iota) keep_extent_whole(used.shape[static_cast<std::size_t>(used.axis)]);
  }
}

// Ops that mix the points along an axis.
void Cuts::look_at_shape(const Op& op) {
  if (op.operands.empty()) return;
  const std::vector<Id>& from = program_[op.operands.front()].shape;
  if (ir::is_reduction(op.code)) keep_extent_whole(from[static_cast<std::size_t>(op.axis)]);
  if (op.code == Code::mma) keep_extent_whole(from.back());
  if (op.code == Code::reshape || op.code == Code::slice) {
    for (const Id extent : from) keep_extent_whole(extent);
    for (const Id extent : op.shape) keep_extent_whole(extent);
  }
}

// Whether the last axis of an input is read along another axis of the output than the last.
bool reads_across(const ir::Program& program) {
  const int last = program.buffers.front().rank() - 1;
  std::vector<bool> varies(program.ops.size());  // with the place along an axis before the last
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

Tiling choose_tiling(const ir::Program& program) {
  if (!program.tile.empty()) return {program.tile};
  const Cuts cuts(program);
  const auto is_mma = [](const Op& op) { return op.code == Code::mma; };
  const bool is_square = std::ranges::any_of(program.ops, is_mma) || reads_across(program);
  const std::size_t rank = program.buffers.front().dims.size();
  Tiling tiling;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::int64_t cut = is_square && axis + 2 >= rank ? square : axis + 1 == rank ? row : 1;
    tiling.extents.push_back(cuts.is_whole(axis) ? 0 : cut);
  }
  return tiling;
}

}  // namespace tessera::compile
