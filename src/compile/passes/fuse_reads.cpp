// The three ways to compute what the reader reads: directly, in parts, or by point.
#include "compile/passes/fusion.hpp"
#include "ir/rules.hpp"

#include <algorithm>

namespace tessera::compile {

using ir::Builder;
using ir::Code;
using ir::Extents;
using ir::Id;
using ir::Op;

namespace {

// Moves the beginning of a part so that all of it is inside: then it contains what the border rules read.
Id moved_inside(Builder& make, Id begin, Id length, Id dim) {
  begin = make.binary(Code::min, begin, make.binary(Code::sub, dim, length));
  return make.binary(Code::max, begin, make.index(0));
}

}  // namespace

Id Fusion::read_directly(Builder& make, const std::vector<Id>& indices) {
  std::vector<Id> start, extent;
  std::size_t load_rank = 0;
  for (const Id index : indices) load_rank = std::max(load_rank, make[index].shape.size());
  Extents shape(load_rank, make.index(1));
  for (std::size_t axis = 0; axis < indices.size(); ++axis) {
    const Line line = *line_of(make, indices[axis]);
    int output_axis = -1;
    if (line.scale == 0) {
      start.push_back(make.index(line.offset));
      extent.push_back(make.index(1));
      continue;
    }
    if (group_ > 1 && is_own_group(make, line, axis, &output_axis)) {
      start.push_back(make.binary(Code::add, line.base, make.index(line.offset)));
      extent.push_back(make.tile_dim(output_axis));
    } else if (is_own_axis(make, line, axis, &output_axis)) {
      if (writer_whole_[axis]) whole_[static_cast<std::size_t>(output_axis)] = true;
      start.push_back(make.origin(output_axis));
      extent.push_back(make.tile_dim(output_axis));
    } else {
      start.push_back(make.index(0));
      extent.push_back(make.dim(input_, static_cast<int>(axis)));
    }
    shape[load_rank - line.from_end] = extent.back();
  }
  return make.reshape(copy_writer(make, start, extent), shape);
}

Fusion::PartAxis Fusion::part_along(Builder& make, std::size_t axis, Id index, std::int64_t step) const {
  const Reach& reach = reach_[axis];
  const Line line = *line_of(make, index);  // base and whole as this program has them
  // Whole groups: one element less in each row of a part would leave its last vector half empty.
  const std::int64_t group = std::max<std::int64_t>(1, line.scale);
  Id length = make.index((reach.last - reach.first + group) / group * group);
  if (line.scale != 0 && line.whole != ir::none) {
    const Id scaled = make.binary(Code::mul, line.whole, make.index(line.scale));
    length = make.binary(Code::add, scaled, length);
  }
  Id begin = make.index(reach.first);
  if (line.base != ir::none) begin = make.binary(Code::add, line.base, begin);
  const Id dim = make.dim(input_, static_cast<int>(axis));
  begin = moved_inside(make, begin, length, dim);
  return {begin, length, begin, dim, index, step};
}

// Counted in groups: the part has the element of each group that the load reads.
Fusion::PartAxis Fusion::part_in_groups(Builder& make, std::size_t axis, Id index, std::int64_t step) const {
  const Reach& reach = reach_[axis];
  const Line line = *line_of(make, index);
  const std::int64_t number = quotient_down(line.offset, group_), member = line.offset - number * group_;
  const std::int64_t first = quotient_down(reach.first, group_), last = quotient_down(reach.last, group_);
  Id length = make.index(last - first + 1);
  if (line.whole != ir::none) length = make.binary(Code::add, line.whole, length);
  const Id base = line.base == ir::none ? make.index(0) : make[line.base].operands[0];
  const int output_axis = axis_like(axis, group_);
  const auto groups = [&](std::int64_t rounding) {
    if (output_axis >= 0) return make.dim(0, output_axis);
    const Id dim = make.binary(Code::add, make.dim(input_, static_cast<int>(axis)), make.index(rounding));
    return make.binary(Code::div, dim, make.index(group_));
  };
  const Id begin = moved_inside(make, make.binary(Code::add, base, make.index(first)), length, groups(group_ - 1));
  const Id start = make.binary(Code::add, make.binary(Code::mul, begin, make.index(group_)), make.index(member));
  Extents shape(line.from_end, make.index(1));
  const Extents& of_index = make[index].shape;
  shape.front() = of_index[of_index.size() - line.from_end];
  const Id at = make.binary(Code::add, make.binary(Code::add, base, make.index(number)), make.iota(shape, 0));
  return {start, length, begin, groups(step == group_ ? 0 : group_ - 1 - member), at, 1};
}

Id Fusion::read_part(Builder& make, const Op& op, const std::vector<Id>& indices) {
  std::vector<Id> start, extent, first, dims, at;
  std::vector<std::int64_t> steps;
  for (std::size_t axis = 0; axis < indices.size(); ++axis) {
    const std::int64_t step = op.list.empty() ? 1 : op.list[axis];
    const Id one = make.index(1), zero = make.index(0);
    const bool is_single = buffers_[static_cast<std::size_t>(input_)].dims[axis] == 1;
    const bool is_in_groups = group_ > 1 && axis + 1 == indices.size();
    const PartAxis part = is_single      ? PartAxis{zero, one, zero, one, indices[axis], step}
                          : is_in_groups ? part_in_groups(make, axis, indices[axis], step)
                                         : part_along(make, axis, indices[axis], step);
    start.push_back(part.start);
    extent.push_back(part.extent);
    first.push_back(part.first);
    dims.push_back(part.dim);
    at.push_back(part.index);
    steps.push_back(part.step);
  }
  if (std::ranges::all_of(steps, [](std::int64_t step) { return step == 1; })) steps.clear();
  return make.pick(copy_writer(make, start, extent), first, dims, at, op.border, steps);
}

// The writer's loads, moved to the points that the reader reads.
Id Fusion::read_points(Builder& make, const Op& op, const std::vector<Id>& indices) {
  ProgramCopy::Choices choices;
  choices.drops_broadcasts = true;
  choices.leaf = [&](const Op& leaf) {
    if (leaf.code == Code::scalar) return make.scalar(static_cast<int>(reader_.scalars.size()) + leaf.index);
    return make.index(0);  // coordinates, which only loads use
  };
  choices.load = [&](const Op& load, const std::vector<Id>&) {
    const ir::Buffer& buffer = writer_.buffers[static_cast<std::size_t>(load.index)];
    const std::size_t missing = indices.size() - buffer.dims.size();
    std::vector<Id> at;
    std::vector<std::int64_t> steps;
    for (std::size_t axis = 0; axis < buffer.dims.size(); ++axis) {
      const bool is_repeated = buffer.dims[axis] == 1;
      at.push_back(is_repeated ? make.index(0) : indices[missing + axis]);
      if (!op.list.empty()) steps.push_back(is_repeated ? 1 : op.list[missing + axis]);
    }
    return make.load(inputs_[static_cast<std::size_t>(load.index) - 1], at, op.border, steps);
  };
  Extents shape = ir::broadcast_all(make.program(), indices);
  return make.broadcast(ProgramCopy(make, writer_, std::move(choices)).run(), shape);
}

}  // namespace tessera::compile
