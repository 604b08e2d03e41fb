// How the reader reads: which points, and in which groups.
#include "compile/passes/fusion.hpp"

#include <algorithm>
#include <tuple>

namespace tessera::compile {

using ir::Border;
using ir::Builder;
using ir::Code;
using ir::Id;
using ir::Op;
using ir::Program;

std::pair<Id, std::int64_t> without_constant(const Builder& make, Id id) {
  const Op& op = make[id];
  std::int64_t number = 0;
  if (ir::is_constant(make.program(), id, number)) return {ir::none, number};
  if (op.code == Code::add || op.code == Code::sub) {
    if (ir::is_constant(make.program(), op.operands[1], number)) {
      const auto [rest, more] = without_constant(make, op.operands[0]);
      return {rest, op.code == Code::add ? more + number : more - number};
    }
    if (op.code == Code::add && ir::is_constant(make.program(), op.operands[0], number)) {
      const auto [rest, more] = without_constant(make, op.operands[1]);
      return {rest, more + number};
    }
  }
  return {id, 0};
}

std::optional<Line> line_of(Builder& make, Id id) {
  const Op op = make[id];
  Line line;
  if (op.shape.empty()) {
    std::tie(line.base, line.offset) = without_constant(make, id);
    return line;
  }
  if (op.code == Code::broadcast) return line_of(make, op.operands[0]);
  if (op.code == Code::iota) {
    for (std::size_t axis = 0; axis < op.shape.size(); ++axis) {
      if (static_cast<int>(axis) != op.axis && !ir::is_one(make.program(), op.shape[axis])) return std::nullopt;
    }
    line.scale = 1;
    std::tie(line.whole, line.more) = without_constant(make, op.shape[static_cast<std::size_t>(op.axis)]);
    line.from_end = op.shape.size() - static_cast<std::size_t>(op.axis);
    return line;
  }
  if (op.code != Code::add && op.code != Code::sub && op.code != Code::mul) return std::nullopt;
  std::optional<Line> a = line_of(make, op.operands[0]), b = line_of(make, op.operands[1]);
  if (!a || !b) return std::nullopt;
  if (op.code != Code::sub && a->scale == 0) std::swap(a, b);
  if (b->scale != 0) return std::nullopt;
  if (op.code == Code::mul) {
    if (b->base != ir::none || b->offset < 1) return std::nullopt;
    if (a->base != ir::none) a->base = make.binary(Code::mul, a->base, make.index(b->offset));
    a->offset *= b->offset;
    a->scale *= b->offset;
    return a;
  }
  const bool is_sum = op.code == Code::add;
  a->offset += is_sum ? b->offset : -b->offset;
  if (b->base != ir::none) {
    a->base = make.binary(op.code, a->base == ir::none ? make.index(0) : a->base, b->base);
  }
  return a;
}

std::optional<std::int64_t> neighbours(const Program& program, Id extent, int axis) {
  const auto is_tile = [&](Id id) { return program[id].code == Code::tile_dim && program[id].axis == axis; };
  const Op& op = program[extent];
  std::int64_t number = 0;
  if (is_tile(extent)) return 0;
  if (op.code != Code::add || !is_tile(op.operands[0]) || !ir::is_constant(program, op.operands[1], number)) {
    return std::nullopt;
  }
  return number;
}

bool can_skip_along(const Program& program, int axis, std::int64_t group) {
  const std::vector<bool> is_live = live_ops(program);
  const auto extent_of = [&](Id id) { return neighbours(program, id, axis); };
  for (std::size_t id = 0; id < is_live.size(); ++id) {
    const Op& op = program.ops[id];
    if (!is_live[id]) continue;
    if (op.code == Code::reshape || op.code == Code::pick || op.code == Code::mma) return false;
    if (const auto more = extent_of(static_cast<Id>(id))) {
      if (*more % group != 0) return false;
      continue;
    }
    if (std::ranges::any_of(op.operands, [&](Id operand) { return extent_of(operand).has_value(); })) return false;
    if (op.code != Code::slice) continue;
    const std::vector<Id>& from = program[op.operands[0]].shape;
    for (std::size_t i = 0; i < from.size(); ++i) {
      std::int64_t start = 0;
      const bool is_along = extent_of(from[i]).has_value() || extent_of(op.shape[i]).has_value();
      if (is_along && (!ir::is_constant(program, op.operands[i + 1], start) || start % group != 0)) return false;
    }
  }
  return true;
}

// The axis of the output that is as long as an axis of the input, up to the factor; -1: unknown.
int Fusion::axis_like(std::size_t axis, std::int64_t factor) const {
  for (const ir::SameExtent& same : reader_.same_extents) {
    if (same.buffer == input_ && same.axis == static_cast<int>(axis) && same.factor == factor) return same.output_axis;
  }
  return -1;
}

// Whether an index is each point's own coordinate along an axis of the output that is as long.
bool Fusion::is_own_axis(const Builder& make, const Line& line, std::size_t axis, int* output_axis) const {
  if (line.base == ir::none || line.offset != 0 || line.scale != 1 || line.whole == ir::none || line.more != 0)
    return false;
  const Op& origin = make[line.base];
  const Op& extent = make[line.whole];
  if (origin.code != Code::origin || extent.code != Code::tile_dim || origin.axis != extent.axis) return false;
  *output_axis = origin.axis;
  if (axis_like(axis, 1) == origin.axis) return true;
  const std::int64_t known = buffers_[static_cast<std::size_t>(input_)].dims[axis];
  return known >= 0 && known == buffers_[0].dims[static_cast<std::size_t>(origin.axis)];
}

// Whether an index selects an element of each point's own group, where there are as many groups as output elements.
bool Fusion::is_own_group(const Builder& make, const Line& line, std::size_t axis, int* output_axis) const {
  if (line.scale < 2 || line.offset < 0 || line.offset >= line.scale || line.base == ir::none) return false;
  const Op& base = make[line.base];
  std::int64_t factor = 0;
  if (base.code != Code::mul || !ir::is_constant(make.program(), base.operands[1], factor) || factor != line.scale ||
      line.whole == ir::none || line.more != 0)
    return false;
  const Op& origin = make[base.operands[0]];
  const Op& extent = make[line.whole];
  if (origin.code != Code::origin || extent.code != Code::tile_dim || origin.axis != extent.axis) return false;
  *output_axis = origin.axis;
  return axis_like(axis, line.scale) == origin.axis;
}

// Whether a load reads each point's own element or a whole axis. `in_groups`: along the last axis, an element of its
// own group.
bool Fusion::is_direct(Builder& make, const std::vector<Id>& indices, bool in_groups) {
  std::size_t before = ~std::size_t{0};  // axes must come in order
  for (std::size_t axis = 0; axis < indices.size(); ++axis) {
    const std::optional<Line> line = line_of(make, indices[axis]);
    if (!line) return false;
    int output_axis = -1;
    const bool is_of_group = in_groups && axis + 1 == indices.size();
    const std::int64_t known = buffers_[static_cast<std::size_t>(input_)].dims[axis];
    if (line->scale == 0 && !is_of_group) {
      const bool is_inside = line->base == ir::none && line->offset >= 0 && line->offset < known;
      if (!is_inside || (writer_whole_[axis] && known != 1)) return false;
      continue;
    }
    if (line->from_end >= before) return false;
    before = line->from_end;
    if (is_of_group) return is_own_group(make, *line, axis, &output_axis);
    if (is_own_axis(make, *line, axis, &output_axis)) continue;
    const auto [whole, more] = without_constant(make, make.dim(input_, static_cast<int>(axis)));
    const bool is_all =
        line->base == ir::none && line->offset == 0 && line->scale == 1 && line->whole == whole && line->more == more;
    if (!is_all) return false;
  }
  return !in_groups;
}

void Fusion::note_reach(Builder& make, const Op& op, const std::vector<Id>& indices) {
  for (std::size_t axis = 0; axis < indices.size(); ++axis) {
    Reach& reach = reach_[axis];
    if (buffers_[static_cast<std::size_t>(input_)].dims[axis] == 1) continue;  // there is only one index
    const std::optional<Line> line = line_of(make, indices[axis]);
    if (!line) {
      reach.is_known = reach.is_all = false;
      continue;
    }
    const auto [whole, more] = without_constant(make, make.dim(input_, static_cast<int>(axis)));
    reach.is_all = reach.is_all && line->base == ir::none && line->offset == 0 && line->scale == 1 &&
                   line->whole == whole && line->more == more;
    Line own = *line;
    own.offset = own.more = 0;
    int output_axis = -1;
    reach.is_around_own = reach.is_around_own && is_own_axis(make, own, axis, &output_axis);
    const std::int64_t last = line->offset + line->scale * (line->more - 1);
    if (line->scale > 1) {
      std::int64_t factor = 0;
      const bool is_scaled =
          line->base == ir::none ||
          (make[line->base].code == Code::mul &&
           ir::is_constant(make.program(), make[line->base].operands[1], factor) && factor == line->scale);
      const std::int64_t step = op.list.empty() ? 1 : op.list[axis];
      reach.is_in_groups = reach.is_in_groups && is_scaled && (step == line->scale || op.border == Border::zero);
      reach.members.insert(line->offset - quotient_down(line->offset, line->scale) * line->scale);
    }
    if (!has_reach_) {
      reach.like = *line;
      reach.first = line->offset;
      reach.last = line->scale == 0 ? line->offset : last;
      continue;
    }
    const Line& like = reach.like;
    if (line->base != like.base || line->scale != like.scale || line->whole != like.whole) {
      reach.is_known = false;
      continue;
    }
    reach.first = std::min(reach.first, line->offset);
    reach.last = std::max(reach.last, line->scale == 0 ? line->offset : last);
  }
  has_reach_ = true;
}

}  // namespace tessera::compile
