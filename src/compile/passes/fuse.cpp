#include "compile/passes/fuse.hpp"

#include "compile/compile.hpp"
#include "compile/dump.hpp"
#include "compile/passes/fusion.hpp"
#include "compile/passes/program_copy.hpp"
#include "core/text.hpp"
#include "ir/analysis.hpp"
#include "ir/cost.hpp"

#include <algorithm>
#include <utility>

namespace tessera::compile {

using core::text;
using ir::Border;
using ir::Builder;
using ir::Code;
using ir::Id;
using ir::Op;
using ir::Program;

namespace {

// A larger program would take long to compile, and no longer fit the processor's registers.
constexpr std::size_t most_ops = 2000;

}  // namespace

Fusion::Fusion(const Program& reader, int input, const Program& writer, std::span<const int> same)
    : reader_(reader), input_(input), writer_(writer), writer_whole_(whole_axes(writer)), whole_(whole_axes(reader)) {
  check();
  name_buffers(same);
  reach_.resize(rank());
}

Program Fusion::run() {
  look();
  Builder make(text(writer_.name, "+", reader_.name), buffers_, scalars_);
  make.reserve(reader_.ops.size() + writer_.ops.size());
  const Id stored = copy_reader(make, [&](const Op& op, const std::vector<Id>& indices) {
    switch (way_) {
      case Way::direct:
        return read_directly(make, indices);
      case Way::parts:
        return read_part(make, op, indices);
      default:
        return read_points(make, op, indices);
    }
  });
  add_same_extents(make);
  Program program = std::move(make).store(stored);
  program.whole = whole_;
  if (!writer_.idiom.name.empty()) program.idiom = extended_idiom();
  if (program.ops.size() > most_ops) refuse("the fused program would be too large");
  return program;
}

void Fusion::check() const {
  if (!reader_.tile.empty() || !writer_.tile.empty()) refuse("its tiles are fixed");
  if (!reader_.idiom.name.empty()) refuse(text(reader_.name, " reads its operands many times"));
  const bool is_epilogue = ir::is_pointwise(reader_) && reader_.buffers[0].type == writer_.buffers[0].type;
  if (!writer_.idiom.name.empty() && !is_epilogue) {
    refuse(text(writer_.name, " runs as a routine of the device, after which only pointwise work can follow"));
  }
  const auto& read = reader_.buffers[static_cast<std::size_t>(input_)];
  if (read.dims.size() != writer_.buffers[0].dims.size()) refuse("the stages see it with different numbers of axes");
  for (const Program* program : {&reader_, &writer_}) {
    const std::vector<bool> is_live = live_ops(*program);
    for (std::size_t id = 0; id < is_live.size(); ++id) {
      if (is_live[id] && program->ops[id].code == Code::block)
        refuse(text(program->name, " depends on how its output is tiled"));
    }
  }
}

void Fusion::name_buffers(std::span<const int> same) {
  buffers_ = reader_.buffers;
  scalars_ = reader_.scalars;
  scalars_.insert(scalars_.end(), writer_.scalars.begin(), writer_.scalars.end());
  std::vector<std::int64_t>& dims = buffers_[static_cast<std::size_t>(input_)].dims;
  for (std::size_t axis = 0; axis < dims.size(); ++axis)
    dims[axis] = std::max(dims[axis], writer_.buffers[0].dims[axis]);
  for (std::size_t i = 1; i < writer_.buffers.size(); ++i) {
    const ir::Buffer& buffer = writer_.buffers[i];
    if (same[i - 1] < 0) {
      inputs_.push_back(static_cast<int>(buffers_.size()));
      buffers_.push_back(buffer);
      continue;
    }
    inputs_.push_back(same[i - 1]);
    std::vector<std::int64_t>& known = buffers_[static_cast<std::size_t>(same[i - 1])].dims;
    for (std::size_t axis = 0; axis < known.size(); ++axis) known[axis] = std::max(known[axis], buffer.dims[axis]);
  }
}

// Goes through the reader once to find out how it reads.
void Fusion::look() {
  Builder make(reader_.name, buffers_, scalars_);
  make.reserve(reader_.ops.size());
  bool is_read = false;
  copy_reader(make, [&](const Op& op, const std::vector<Id>& indices) {
    is_read = true;
    if (make.is_in_loop()) is_in_loop_ = true;
    if (op.border == Border::wrap) wraps_ = true;
    if (op.border == Border::reflect || op.border == Border::symmetric) reflects_ = true;
    if (op.border == Border::zero) has_zero_border_ = true;
    all_direct_ = all_direct_ && is_direct(make, indices, false);
    all_direct_in_groups_ = all_direct_in_groups_ && is_direct(make, indices, true);
    note_reach(make, op, indices);
    return make.load(input_, indices, op.border, op.list);
  });
  if (!is_read) refuse("it is never read");
  choose_way();
}

void Fusion::choose_way() {
  if (!writer_.idiom.name.empty() && !all_direct_) refuse(text(reader_.name, " does not read it pointwise"));
  const bool is_pointwise = ir::is_pointwise(writer_);
  if (all_direct_ && (!is_in_loop_ || is_pointwise)) {
    way_ = Way::direct;
    return;
  }
  const bool has_parts = std::ranges::all_of(reach_, &Reach::is_known) && !is_in_loop_ && !wraps_ &&
                         (!reflects_ || std::ranges::all_of(reach_, &Reach::is_around_own));
  bool keeps_whole = true;
  for (std::size_t axis = 0; axis < rank(); ++axis)
    keeps_whole = keeps_whole && (!writer_whole_[axis] || reach_[axis].is_all);
  if (has_parts && keeps_whole) {
    if (reflects_) std::ranges::for_each(reach_, &Reach::reach_equally_far);
    group_ = group_to_skip();
    way_ = group_ > 1 && all_direct_in_groups_ ? Way::direct : Way::parts;
    return;
  }
  // Recomputing it at every read pays only if it is cheap.
  if (is_pointwise && !has_zero_border_ && ir::weight(writer_) <= 1) {
    way_ = Way::points;
    return;
  }
  if (!keeps_whole)
    refuse(text(writer_.name, " needs a whole axis, of which ", reader_.name, " reads a part at a time"));
  if (wraps_) refuse(text(reader_.name, " wraps around at the border, which reads elements far away"));
  refuse(text(reader_.name, " reads it at irregular positions"));
}

// The size of the groups of which the reader reads only some elements, such as the colours of pixels; 1: there are
// none.
std::int64_t Fusion::group_to_skip() const {
  if (rank() == 0) return 1;
  const std::size_t last = rank() - 1;
  const Reach& reach = reach_[last];
  const std::int64_t group = reach.like.scale;
  const bool is_skipped = group > 1 && reach.is_in_groups && static_cast<std::int64_t>(reach.members.size()) < group;
  return is_skipped && !writer_whole_[last] && can_skip_along(writer_, static_cast<int>(last), group) ? group : 1;
}

Id Fusion::copy_reader(Builder& make, const Load& load) {
  ProgramCopy::Choices choices;
  choices.leaf = [&](const Op& op) {
    switch (op.code) {
      case Code::dim:
        return make.dim(op.index, op.axis);
      case Code::tile_dim:
        return make.tile_dim(op.axis);
      case Code::origin:
        return make.origin(op.axis);
      default:
        return make.scalar(op.index);
    }
  };
  choices.load = [&](const Op& op, const std::vector<Id>& indices) {
    return op.index == input_ ? load(op, indices) : make.load(op.index, indices, op.border, op.list);
  };
  return ProgramCopy(make, reader_, std::move(choices)).run();
}

// The part of the writer's output that begins at `start`.
Id Fusion::copy_writer(Builder& make, const std::vector<Id>& start, const std::vector<Id>& extent) {
  std::vector<Id> key = start;
  key.insert(key.end(), extent.begin(), extent.end());
  if (const auto found = parts_.find(key); found != parts_.end() && make.is_visible(found->second))
    return found->second;
  ProgramCopy::Choices choices;
  choices.leaf = [&](const Op& op) {
    const auto axis = static_cast<std::size_t>(op.axis);
    switch (op.code) {
      case Code::dim:
        return make.dim(op.index == 0 ? input_ : inputs_[static_cast<std::size_t>(op.index) - 1], op.axis);
      case Code::tile_dim:
        return extent[axis];
      case Code::origin:
        return start[axis];
      default:
        return make.scalar(static_cast<int>(reader_.scalars.size()) + op.index);
    }
  };
  choices.load = [&](const Op& op, const std::vector<Id>& indices) {
    return make.load(inputs_[static_cast<std::size_t>(op.index) - 1], indices, op.border, op.list);
  };
  if (group_ > 1) skip_in_groups(make, choices, extent.back());
  const Id value = make.broadcast(ProgramCopy(make, writer_, std::move(choices)).run(), extent);
  parts_[key] = value;
  return value;
}

// Computes one element of each of `extent` groups along the last axis; neighbours are counted in groups too.
void Fusion::skip_in_groups(Builder& make, ProgramCopy::Choices& choices, Id extent) {
  const auto neighbours_of = [this](Id of) { return neighbours(writer_, of, static_cast<int>(rank()) - 1); };
  for (Id id = 0; id < static_cast<Id>(writer_.ops.size()); ++id) {
    const auto more = neighbours_of(id);
    if (more && *more != 0) choices.given[id] = make.binary(Code::add, extent, make.index(*more / group_));
  }
  choices.iota = [&make, neighbours_of, this](const Op& op, Id made) {
    const bool is_last = neighbours_of(op.shape[static_cast<std::size_t>(op.axis)]).has_value();
    return is_last ? make.binary(Code::mul, made, make.index(group_)) : made;
  };
  choices.start = [&make, neighbours_of, this](const Op& op, std::size_t axis, Id made) {
    std::int64_t start = 0;
    const bool is_last = neighbours_of(op.shape[axis]).has_value();
    return is_last && ir::is_constant(make.program(), made, start) ? make.index(start / group_) : made;
  };
}

void Fusion::add_same_extents(Builder& make) const {
  for (const ir::SameExtent& same : reader_.same_extents) make.same_extent(same);
  for (const ir::SameExtent& of_writer : writer_.same_extents) {
    const int buffer = inputs_[static_cast<std::size_t>(of_writer.buffer) - 1];
    for (const ir::SameExtent& of_reader : reader_.same_extents) {
      if (of_reader.buffer != input_ || of_reader.axis != of_writer.output_axis) continue;
      make.same_extent({buffer, of_writer.axis, of_reader.output_axis, of_writer.factor * of_reader.factor});
    }
  }
}

Fused fuse(const Program& reader, int input, const Program& writer, std::span<const int> same) {
  Fused fused;
  try {
    Fusion fusion(reader, input, writer, same);
    fused.program = fusion.run();
    fused.writer_inputs = fusion.writer_inputs();
    fused.skips = fusion.skips();
    fused.recomputes_halo = fusion.recomputes_halo();
    dump_program(*fused.program, "fuse");
  } catch (const FusionRefusal& refusal) {
    fused.reason = refusal.reason;
    if (dump_wants("fuse")) dump_show(text(writer.name, "+", reader.name), "fuse", text("not fused: ", fused.reason));
  }
  return fused;
}

}  // namespace tessera::compile
