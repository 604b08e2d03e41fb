#include "compile/passes/split_reduction.hpp"

#include <tessera/error.hpp>

#include "compile/compile.hpp"
#include "compile/dump.hpp"
#include "compile/passes/program_copy.hpp"
#include "compile/passes/value_analysis.hpp"
#include "ir/builder.hpp"

#include <algorithm>
#include <utility>

namespace tessera::compile {

using ir::Builder;
using ir::Code;
using ir::Extents;
using ir::Id;
using ir::Op;
using ir::Program;
using ir::Type;

namespace {

constexpr std::size_t most_reductions = 4;

struct Refusal {};

bool is_float_sum(const Op& op) { return op.code == Code::reduce_sum && ir::is_float(op.type); }

// The reduction that is done for each part; for argmax the maximum, whose index is found in one part at the end. Sums
// of f32 are rounded once for each part, that is for thousands of elements: with f64 all vectors would have half the
// lanes, and a sum of exp took twice as long.
Type partial_type(const Program& program, const Op& reduction) { return program[reduction.operands[0]].type; }

class ReductionSplitter {
 public:
  explicit ReductionSplitter(const Program& program) : program_(program) {}

  SplitReduction run() {
    check();
    find_reductions();
    find_kept();
    SplitReduction result;
    result.is_kept = is_kept_;
    result.is_read.resize(program_.buffers.size());
    const Op& extent = program_[extent_];
    if (extent.code == Code::dim) {
      result.along = {extent.index, extent.axis};
    } else {
      result.extent = extent.integer;
    }
    for (const Id reduction : reductions_) {
      find_axis(reduction);
      result.partial.push_back(partial(reduction, result.is_read));
    }
    result.finish = finish();
    return result;
  }

 private:
  void check() const;
  void find_reductions();
  void find_kept();
  void find_axis(Id reduction);
  Program partial(Id reduction, std::vector<bool>& is_read) const;
  Program finish();
  Id combined(Builder& make, Id reduction, int buffer);
  Id index_in_part(Builder& make, Id reduction, Id greatest);
  std::vector<ir::Buffer> buffers_with_part() const;
  std::vector<ir::Scalar> scalars_with_one_more() const;
  int part() const { return static_cast<int>(program_.buffers.size()); }
  int last_scalar() const { return static_cast<int>(program_.scalars.size()); }
  std::size_t rank() const { return program_.buffers.front().dims.size(); }
  int& axis_of(Id id) { return axes_[static_cast<std::size_t>(id)]; }
  int axis_of(const Op& op) const { return axes_[static_cast<std::size_t>(&op - program_.ops.data())]; }
  Extents with_part(Builder& make, const Op& op, Extents shape) const {
    if (axis_of(op) >= 0) shape[static_cast<std::size_t>(axis_of(op))] = make.dim(part(), 0);
    return shape;
  }
  static Id load_same(Builder& make, const Op& op, const std::vector<Id>& indices) {
    return make.load(op.index, indices, op.border, op.list);
  }
  static Id leaf_same(Builder& make, const Op& op) {
    switch (op.code) {
      case Code::scalar:
        return make.scalar(op.index);
      case Code::dim:
        return make.dim(op.index, op.axis);
      case Code::tile_dim:
        return make.tile_dim(op.axis);
      default:
        return make.origin(op.axis);
    }
  }

