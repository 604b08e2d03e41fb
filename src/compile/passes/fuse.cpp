#include "compile/passes/fuse.hpp"

#include "compile/compile.hpp"
#include "compile/passes/program_copy.hpp"
#include "core/text.hpp"
#include "ir/analysis.hpp"
#include "ir/builder.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

namespace tessera::compile {

using core::text;
using ir::Border;
using ir::Builder;
using ir::Code;
using ir::Extents;
using ir::Id;
using ir::Op;
using ir::Program;

namespace {

// More would take long to compile, and no longer fit the processor's registers.
constexpr std::size_t most_ops = 2000;

// Why two programs are not made one.
struct Refusal {
  std::string reason;
};
[[noreturn]] void refuse(std::string_view reason) { throw Refusal{std::string(reason)}; }

// An index of a load as start + scale * (0, 1, … extent - 1), start = base + offset and extent = whole + more.
struct Line {
  Id base = ir::none;  // rank 0; none: 0
  std::int64_t offset = 0;
  std::int64_t scale = 0;  // 0: a single number
  Id whole = ir::none;     // an extent; none: 0
  std::int64_t more = 0;
  std::size_t from_end = 0;  // which axis of the load it runs along: 1 is the last
};

// What a sum is without the number in it.
std::pair<Id, std::int64_t> without_number(const Builder& make, Id id) {
  const Op& op = make[id];
  std::int64_t number = 0;
  if (ir::is_constant(make.program(), id, number)) return {ir::none, number};
  if (op.code == Code::add || op.code == Code::sub) {
    if (ir::is_constant(make.program(), op.operands[1], number)) {
      const auto [rest, more] = without_number(make, op.operands[0]);
      return {rest, op.code == Code::add ? more + number : more - number};
    }
    if (op.code == Code::add && ir::is_constant(make.program(), op.operands[0], number)) {
      const auto [rest, more] = without_number(make, op.operands[1]);
      return {rest, more + number};
    }
  }
  return {id, 0};
}

std::optional<Line> line_of(Builder& make, Id id) {
  const Op op = make[id];
  Line line;
  if (op.shape.empty()) {
    std::tie(line.base, line.offset) = without_number(make, id);
    return line;
  }
  if (op.code == Code::broadcast) return line_of(make, op.operands[0]);
  if (op.code == Code::iota) {
    for (std::size_t axis = 0; axis < op.shape.size(); ++axis) {
      if (static_cast<int>(axis) != op.axis && !ir::is_one(make.program(), op.shape[axis])) return std::nullopt;
    }
    line.scale = 1;
    std::tie(line.whole, line.more) = without_number(make, op.shape[static_cast<std::size_t>(op.axis)]);
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

// Where a part begins, so that all of it is inside: what the border rules give is there then.
Id moved_inside(Builder& make, Id begin, Id length, Id dim) {
  begin = make.binary(Code::min, begin, make.binary(Code::sub, dim, length));
  return make.binary(Code::max, begin, make.index(0));
}

enum class Way : std::uint8_t { direct, parts, points };

// Along one axis, all that the reader reads of what the writer writes.
struct Reach {
  Line like;               // base, scale and whole are common to all loads
  std::int64_t first = 0;  // the least offset
  std::int64_t last = 0;   // base + last + scale * whole is the last index
  bool is_known = true;    // all loads are such
  bool is_all = true;      // each goes over the whole axis
  // Of groups of `scale` elements: which of them are read, and whether base and border rules are those of groups.
  std::set<std::int64_t> members;
  bool is_in_groups = true;
};

std::int64_t quotient_down(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

// The tile's extent along an axis and so many neighbours: tile_dim, or tile_dim + number; nothing if it is neither.
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

// Whether a program computes each point along an axis from where it is and from neighbours that are whole groups away,
// so that it can be asked for one element of each group: the tile's extent, and that with neighbours, are extents and
// nothing else.
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

class Fusion {
 public:
  Fusion(const Program& reader, int input, const Program& writer, std::span<const int> same)
      : reader_(reader), input_(input), writer_(writer), writer_whole_(whole_axes(writer)), whole_(whole_axes(reader)) {
    check();
    name_buffers(same);
    reach_.resize(rank());
  }

  Program run() {
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
    if (program.ops.size() > most_ops) refuse("together they are too much for one program");
    return program;
  }

  const std::vector<int>& writer_inputs() const { return inputs_; }
  bool skips() const { return group_ > 1; }
  bool is_in_parts() const { return way_ == Way::parts; }

 private:
  using Load = std::function<Id(const Op&, const std::vector<Id>&)>;

  std::size_t rank() const { return reader_.buffers[static_cast<std::size_t>(input_)].dims.size(); }
  void check() const;
  void name_buffers(std::span<const int> same);
  void look();
  Id copy_reader(Builder& make, const Load& load);
  Id copy_writer(Builder& make, const std::vector<Id>& start, const std::vector<Id>& extent);
  void skip_in_groups(Builder& make, Copy::Choices& choices, Id extent);
  int axis_like(std::size_t axis, std::int64_t factor) const;
  bool is_own_axis(const Builder& make, const Line& line, std::size_t axis, int* output_axis) const;
  bool is_own_group(const Builder& make, const Line& line, std::size_t axis, int* output_axis) const;
  bool is_direct(Builder& make, const std::vector<Id>& indices, bool in_groups);
  void note_reach(Builder& make, const Op& op, const std::vector<Id>& indices);
  void choose_way();
  std::int64_t group_to_skip() const;
  Id read_directly(Builder& make, const std::vector<Id>& indices);
  Id read_part(Builder& make, const Op& op, const std::vector<Id>& indices);
  struct Axis {
    Id start, extent;   // of the part, in the writer's output
    Id first, dim;      // the same start and the axis' extent, as `index` counts
    Id index;           // of the load
    std::int64_t step;  // of its border
  };
  Axis part_along(Builder& make, std::size_t axis, Id index, std::int64_t step) const;
  Axis part_in_groups(Builder& make, std::size_t axis, Id index, std::int64_t step) const;
  Id read_points(Builder& make, const Op& op, const std::vector<Id>& indices);
  void add_same_extents(Builder& make) const;
  ir::Idiom extended_idiom() const;
  Program row_program() const;

  const Program& reader_;
  const int input_;
  const Program& writer_;
  const std::vector<bool> writer_whole_;
  std::vector<bool> whole_;
  std::vector<ir::Buffer> buffers_;
  std::vector<ir::Scalar> scalars_;
  std::vector<int> inputs_;  // the numbers of the writer's inputs

  Way way_ = Way::direct;
  bool all_direct_ = true;
  bool all_direct_in_groups_ = true;  // the same of elements of groups
  bool is_in_loop_ = false;           // a load is
  bool goes_around_ = false;          // a border that reads from elsewhere
  bool has_zero_border_ = false;
  std::vector<Reach> reach_;
  bool has_reach_ = false;
  std::int64_t group_ = 1;               // along the last axis only some of so many elements are computed
  std::map<std::vector<Id>, Id> parts_;  // by where they begin and end
};

void Fusion::check() const {
  if (!reader_.tile.empty() || !writer_.tile.empty()) refuse("its tiles are chosen by the caller");
  if (!reader_.idiom.name.empty()) refuse(text(reader_.name, " reads its operands many times"));
  const bool is_epilogue = ir::is_pointwise(reader_) && reader_.buffers[0].type == writer_.buffers[0].type;
  if (!writer_.idiom.name.empty() && !is_epilogue) {
    refuse(text(writer_.name, " is done by a routine of the device's own, which goes on point by point only"));
  }
  const auto& read = reader_.buffers[static_cast<std::size_t>(input_)];
  if (read.dims.size() != writer_.buffers[0].dims.size()) refuse("the two see its axes differently");
  for (const Program* program : {&reader_, &writer_}) {
    const std::vector<bool> is_live = live_ops(*program);
    for (std::size_t id = 0; id < is_live.size(); ++id) {
      if (is_live[id] && program->ops[id].code == Code::block) refuse(text(program->name, " counts its tiles"));
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

// Goes through the reader once to see how it reads.
void Fusion::look() {
  Builder make(reader_.name, buffers_, scalars_);
  make.reserve(reader_.ops.size());
  bool is_read = false;
  copy_reader(make, [&](const Op& op, const std::vector<Id>& indices) {
    is_read = true;
    if (make.is_in_loop()) is_in_loop_ = true;
    if (op.border == Border::wrap || op.border == Border::reflect) goes_around_ = true;
    if (op.border == Border::zero) has_zero_border_ = true;
    all_direct_ = all_direct_ && is_direct(make, indices, false);
    all_direct_in_groups_ = all_direct_in_groups_ && is_direct(make, indices, true);
    note_reach(make, op, indices);
    return make.load(input_, indices, op.border, op.list);
  });
  if (!is_read) refuse("it is not read");
  choose_way();
}

void Fusion::choose_way() {
  if (!writer_.idiom.name.empty() && !all_direct_) refuse(text(reader_.name, " does not read it point by point"));
  const bool is_pointwise = ir::is_pointwise(writer_);
  if (all_direct_ && (!is_in_loop_ || is_pointwise)) {
    way_ = Way::direct;
    return;
  }
  const bool has_parts = std::ranges::all_of(reach_, &Reach::is_known) && !is_in_loop_ && !goes_around_;
  bool keeps_whole = true;
  for (std::size_t axis = 0; axis < rank(); ++axis)
    keeps_whole = keeps_whole && (!writer_whole_[axis] || reach_[axis].is_all);
  if (has_parts && keeps_whole) {
    group_ = group_to_skip();
    way_ = group_ > 1 && all_direct_in_groups_ ? Way::direct : Way::parts;
    return;
  }
  // Doing it again at every read is no gain if it is much.
  if (is_pointwise && !has_zero_border_ && ir::weight(writer_) <= 1) {
    way_ = Way::points;
    return;
  }
  if (!keeps_whole)
    refuse(text(writer_.name, " needs all of an axis, of which ", reader_.name, " reads a part at a time"));
  if (goes_around_) refuse(text(reader_.name, " reads over the border what is far away"));
  refuse(text(reader_.name, " reads it here and there"));
}

// How many elements there are in a group of which the reader does not read all, as of pixels it reads the colours only.
std::int64_t Fusion::group_to_skip() const {
  if (rank() == 0) return 1;
  const std::size_t last = rank() - 1;
  const Reach& reach = reach_[last];
  const std::int64_t group = reach.like.scale;
  const bool is_skipped = group > 1 && reach.is_in_groups && static_cast<std::int64_t>(reach.members.size()) < group;
  return is_skipped && !writer_whole_[last] && can_skip_along(writer_, static_cast<int>(last), group) ? group : 1;
}

Id Fusion::copy_reader(Builder& make, const Load& load) {
  Copy::Choices choices;
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
  return Copy(make, reader_, std::move(choices)).run();
}

// The writer's output from `start` on.
Id Fusion::copy_writer(Builder& make, const std::vector<Id>& start, const std::vector<Id>& extent) {
  std::vector<Id> key = start;
  key.insert(key.end(), extent.begin(), extent.end());
  if (const auto found = parts_.find(key); found != parts_.end() && make.is_visible(found->second))
    return found->second;
  Copy::Choices choices;
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
  const Id value = make.broadcast(Copy(make, writer_, std::move(choices)).run(), extent);
  parts_[key] = value;
  return value;
}

// One element of each group along the last axis, of which there are `extent`: neighbours are counted in groups too.
void Fusion::skip_in_groups(Builder& make, Copy::Choices& choices, Id extent) {
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

// The axis of the output that is as long as an axis of what is read, but for the factor; -1: that is not known.
int Fusion::axis_like(std::size_t axis, std::int64_t factor) const {
  for (const ir::SameExtent& same : reader_.same_extents) {
    if (same.buffer == input_ && same.axis == static_cast<int>(axis) && same.factor == factor) return same.output_axis;
  }
  return -1;
}

// Whether an index is each point's own along an axis of the output that is as long.
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

// Whether it is an element of each point's own group, of as many groups as the output has elements.
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

// `in_groups`: along the last axis of what is read it is elements of groups.
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
    const auto [whole, more] = without_number(make, make.dim(input_, static_cast<int>(axis)));
    const bool is_all =
        line->base == ir::none && line->offset == 0 && line->scale == 1 && line->whole == whole && line->more == more;
    if (!is_all) return false;
  }
  return !in_groups;
}

void Fusion::note_reach(Builder& make, const Op& op, const std::vector<Id>& indices) {
  for (std::size_t axis = 0; axis < indices.size(); ++axis) {
    Reach& reach = reach_[axis];
    if (buffers_[static_cast<std::size_t>(input_)].dims[axis] == 1) continue;  // there is only one place
    const std::optional<Line> line = line_of(make, indices[axis]);
    if (!line) {
      reach.is_known = reach.is_all = false;
      continue;
    }
    const auto [whole, more] = without_number(make, make.dim(input_, static_cast<int>(axis)));
    reach.is_all = reach.is_all && line->base == ir::none && line->offset == 0 && line->scale == 1 &&
                   line->whole == whole && line->more == more;
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

Fusion::Axis Fusion::part_along(Builder& make, std::size_t axis, Id index, std::int64_t step) const {
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

// Counted in groups: the part has of each group the element that the load reads.
Fusion::Axis Fusion::part_in_groups(Builder& make, std::size_t axis, Id index, std::int64_t step) const {
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
    const Axis part = is_single      ? Axis{zero, one, zero, one, indices[axis], step}
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

// Each load of the writer's, of the point that it is asked for, as a load of the point that the reader asks for.
Id Fusion::read_points(Builder& make, const Op& op, const std::vector<Id>& indices) {
  Copy::Choices choices;
  choices.drops_broadcasts = true;
  choices.leaf = [&](const Op& leaf) {
    if (leaf.code == Code::scalar) return make.scalar(static_cast<int>(reader_.scalars.size()) + leaf.index);
    return make.index(0);  // places, which are asked for by loads only
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
  Extents shape = ir::meet(make.program(), indices);
  return make.broadcast(Copy(make, writer_, std::move(choices)).run(), shape);
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

// The reader for one row.
Program Fusion::row_program() const {
  const std::size_t column_axes = writer_.idiom.name == "conv2d" ? 2 : 1;
  std::vector<ir::Buffer> buffers;
  std::vector<int> numbers(reader_.buffers.size());
  const auto add = [&](std::size_t number) {
    const ir::Buffer& buffer = reader_.buffers[number];
    const std::span<const std::int64_t> dims = buffer.dims;
    const auto columns = dims.subspan(dims.size() - std::min(dims.size(), column_axes));
    const auto ones = static_cast<std::size_t>(std::ranges::count(columns, 1));
    if (ones != columns.size() && (ones != 0 || columns.size() != column_axes)) {
      refuse(text(reader_.name, " repeats ", buffer.name, " within a row"));
    }
    numbers[number] = static_cast<int>(buffers.size());
    buffers.push_back({buffer.name, buffer.type, {ones == columns.size() ? std::int64_t{1} : std::int64_t{-1}}});
  };
  add(0);
  if (buffers[0].dims[0] == 1) refuse("its rows are single numbers");
  add(static_cast<std::size_t>(input_));
  for (std::size_t i = 1; i < reader_.buffers.size(); ++i) {
    if (static_cast<int>(i) != input_) add(i);
  }
  Builder make(reader_.name, buffers, reader_.scalars);
  Copy::Choices choices;
  choices.drops_broadcasts = true;
  choices.leaf = [&](const Op& op) { return op.code == Code::scalar ? make.scalar(op.index) : make.index(0); };
  choices.load = [&](const Op& op, const std::vector<Id>&) {
    const int number = numbers[static_cast<std::size_t>(op.index)];
    if (buffers[static_cast<std::size_t>(number)].dims[0] == 1) return make.load(number, {make.index(0)}, Border::zero);
    make.same_extent({number, 0, 0});
    const Id place = make.binary(Code::add, make.origin(0), make.iota({make.tile_dim(0)}, 0));
    return make.load(number, {place}, Border::zero);
  };
  const Id stored = make.broadcast(Copy(make, reader_, std::move(choices)).run(), make.tile_shape());
  return std::move(make).store(stored);
}

ir::Idiom Fusion::extended_idiom() const {
  const ir::Idiom& before = writer_.idiom;
  if (!before.epilogue && !writer_.scalars.empty()) refuse(text(writer_.name, " has numbers of its own"));
  const auto number_of = [&](int of_writer) {
    return of_writer == 0 ? 0 : inputs_[static_cast<std::size_t>(of_writer) - 1];
  };
  ir::Idiom idiom{before.name, before.numbers};
  if (before.inputs.empty()) {
    idiom.inputs = inputs_;
  } else {
    for (const int input : before.inputs) idiom.inputs.push_back(number_of(input));
  }
  Program row = row_program();
  std::vector<int> row_inputs = {0};  // what is read was left in the output
  for (int i = 1; i < static_cast<int>(reader_.buffers.size()); ++i) {
    if (i != input_) row_inputs.push_back(i);
  }
  if (before.epilogue) {
    Fused both = fuse(row, 1, *before.epilogue, std::vector<int>(before.epilogue->buffers.size() - 1, -1));
    if (!both.program) refuse(both.reason);
    row = std::move(*both.program);
    for (const int input : before.epilogue_inputs) row_inputs.push_back(number_of(input));
    std::vector<int> kept;
    for (const int number : drop_unused_buffers(row)) {
      if (number > 0) kept.push_back(row_inputs[static_cast<std::size_t>(number) - 1]);
    }
    row_inputs = std::move(kept);
  }
  idiom.epilogue = std::make_shared<const Program>(std::move(row));
  idiom.epilogue_inputs = std::move(row_inputs);
  return idiom;
}

}  // namespace

Fused fuse(const Program& reader, int input, const Program& writer, std::span<const int> same) {
  Fused fused;
  try {
    Fusion fusion(reader, input, writer, same);
    fused.program = fusion.run();
    fused.writer_inputs = fusion.writer_inputs();
    fused.skips = fusion.skips();
    fused.is_in_parts = fusion.is_in_parts();
  } catch (const Refusal& refusal) {
    fused.reason = refusal.reason;
  }
  return fused;
}

namespace {

// What copies a buffer of a type and rank. Nobody asks it for what is outside of that: clamping is the border that
// costs least.
Program copy_program(ir::Type type, int rank) {
  const std::vector<std::int64_t> dims(static_cast<std::size_t>(rank), -1);
  Builder make("copy", {{"z", type, dims}, {"x", type, dims}}, {});
  std::vector<Id> place;
  const Extents tile = make.tile_shape();
  for (int axis = 0; axis < rank; ++axis) {
    Extents shape(static_cast<std::size_t>(rank - axis), make.index(1));
    shape.front() = tile[static_cast<std::size_t>(axis)];
    place.push_back(make.binary(Code::add, make.origin(axis), make.iota(shape, 0)));
    make.same_extent({1, axis, axis});
  }
  const Id loaded = make.load(1, place, Border::clamp);
  return std::move(make).store(loaded);
}

}  // namespace

void take_apart_groups(Program& program) {
  constexpr std::ptrdiff_t few = 4;  // picking elements out of groups at each load is no more work
  for (int buffer = 1; buffer < static_cast<int>(program.buffers.size()); ++buffer) {
    const auto is_load = [&](const Op& op) { return op.code == Code::load && op.index == buffer; };
    const ir::Buffer& of = program.buffers[static_cast<std::size_t>(buffer)];
    if (of.rank() == 0 || std::ranges::count_if(program.ops, is_load) <= few) continue;
    const Program copy = copy_program(of.type, of.rank());
    Fused fused = fuse(program, buffer, copy, std::vector{buffer});
    if (!fused.program || !fused.skips) continue;
    fused.program->name = program.name;
    program = std::move(*fused.program);
  }
}

std::vector<int> drop_unused_buffers(Program& program) {
  std::vector<bool> is_used(program.buffers.size());
  is_used[0] = true;
  for (const Op& op : program.ops) {
    if (op.code == Code::load || op.code == Code::dim) is_used[static_cast<std::size_t>(op.index)] = true;
  }
  std::vector<int> kept, number(program.buffers.size(), -1);
  std::vector<ir::Buffer> buffers;
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    if (!is_used[i]) continue;
    number[i] = static_cast<int>(kept.size());
    kept.push_back(static_cast<int>(i));
    buffers.push_back(std::move(program.buffers[i]));
  }
  program.buffers = std::move(buffers);
  for (Op& op : program.ops) {
    if (op.code == Code::load || op.code == Code::dim) op.index = number[static_cast<std::size_t>(op.index)];
  }
  std::erase_if(program.same_extents,
                [&](const ir::SameExtent& same) { return !is_used[static_cast<std::size_t>(same.buffer)]; });
  for (ir::SameExtent& same : program.same_extents) same.buffer = number[static_cast<std::size_t>(same.buffer)];
  for (int& input : program.idiom.inputs) input = number[static_cast<std::size_t>(input)];
  for (int& input : program.idiom.epilogue_inputs) input = number[static_cast<std::size_t>(input)];
  return kept;
}

}  // namespace tessera::compile
