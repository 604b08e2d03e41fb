#include "compile/gpu/printer.hpp"
#include "core/text.hpp"

#include <algorithm>

namespace tessera::compile::gpu {

using core::text;
using ir::Code;
using ir::Id;
using ir::Type;

namespace {

// Where argmax has not seen an element yet.
constexpr std::string_view no_index = "2147483647";

}  // namespace

std::vector<std::string> Printer::extents_of(Id id) {
  std::vector<std::string> extents;
  for (const Id extent : program_[id].shape) extents.push_back(this->extent(extent));
  return extents;
}

std::string Printer::product(const std::vector<std::string>& extents) {
  std::string points = "1";
  for (const std::string& extent : extents) points = times(points, extent);
  return points;
}

// Whether a stage of its own materialises a value. The results of a loop of stages stay where the loop left them.
bool Printer::is_own_stage(Id id) const {
  const ir::Op& op = program_[id];
  return is_materialised(id) &&
         (op.code != Code::result || analysis_.is_inline_loop[static_cast<std::size_t>(op.operands[0])]);
}

// The coordinates of a point of a box, from its number.
Printer::Point Printer::unravelled(const std::string& number, const std::vector<std::string>& extents) {
  Point point(extents.size(), "0");
  std::string rest = number;
  for (std::size_t axis = extents.size(); axis-- > 0;) {
    if (extents[axis] == "1") continue;
    const bool is_first = std::all_of(extents.begin(), extents.begin() + static_cast<std::ptrdiff_t>(axis),
                                      [](const std::string& extent) { return extent == "1"; });
    if (is_first) {
      point[axis] = rest;
      break;
    }
    const std::string next = declare(NumberKind::s32, text(rest, " / ", extents[axis]));
    point[axis] = declare(NumberKind::s32, text(rest, " - ", next, " * ", extents[axis]));
    rest = next;
  }
  return point;
}

// The invocations of the workgroup share the points of a box: `body` gets the coordinates and the number of a point.
void Printer::each_point(const std::vector<std::string>& extents, std::vector<Id> ids,
                         const std::function<void(const Point&, const std::string&)>& body) {
  const std::string points = declare_index(product(extents));
  const std::string at = name("p");
  open_loop(at, "lane", points, group_, std::move(ids));
  body(unravelled(at, extents), at);
  close_loop();
}

// A single invocation sees its own writes.
void Printer::print_barrier() {
  if (group_ > 1) line(std::string(syntax_.barrier()));
}

void Printer::print_stage(Id id) {
  if (is_reduction(program_[id].code)) {
    print_reduction_stage(id);
  } else {
    each_point(extents_of(id), program_[id].shape, [&](const Point& point, const std::string& at) {
      const Id before = std::exchange(computing_, id);
      const std::string value = compute(id, point);
      computing_ = before;
      to_scratch(id, at, value);
    });
  }
  print_barrier();
}

// Where there are many points, each is the work of an invocation; otherwise the whole workgroup reduces one point after
// the other: each invocation its share of the axis, then the workgroup combines the partial results.
void Printer::print_reduction_stage(Id id) {
  const ir::Op& op = program_[id];
  const std::vector<std::string> extents = extents_of(id);
  const std::string points = declare_index(product(extents));
  const std::string count = extent(program_[op.operands[0]].shape[static_cast<std::size_t>(op.axis)]);
  uses_reduction_memory_ = true;
  // No barrier is in a branch: PoCL rejects that, although all invocations take the same one.
  std::string done = "0";
  if (points != "1") {
    done = declare(NumberKind::s32, text(points, " * 4 >= ", group_, " ? ", points, " : 0"));
    const std::string at = name("p");
    open_loop(at, "lane", done, group_, op.shape);
    to_scratch(id, at, inline_reduction(id, unravelled(at, extents)));
    close_loop();
  }
  const std::string at = name("p");
  open_loop(at, done, points, 1, op.shape);
  const Partial partial = reduced_share(id, unravelled(at, extents), count);
  combine_partials(op, partial);
  open("if (lane == 0)");
  const bool finds_index = op.code == Code::argmax;
  to_scratch(id, at,
             finds_index ? text("(", partial.where, " == ", no_index, " ? 0 : ", partial.where, ")") : partial.value);
  close();
  print_barrier();  // before the next point uses the same memory
  close_loop();
}

// What an invocation finds in its share of the axis.
Printer::Partial Printer::reduced_share(Id id, const Point& point, const std::string& count) {
  const ir::Op& op = program_[id];
  const Id operand = op.operands[0];
  const auto axis = static_cast<std::size_t>(op.axis);
  const bool finds_index = op.code == Code::argmax;
  const NumberKind of = finds_index ? kind(operand) : kind(id);
  const std::string best = declare(of, identity(op, of));
  const std::string where = finds_index ? declare(NumberKind::s32, std::string(no_index)) : "";
  const std::string lost = loses_bits(op) ? declare(of, syntax_.number(of, 0)) : "";
  count_up("lane", count, group_, {program_[operand].shape[axis]}, [&](const std::string& k) {
    Point moved = point;
    moved[axis] = k;
    const std::string value = as(of, operand, eval(operand, moved));
    if (finds_index) {
      open(text("if (", where, " == ", no_index, " || ", is_greater(of, value, best), ")"));
      line(text(best, " = ", value, ";"));
      line(text(where, " = ", k, ";"));
      close();
    } else if (!lost.empty()) {
      add_exactly(best, lost, value);
    } else {
      line(text(best, " = ", combined(op.code, of, program_[operand].type, value, best), ";"));
    }
  });
  if (!lost.empty()) line(text(best, " = ", with_lost(best, lost), ";"));
  return {of, best, where};
}

// Combines the partial results of a workgroup, whose size is a power of two, by halves. The first invocation has the
// result.
void Printer::combine_partials(const ir::Op& op, const Partial& partial) {
  const auto of = partial.of;
  const std::string &best = partial.value, &where = partial.where;
  const std::string low = "shared_low", high = "shared_high";
  const auto share = [&] {
    line(text(low, "[lane] = ", syntax_.bits(of, best, 0), ";"));
    if (words_of(of) == 2) line(text(high, "[lane] = ", syntax_.bits(of, best, 1), ";"));
    if (!where.empty()) line(text("shared_place[lane] = ", where, ";"));
  };
  share();
  print_barrier();
  const std::string half = name("h");
  open(text("for (int ", half, " = ", group_ / 2, "; ", half, " > 0; ", half, " >>= 1)"));
  open(text("if (lane < ", half, ")"));
  const std::string other = declare(of, syntax_.from_bits(of, text(low, "[lane + ", half, "]"),
                                                          words_of(of) == 2 ? text(high, "[lane + ", half, "]") : ""));
  if (!where.empty()) {
    const std::string there = declare(NumberKind::s32, text("shared_place[lane + ", half, "]"));
    // The greater one, or the first of equals.
    const std::string is_other =
        declare(NumberKind::boolean,
                text(there, " != ", no_index, " && (", where, " == ", no_index, " || ", is_greater(of, other, best),
                     " || (!(", is_greater(of, best, other), ") && ", there, " < ", where, "))"));
    open(text("if (", is_other, ")"));
    line(text(best, " = ", other, ";"));
    line(text(where, " = ", there, ";"));
    close();
  } else {
    line(text(best, " = ", combined(op.code, of, program_[op.operands[0]].type, other, best), ";"));
  }
  share();
  close();
  print_barrier();
  close();
}

// A loop whose carried values are read at other points: its body is a region of stages. The carried values and the next
// ones swap their memory after each iteration.
void Printer::print_loop_stage(Id id) {
  const ir::Op& loop = program_[id];
  const ir::Region& region = program_.regions[static_cast<std::size_t>(loop.index)];
  const std::size_t carried = region.results.size();
  const auto fill = [&](Id from, Id to, const std::string& base) {
    each_point(extents_of(to), program_[to].shape, [&](const Point& point, const std::string& at) {
      to_words(base, kind(to), at, as(kind(to), from, eval(from, point)));
    });
  };
  for (std::size_t j = 0; j < carried; ++j) {
    const Id argument = region.arguments[j + 1];
    fill(loop.operands[j + 1], argument, scratch_of_.at(argument).name);
  }
  print_barrier();
  const std::string count = this->count(loop.operands[0]);
  const std::string counter = name("k");
  open_loop(counter, "0", count, 1, {loop.operands[0]});
  known_.back()[{region.arguments[0], {}}] = counter;
  print_region(loop.index);
  for (std::size_t j = 0; j < carried; ++j) {
    const Id argument = region.arguments[j + 1];
    fill(region.results[j], argument, spare_of_.at(argument));
  }
  print_barrier();
  for (std::size_t j = 0; j < carried; ++j) {
    const Id argument = region.arguments[j + 1];
    const std::string swapped = name("s");
    line(text("int ", swapped, " = ", scratch_of_.at(argument).name, ";"));
    line(text(scratch_of_.at(argument).name, " = ", spare_of_.at(argument), ";"));
    line(text(spare_of_.at(argument), " = ", swapped, ";"));
  }
  close_loop();
  for (std::size_t result = 0; result < program_.ops.size(); ++result) {
    const ir::Op& op = program_.ops[result];
    if (op.code != Code::result || op.operands[0] != id) continue;
    scratch_of_[static_cast<Id>(result)] = scratch_of_.at(region.arguments[static_cast<std::size_t>(op.index) + 1]);
  }
}

void Printer::print_region(int region) {
  for (const Id id : program_.regions[static_cast<std::size_t>(region)].ops) {
    const auto at = static_cast<std::size_t>(id);
    if (!analysis_.is_live[at]) continue;
    if (program_[id].code == Code::loop && !analysis_.is_inline_loop[at]) {
      print_loop_stage(id);
    } else if (is_own_stage(id)) {
      print_stage(id);
    }
  }
}

// Materialised values of a small known size go to the workgroup's memory; those that a loop carries and all others go
// to scratch memory, one after the other.
void Printer::allocate_scratch() {
  const std::int64_t reserved = static_cast<std::int64_t>(group_) * 12;  // for reductions
  std::string base;
  const auto take = [&](Id id) {
    std::string variable = name("s");
    line(text("int ", variable, " = ", base.empty() ? "scratch_base" : base, ";"));
    const int words = words_of(kind(id));
    base = declare_index(text(variable, " + ", times(product(extents_of(id)), std::to_string(words))));
    result_.scratch_values.push_back(id);
    result_.scratch_words.push_back(words);
    result_.has_scratch = true;
    return variable;
  };
  for (std::size_t id = 0; id < program_.ops.size(); ++id) {
    if (!analysis_.is_live[id]) continue;
    const auto value = static_cast<Id>(id);
    const ir::Op& op = program_.ops[id];
    if (is_own_stage(value)) {
      const std::int64_t points = points_of(program_, value, tiling_, nullptr);
      const std::int64_t bytes = points * 4 * words_of(kind(value));
      if (points != unknown && shared_used_ + bytes <= target_.shared_bytes - reserved) {
        shared_used_ += bytes;
        scratch_of_[value] = {true, name("shared_"), std::max<std::int64_t>(1, points)};
      } else {
        scratch_of_[value] = {false, take(value), 0};
      }
    }
    if (op.code != Code::loop || analysis_.is_inline_loop[id] || !has_stages_) continue;
    const auto& arguments = program_.regions[static_cast<std::size_t>(op.index)].arguments;
    for (std::size_t j = 1; j < arguments.size(); ++j) {
      scratch_of_[arguments[j]] = {false, take(arguments[j]), 0};
      spare_of_[arguments[j]] = take(arguments[j]);
    }
  }
}

void Printer::print_store() {
  const Id value = program_.stored();
  const std::vector<Id>& shape = program_[value].shape;
  std::vector<std::string> extents;
  for (std::size_t axis = 0; axis < tile_dims_.size(); ++axis) {
    const bool is_clipped = analysis_.is_clipped[axis] || tiling_.extents[axis] == 0;
    extents.push_back(is_clipped
                          ? tile_dims_[axis]
                          : declare(NumberKind::s32, text("min(", tile_dims_[axis], ", ",
                                                          dim(0, static_cast<int>(axis)), " - ", origins_[axis], ")")));
  }
  std::vector<Id> ids;  // the tile's extents that the program uses
  for (std::size_t id = 0; id < program_.ops.size(); ++id) {
    if (program_.ops[id].code == Code::tile_dim) ids.push_back(static_cast<Id>(id));
  }
  each_point(extents, ids, [&](const Point& point, const std::string&) {
    Point asked;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      std::int64_t extent = 0;
      const bool is_repeated = ir::is_constant(program_, shape[axis], extent) && extent == 1;
      asked.push_back(is_repeated ? "0" : point[point.size() - shape.size() + axis]);
    }
    std::vector<std::string> indices;
    indices.reserve(point.size());
    for (std::size_t axis = 0; axis < point.size(); ++axis) indices.push_back(plus(origins_[axis], point[axis]));
    const NumberKind to = program_.buffers.front().type == Type::s64 ? NumberKind::s64 : kind(value);
    const std::string stored = as(to, value, eval(value, asked));
    store_element(offset(indices, dims_.front()), stored);
  });
}