  const Program& program_;
  std::vector<Id> reductions_;
  Id extent_ = ir::none;       // of the axis
  std::vector<bool> is_kept_;  // by axis of the output: whether the results of the reductions have it
  std::vector<int> axes_;      // by value: which of its axes is the reduced one; none: it does not depend on that axis
  static constexpr int none = -1;
};

// Programs that traverse an axis in other ways are not split, nor are those that depend on their tiles.
void ReductionSplitter::check() const {
  if (!program_.tile.empty() || !program_.idiom.name.empty() || program_.regions.size() > 1) throw Refusal();
  const std::vector<bool> is_live = live_ops(program_);
  for (std::size_t id = 0; id < is_live.size(); ++id) {
    const Code code = program_.ops[id].code;
    if (is_live[id] && (code == Code::block || code == Code::mma || code == Code::pick)) throw Refusal();
  }
}

// The reductions that no other reduction uses.
void ReductionSplitter::find_reductions() {
  std::vector<Id> open = {program_.stored()};
  std::vector<bool> seen(program_.ops.size());
  while (!open.empty()) {
    const Id id = open.back();
    open.pop_back();
    if (seen[static_cast<std::size_t>(id)]) continue;
    seen[static_cast<std::size_t>(id)] = true;
    const Op& op = program_[id];
    if (!ir::is_reduction(op.code)) {
      open.insert(open.end(), op.operands.begin(), op.operands.end());
      continue;
    }
    const Id extent = program_[op.operands[0]].shape[static_cast<std::size_t>(op.axis)];
    if (extent_ != ir::none && extent != extent_) throw Refusal();
    extent_ = extent;
    reductions_.push_back(id);
  }
  if (reductions_.empty() || reductions_.size() > most_reductions) throw Refusal();
  const Code code = program_[extent_].code;
  if (code != Code::dim && code != Code::constant) throw Refusal();
}

// The result of a reduction must be [tile i, 1, tile j…], with the output's axes in their order.
void ReductionSplitter::find_kept() {
  for (const Id reduction : reductions_) {
    std::vector<bool> is_kept(rank());
    int last = none;
    for (const Id extent : program_[reduction].shape) {
      if (ir::is_one(program_, extent)) continue;
      const Op& of = program_[extent];
      if (of.code != Code::tile_dim || of.axis <= last) throw Refusal();
      last = of.axis;
      is_kept[static_cast<std::size_t>(last)] = true;
    }
    if (reduction != reductions_.front() && is_kept != is_kept_) throw Refusal();
    is_kept_ = is_kept;
  }
}

// Follows the reduced axis from the reduced value down to the values that do not have it. Users come before operands.
void ReductionSplitter::find_axis(Id reduction) {
  constexpr int unseen = -2;
  axes_.assign(program_.ops.size(), unseen);
  const auto set = [&](Id id, int axis) {
    if (axis_of(id) != unseen && axis_of(id) != axis) throw Refusal();
    axis_of(id) = axis;
  };
  // As in broadcasting: aligned at the last axis, and an extent of 1 is repeated.
  const auto set_aligned = [&](Id id, const Op& user, int axis) {
    const std::vector<Id>& shape = program_[id].shape;
    const int own = axis == none ? none : axis - static_cast<int>(user.shape.size() - shape.size());
    const bool has_it =
        own >= 0 && (shape[static_cast<std::size_t>(own)] == user.shape[static_cast<std::size_t>(axis)]);
    if (own >= 0 && !has_it && !ir::is_one(program_, shape[static_cast<std::size_t>(own)])) throw Refusal();
    set(id, has_it ? own : none);
  };
  const Op& top = program_[reduction];
  set(top.operands[0], top.axis);
  for (Id id = top.operands[0]; id >= 0; --id) {
    const Op& op = program_[id];
    const int axis = axis_of(id);
    if (axis == unseen) continue;
    // Otherwise each part would compute all of it again.
    if (ir::is_reduction(op.code) && axis == none) throw Refusal();
    if (axis != none && op.shape[static_cast<std::size_t>(axis)] != extent_) throw Refusal();
    switch (op.code) {
      case Code::transpose:
        set(op.operands[0], axis == none ? none : static_cast<int>(op.list[static_cast<std::size_t>(axis)]));
        break;
      case Code::reshape:
      case Code::slice:
        if (axis != none) throw Refusal();
        for (const Id operand : op.operands) set(operand, none);
        break;
      default:
        if (ir::is_reduction(op.code)) {
          set(op.operands[0], axis);
          break;
        }
        for (const Id operand : op.operands) set_aligned(operand, op, axis);
        break;
    }
  }
}

std::vector<ir::Buffer> ReductionSplitter::buffers_with_part() const {
  std::vector<ir::Buffer> buffers = program_.buffers;
  buffers.push_back({"part", Type::u8, {-1}});
  return buffers;
}

std::vector<ir::Scalar> ReductionSplitter::scalars_with_one_more() const {
  std::vector<ir::Scalar> scalars = program_.scalars;
  scalars.push_back({"part", Type::s64});
  return scalars;
}

Program ReductionSplitter::partial(Id reduction, std::vector<bool>& is_read) const {
  const Op& op = program_[reduction];
  std::vector<ir::Buffer> buffers = buffers_with_part();
  buffers.front().type = partial_type(program_, op);
  for (std::size_t axis = 0; axis < rank(); ++axis) {
    if (!is_kept_[axis]) buffers.front().dims[axis] = 1;
  }
  Builder make(program_.name + " of a part", std::move(buffers), scalars_with_one_more());
  ir::Part along{.begin = last_scalar(), .extent = part(), .inside = {}};

  const std::vector<bool> is_clipped(rank(), true);
  ProgramCopy::Choices choices;
  choices.leaf = [&](const Op& leaf) {
    const bool is_of_output = leaf.code != Code::scalar && (leaf.code != Code::dim || leaf.index == 0);
    if (is_of_output && !is_kept_[static_cast<std::size_t>(leaf.axis)]) throw Refusal();
    return leaf_same(make, leaf);
  };
  choices.shape = [&](const Op& of, Extents shape) { return with_part(make, of, std::move(shape)); };
  choices.iota = [&](const Op& of, Id made) {
    return axis_of(of) == of.axis ? make.binary(Code::add, make.scalar(last_scalar()), made) : made;
  };
  choices.load = [&](const Op& load, const std::vector<Id>& indices) {
    is_read[static_cast<std::size_t>(load.index)] = true;
    for (std::size_t axis = 0; axis < indices.size(); ++axis) {
      const Op& index = program_[load.operands[axis]];
      const bool is_along = index.code == Code::iota && axis_of(index) == index.axis;
      if (is_along && is_inside(program_, load, axis, is_clipped)) {
        along.inside.push_back({load.index, static_cast<int>(axis)});
      }
    }
    return load_same(make, load, indices);
  };
  Id value = ProgramCopy(make, program_, std::move(choices), op.operands[0]).run();
  value = make.reduce(op.code == Code::argmax ? Code::reduce_max : op.code, value, op.axis);
  Extents shape;
  for (std::size_t axis = 0; axis < rank(); ++axis) {
    shape.push_back(is_kept_[axis] ? make.tile_dim(static_cast<int>(axis)) : make.index(1));
  }
  value = make.reshape(value, shape);
  for (const ir::SameExtent& same : program_.same_extents) {
    if (is_kept_[static_cast<std::size_t>(same.output_axis)]) make.same_extent(same);
  }
  Program made = std::move(make).store(value);
  made.whole = whole_axes(program_);
  made.part = std::move(along);
  return made;
}

Program ReductionSplitter::finish() {
  std::vector<ir::Buffer> buffers = buffers_with_part();
  for (const Id reduction : reductions_) {
    std::vector<std::int64_t> dims = {-1};
    for (std::size_t axis = 0; axis < rank(); ++axis) {
      dims.push_back(is_kept_[axis] ? program_.buffers.front().dims[axis] : 1);
    }
    buffers.push_back({"parts", partial_type(program_, program_[reduction]), std::move(dims)});
  }
  Builder make(program_.name + " of parts", std::move(buffers), scalars_with_one_more());
  for (const ir::SameExtent& same : program_.same_extents) make.same_extent(same);
  ProgramCopy::Choices choices;
  choices.leaf = [&](const Op& leaf) { return leaf_same(make, leaf); };
  choices.load = [&](const Op& load, const std::vector<Id>& indices) { return load_same(make, load, indices); };
  for (std::size_t i = 0; i < reductions_.size(); ++i) {
    choices.given[reductions_[i]] = combined(make, reductions_[i], part() + 1 + static_cast<int>(i));
  }
  const Id stored = ProgramCopy(make, program_, std::move(choices)).run();
  Program made = std::move(make).store(stored);
  made.whole = whole_axes(program_);
  return made;
}

// The result of a reduction, from the partial results.
Id ReductionSplitter::combined(Builder& make, Id reduction, int buffer) {
  const Op& op = program_[reduction];
  const std::size_t result_rank = op.shape.size();
  const auto along = [&](std::size_t axis, Id extent) {
    Extents shape(result_rank, make.index(1));
    shape[axis] = extent;
    return make.iota(shape, static_cast<int>(axis));
  };
  std::vector<Id> indices(rank() + 1, make.index(0));
  indices[0] = along(static_cast<std::size_t>(op.axis), make.dim(buffer, 0));
  for (std::size_t axis = 0; axis < result_rank; ++axis) {
    const Op& extent = program_[op.shape[axis]];
    if (extent.code != Code::tile_dim) continue;
    const Id offset = along(axis, make.tile_dim(extent.axis));
    indices[static_cast<std::size_t>(extent.axis) + 1] = make.binary(Code::add, make.origin(extent.axis), offset);
    make.same_extent({buffer, extent.axis + 1, extent.axis});
  }
  Id parts = make.load(buffer, indices, ir::Border::zero);
  if (is_float_sum(op)) parts = make.convert(Code::convert, Type::f64, parts);
  const Id found = make.reduce(op.code, parts, op.axis);
  return op.code == Code::argmax ? index_in_part(make, reduction, found) : make.convert(Code::convert, op.type, found);
}

// The index of the first greatest element, which is in this part. Beyond the end of the axis its last element is read
// again, which does not change which one is first.
Id ReductionSplitter::index_in_part(Builder& make, Id reduction, Id greatest) {
  const Op& op = program_[reduction];
  find_axis(reduction);
  for (std::size_t id = 0; id < axes_.size(); ++id) {  // axes must stay aligned
    if (axes_[id] >= 0 && program_.ops[id].code == Code::transpose) throw Refusal();
  }
  const Id begin = make.binary(Code::mul, greatest, make.scalar(last_scalar()));
  const Op& extent = program_[extent_];
  const Id length = extent.code == Code::dim ? make.dim(extent.index, extent.axis) : make.index(extent.integer);
  const Id last = make.binary(Code::sub, length, make.index(1));
  ProgramCopy::Choices choices;
  choices.leaf = [&](const Op& leaf) { return leaf_same(make, leaf); };
  choices.load = [&](const Op& load, const std::vector<Id>& indices) { return load_same(make, load, indices); };
  choices.shape = [&](const Op& of, Extents shape) { return with_part(make, of, std::move(shape)); };
  choices.iota = [&](const Op& of, Id made) {
    if (axis_of(of) != of.axis) return made;
    // It gets the axes of `begin`, which must be the same as those of its users.
    if (of.shape.size() - static_cast<std::size_t>(of.axis) != op.shape.size() - static_cast<std::size_t>(op.axis)) {
      throw Refusal();
    }
    return make.binary(Code::min, make.binary(Code::add, begin, made), last);
  };
  const Id value = ProgramCopy(make, program_, std::move(choices), op.operands[0]).run();
  return make.binary(Code::add, begin, make.reduce(op.code, value, op.axis));
}

}  // namespace

std::optional<SplitReduction> split_reduction(const Program& program) {
  try {
    SplitReduction split = ReductionSplitter(program).run();
    for (const Program& partial : split.partial) dump_program(partial, "split");
    dump_program(split.finish, "split");
    return split;
  } catch (const Refusal&) {
    return std::nullopt;
  } catch (const Error&) {  // from the builder: the shapes no longer match
    return std::nullopt;
  }
}

}  // namespace tessera::compile