// A loop over the workgroup's tiles.
void Printer::open_tiles() {
  const std::size_t rank = tiling_.extents.size();
  open("for (int tile = first_group + group; tile < pieces; tile += groups)");
  origins_.assign(rank, "0");
  blocks_.assign(rank, "0");
  tile_dims_.assign(rank, "1");
  std::string number = "tile";
  std::size_t first_cut = 0;
  while (first_cut < rank && tiling_.extents[first_cut] == 0) ++first_cut;
  for (std::size_t axis = rank; axis-- > 0;) {
    const std::int64_t extent = tiling_.extents[axis];
    const std::string& whole = dim(0, static_cast<int>(axis));
    if (extent == 0) {
      tile_dims_[axis] = whole;
      continue;
    }
    blocks_[axis] = number;
    if (axis > first_cut) {
      const std::string count = declare(NumberKind::s32, text("(", whole, " + ", extent - 1, ") / ", extent));
      const std::string next = declare(NumberKind::s32, text(number, " / ", count));
      blocks_[axis] = declare(NumberKind::s32, text(number, " - ", next, " * ", count));
      number = next;
    }
    origins_[axis] = declare_index(times(blocks_[axis], std::to_string(extent)));
    tile_dims_[axis] = std::to_string(extent);
    if (analysis_.is_clipped[axis] && extent > 1) {
      tile_dims_[axis] = declare(NumberKind::s32, text("min(", whole, " - ", origins_[axis], ", ", extent, ")"));
    }
  }
}

void Printer::print_tiles() {
  open_tiles();
  allocate_scratch();
  print_region(0);
  print_store();
  if (result_.has_scratch || shared_used_ > 0 || uses_reduction_memory_) print_barrier();
  close();
}

}  // namespace tessera::compile::gpu
