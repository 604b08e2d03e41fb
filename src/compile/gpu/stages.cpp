#include <tessera/error.hpp>

#include "compile/gpu/printer.hpp"
#include "core/text.hpp"
#include "ir/analysis.hpp"

#include <algorithm>
#include <limits>

namespace tessera::compile::gpu {

using core::text;
using ir::Code;
using ir::Id;
using ir::Type;

namespace {

constexpr std::int64_t unknown = -1;

// The tiles of a workgroup: along axes that must not be cut all of it, else so many that what is kept of a part and its
// neighbours fits the memory of a workgroup as a rule.
constexpr std::int64_t tile_rows = 8, tile_columns = 64;

Tiling tiles_of(const ir::Program& program) {
  if (!program.tile.empty()) return {program.tile};
  const std::vector<bool> whole = whole_axes(program);
  const bool reduces = std::ranges::any_of(program.ops, [](const ir::Op& op) { return is_reduction(op.code); });
  Tiling tiling;
  for (std::size_t axis = 0; axis < whole.size(); ++axis) {
    const std::int64_t cut = axis + 1 == whole.size() ? tile_columns : axis + 2 == whole.size() ? tile_rows : 1;
    tiling.extents.push_back(whole[axis] ? 0 : reduces ? 1 : cut);
  }
  return tiling;
}

// An extent, if it is known for tiles of this shape.
std::int64_t extent_value(const ir::Program& program, Id id, const Tiling& tiling, const std::int64_t* dims) {
  const ir::Op& op = program[id];
  const auto operand = [&](std::size_t i) { return extent_value(program, op.operands[i], tiling, dims); };
  const auto dim_of = [&](int buffer, int axis) {
    std::size_t number = 0;
    for (int i = 0; i < buffer; ++i) number += program.buffers[static_cast<std::size_t>(i)].dims.size();
    const std::int64_t known = program.buffers[static_cast<std::size_t>(buffer)].dims[static_cast<std::size_t>(axis)];
    return known >= 0 ? known : dims ? dims[number + static_cast<std::size_t>(axis)] : unknown;
  };
  switch (op.code) {
    case Code::constant:
      return op.integer;
    case Code::dim:
      return dim_of(op.index, op.axis);
    case Code::tile_dim: {
      const std::int64_t extent = tiling.extents[static_cast<std::size_t>(op.axis)];
      return extent == 0 ? dim_of(0, op.axis) : extent;
    }
    case Code::origin:
    case Code::block:
      return 0;
    default:
      break;
  }
  if (op.operands.size() != 2) return unknown;
  const std::int64_t a = operand(0), b = operand(1);
  if (!dims && (a < 0 || b < 0)) return unknown;
  switch (op.code) {
    case Code::add:
      return a + b;
    case Code::sub:
      return a - b;
    case Code::mul:
      return a * b;
    case Code::div:
      return b == 0 ? 0 : a / b;
    case Code::rem:
      return b == 0 ? 0 : a % b;
    case Code::min:
      return std::min(a, b);
    case Code::max:
      return std::max(a, b);
    default:
      return unknown;
  }
}

// The points of a value; unknown if one of its extents is.
std::int64_t points_of(const ir::Program& program, Id id, const Tiling& tiling, const std::int64_t* dims) {
  std::int64_t points = 1;
  for (const Id extent : program[id].shape) {
    const std::int64_t value = extent_value(program, extent, tiling, dims);
    if (value < 0 && !dims) return unknown;
    points *= std::max<std::int64_t>(0, value);
  }
  return points;
}

int words_of(Kept kept) { return kept == Kept::f64 || kept == Kept::s64 ? 2 : 1; }

bool reads_wide(const ir::Program& program, const Tiling& tiling) {
  const Analysis analysis(program, tiling);
  for (std::size_t id = 0; id < program.ops.size(); ++id) {
    if (analysis.is_live[id] && analysis.is_materialised[id] && !is_reduction(program.ops[id].code)) return true;
    const bool is_loop = program.ops[id].code == Code::loop && analysis.is_live[id];
    if (is_loop && !analysis.is_inline_loop[id]) return true;
  }
  return false;
}

// Whether a program must be computed tile by tile.
bool needs_tiles(const ir::Program& program) {
  return !program.tile.empty() || sees_tiles(program) || reads_wide(program, tiles_of(program));
}

// A point at a time.
Tiling single_points(const ir::Program& program) {
  return {std::vector<std::int64_t>(program.buffers.front().dims.size(), 1)};
}

}  // namespace

bool has_two_forms(const ir::Program& program) {
  if (needs_tiles(program)) return false;
  return std::ranges::any_of(program.ops, [](const ir::Op& op) { return is_reduction(op.code); });
}

Printer::Printer(const ir::Program& program, const Target& target, Form form)
    : program_(program),
      target_(target),
      words_(target),
      tiling_(needs_tiles(program) ? tiles_of(program) : single_points(program)),
      analysis_(program, tiling_),
      kept_(kept_as(program, analysis_.is_live, target)) {
  has_stages_ = needs_tiles(program) || (form == Form::few && has_two_forms(program));
  // Four neighbours at a time, where every point is computed from the same point of the inputs.
  const auto is_single = [](const ir::Buffer& buffer) { return buffer.rank() == 1; };
  has_quads_ = !has_stages_ && ir::is_pointwise(program) && std::ranges::all_of(program.buffers, is_single);
  known_.emplace_back();
}

// ---- Stages

std::vector<std::string> Printer::extents_of(Id id) {
  std::vector<std::string> extents;
  for (const Id extent : program_[id].shape) extents.push_back(place(extent));
  return extents;
}

std::string Printer::product(const std::vector<std::string>& extents) {
  std::string points = "1";
  for (const std::string& extent : extents) points = times(points, extent);
  return points;
}

// Whether a value is materialised by a stage of its own. The results of a loop of stages are where the loop left them.
bool Printer::is_own_stage(Id id) const {
  const ir::Op& op = program_[id];
  return is_materialised(id) &&
         (op.code != Code::result || analysis_.is_inline_loop[static_cast<std::size_t>(op.operands[0])]);
}

// The coordinates of a point of a box, of its number.
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
    const std::string next = declare(Kept::s32, text(rest, " / ", extents[axis]));
    point[axis] = declare(Kept::s32, text(rest, " - ", next, " * ", extents[axis]));
    rest = next;
  }
  return point;
}

// The invocations of the workgroup share the points of a box: `body` is given the coordinates and the number.
void Printer::each_point(const std::vector<std::string>& extents, std::vector<Id> ids,
                         const std::function<void(const Point&, const std::string&)>& body) {
  const std::string points = declare_place(product(extents));
  const std::string at = name("p");
  open_loop(at, "lane", points, target_.group, std::move(ids));
  body(unravelled(at, extents), at);
  close_loop();
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
  line(std::string(words_.barrier()));
}

// Where there are many points, each is an invocation's; else all work on one after the other: each goes through its
// share, then what they found is brought together in the workgroup's memory.
void Printer::print_reduction_stage(Id id) {
  const ir::Op& op = program_[id];
  const Id operand = op.operands[0];
  const auto axis = static_cast<std::size_t>(op.axis);
  const bool finds_place = op.code == Code::argmax;
  const Kept of = finds_place ? kept(operand) : kept(id);
  const std::vector<std::string> extents = extents_of(id);
  const std::string points = declare_place(product(extents));
  const std::string count = place(program_[operand].shape[axis]);
  uses_reduction_memory_ = true;
  // No barrier is in a branch: PoCL does not take that, although all go the same way.
  std::string done = "0";
  if (points != "1") {
    done = declare(Kept::s32, text(points, " * 4 >= ", target_.group, " ? ", points, " : 0"));
    const std::string at = name("p");
    open_loop(at, "lane", done, target_.group, op.shape);
    to_scratch(id, at, inline_reduction(id, unravelled(at, extents)));
    close_loop();
  }
  const std::string at = name("p");
  open_loop(at, done, points, 1, op.shape);
  const Point point = unravelled(at, extents);
  const std::string best = declare(of, identity(op, of));
  const std::string where = finds_place ? declare(Kept::s32, "2147483647") : "";
  count_up("lane", count, target_.group, {program_[operand].shape[axis]}, [&](const std::string& k) {
    Point moved = point;
    moved[axis] = k;
    const std::string value = as(of, operand, eval(operand, moved));
    if (finds_place) {
      open(text("if (", where, " == 2147483647 || ", is_greater(of, value, best), ")"));
      line(text(best, " = ", value, ";"));
      line(text(where, " = ", k, ";"));
      close();
    } else {
      line(text(best, " = ", combined(op.code, of, program_[operand].type, value, best), ";"));
    }
  });
  // Halving; the group is a power of two.
  const std::string low = "shared_low", high = "shared_high";
  const auto keep = [&](const std::string& slot) {
    line(text(low, "[", slot, "] = ", words_.bits(of, best, 0), ";"));
    if (words_of(of) == 2) line(text(high, "[", slot, "] = ", words_.bits(of, best, 1), ";"));
    if (finds_place) line(text("shared_place[", slot, "] = ", where, ";"));
  };
  keep("lane");
  line(std::string(words_.barrier()));
  const std::string half = name("h");
  open(text("for (int ", half, " = ", target_.group / 2, "; ", half, " > 0; ", half, " >>= 1)"));
  open(text("if (lane < ", half, ")"));
  const std::string other = declare(of, words_.from_bits(of, text(low, "[lane + ", half, "]"),
                                                         words_of(of) == 2 ? text(high, "[lane + ", half, "]") : ""));
  if (finds_place) {
    const std::string there = declare(Kept::s32, text("shared_place[lane + ", half, "]"));
    // The greater, or of equals the first.
    const std::string is_other = declare(
        Kept::boolean, text(there, " != 2147483647 && (", where, " == 2147483647 || ", is_greater(of, other, best),
                            " || (!(", is_greater(of, best, other), ") && ", there, " < ", where, "))"));
    open(text("if (", is_other, ")"));
    line(text(best, " = ", other, ";"));
    line(text(where, " = ", there, ";"));
    close();
  } else {
    line(text(best, " = ", combined(op.code, of, program_[operand].type, other, best), ";"));
  }
  keep("lane");
  close();
  line(std::string(words_.barrier()));
  close();
  open("if (lane == 0)");
  to_scratch(id, at, finds_place ? text("(", where, " == 2147483647 ? 0 : ", where, ")") : best);
  close();
  line(std::string(words_.barrier()));  // before the next point takes the same memory
  close_loop();
}

// A loop whose values need each other at other points: its body is a region of stages, and what it carries changes
// places with what comes next.
void Printer::print_loop_stage(Id id) {
  const ir::Op& loop = program_[id];
  const ir::Region& region = program_.regions[static_cast<std::size_t>(loop.index)];
  const std::size_t carried = region.results.size();
  const auto fill = [&](Id from, Id to, const std::string& base) {
    each_point(extents_of(to), program_[to].shape, [&](const Point& point, const std::string& at) {
      to_words(base, kept(to), at, as(kept(to), from, eval(from, point)));
    });
  };
  for (std::size_t j = 0; j < carried; ++j) {
    const Id argument = region.arguments[j + 1];
    fill(loop.operands[j + 1], argument, scratch_of_.at(argument).name);
  }
  line(std::string(words_.barrier()));
  const std::string count = place(loop.operands[0]);
  const std::string counter = name("k");
  open_loop(counter, "0", count, 1, {loop.operands[0]});
  known_.back()[{region.arguments[0], {}}] = counter;
  print_region(loop.index);
  for (std::size_t j = 0; j < carried; ++j) {
    const Id argument = region.arguments[j + 1];
    fill(region.results[j], argument, spare_of_.at(argument));
  }
  line(std::string(words_.barrier()));
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

// Where the materialised values are: small ones of known size in the workgroup's memory, what a loop carries and all
// others in scratch memory, one after the other.
void Printer::place_scratch() {
  const std::int64_t reserved = static_cast<std::int64_t>(target_.group) * 12;  // for reductions
  std::string base;
  const auto take = [&](Id id) {
    std::string variable = name("s");
    line(text("int ", variable, " = ", base.empty() ? "scratch_base" : base, ";"));
    const int words = words_of(kept(id));
    base = declare_place(text(variable, " + ", times(product(extents_of(id)), std::to_string(words))));
    result_.kept.push_back(id);
    result_.kept_words.push_back(words);
    result_.has_scratch = true;
    return variable;
  };
  for (std::size_t id = 0; id < program_.ops.size(); ++id) {
    if (!analysis_.is_live[id]) continue;
    const auto value = static_cast<Id>(id);
    const ir::Op& op = program_.ops[id];
    if (is_own_stage(value)) {
      const std::int64_t points = points_of(program_, value, tiling_, nullptr);
      const std::int64_t bytes = points * 4 * words_of(kept(value));
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

// ---- Kernels

void Printer::print_store() {
  const Id value = program_.stored();
  const std::vector<Id>& shape = program_[value].shape;
  std::vector<std::string> extents;
  for (std::size_t axis = 0; axis < tile_dims_.size(); ++axis) {
    const bool is_clipped = analysis_.is_clipped[axis] || tiling_.extents[axis] == 0;
    extents.push_back(is_clipped
                          ? tile_dims_[axis]
                          : declare(Kept::s32, text("min(", tile_dims_[axis], ", ", dim(0, static_cast<int>(axis)),
                                                    " - ", origins_[axis], ")")));
  }
  std::vector<Id> ids;  // the tile's extents, where a value has them
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
    const Kept to = program_.buffers.front().type == Type::s64 ? Kept::s64 : kept(value);
    const std::string stored = as(to, value, eval(value, asked));
    store_element(offset(indices, dims_.front()), stored);
  });
}

void Printer::print_tiles() {
  const std::size_t rank = tiling_.extents.size();
  open("for (int tile = group; tile < pieces; tile += groups)");
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
      const std::string count = declare(Kept::s32, text("(", whole, " + ", extent - 1, ") / ", extent));
      const std::string next = declare(Kept::s32, text(number, " / ", count));
      blocks_[axis] = declare(Kept::s32, text(number, " - ", next, " * ", count));
      number = next;
    }
    origins_[axis] = declare_place(times(blocks_[axis], std::to_string(extent)));
    tile_dims_[axis] = std::to_string(extent);
    if (analysis_.is_clipped[axis] && extent > 1) {
      tile_dims_[axis] = declare(Kept::s32, text("min(", whole, " - ", origins_[axis], ", ", extent, ")"));
    }
  }
  place_scratch();
  print_region(0);
  print_store();
  if (result_.has_scratch || shared_used_ > 0 || uses_reduction_memory_) line(std::string(words_.barrier()));
  close();
}

// What an invocation does of so many pieces. In OpenCL there are always as many invocations, and no loop is
// needed.
void Printer::open_share(const std::string& piece, const std::string& pieces) {
  const std::string first = text("int ", piece, " = group * ", target_.group, " + lane;");
  if (target_.dialect == Dialect::opencl) {
    line(first);
    open(text("if (", piece, " < ", pieces, ")"));
  } else {
    open(text("for (", first, " ", piece, " < ", pieces, "; ", piece, " += groups * ", target_.group, ")"));
  }
}

// Each invocation some points of the output.
void Printer::print_points() {
  const std::size_t rank = tiling_.extents.size();
  open_share("at", "pieces");
  tile_dims_.assign(rank, "1");
  origins_ = unravelled("at", dims_.front());
  blocks_ = origins_;
  const Id value = program_.stored();
  const Kept to = program_.buffers.front().type == Type::s64 ? Kept::s64 : kept(value);
  store_element("at", as(to, value, eval(value, Point(program_[value].shape.size(), "0"))));
  close();
}

// Four neighbours at a time, read and written together; then those that are left.
void Printer::print_quads() {
  const Id value = program_.stored();
  const Type type = program_.buffers.front().type;
  const Kept to = type == Type::s64 ? Kept::s64 : kept(value);
  const Point point(program_[value].shape.size(), "0");
  line("int quads = pieces >> 2;");
  open_share("quad", "quads");
  for (std::size_t buffer = 1; buffer < program_.buffers.size(); ++buffer) {
    const Type of = program_.buffers[buffer].type;
    const auto number = static_cast<int>(buffer);
    // One that is repeated is read at its only place.
    const bool is_read = program_.buffers[buffer].dims.front() != 1 &&
                         std::ranges::find(result_.buffers, number) != result_.buffers.end();
    if (!is_read || (words_.is_glsl() && (of == Type::f64 || of == Type::s64))) continue;
    const std::string variable = name("q");
    std::string vector;
    if (words_.is_glsl()) {
      const char* types[] = {"vec4", "", "ivec4", "", "uvec4", "uint"};
      vector = types[static_cast<int>(of)];
      line(text(vector, " ", variable, " = b", buffer, "[quad];"));
    } else {
      const bool is_cuda = target_.dialect == Dialect::cuda;
      const char* types[] = {"float4", "double4", "int4", is_cuda ? "longlong4" : "long4", "uint4", "uchar4"};
      vector = types[static_cast<int>(of)];
      line(is_cuda ? text(vector, " ", variable, " = ((const ", vector, "*)b", buffer, ")[quad];")
                   : text(vector, " ", variable, " = vload4(quad, b", buffer, ");"));
    }
    quads_[number] = variable;
  }
  std::vector<std::string> stored;
  for (component_ = 0; component_ < 4; ++component_) {
    known_.emplace_back();
    origins_ = {component_ == 0 ? declare(Kept::s32, "quad * 4") : declare(Kept::s32, text("quad * 4 + ", component_))};
    blocks_ = origins_;
    tile_dims_ = {"1"};
    stored.push_back(as(to, value, eval(value, point)));
    known_.pop_back();
  }
  const auto four = [&](std::string_view of) {
    return text(of, "(", stored[0], ", ", stored[1], ", ", stored[2], ", ", stored[3], ")");
  };
  if (words_.is_glsl()) {
    if (type == Type::f64 || type == Type::s64) {
      for (int i = 0; i < 4; ++i) line(text("b0[quad * 4 + ", i, "] = ", stored[static_cast<std::size_t>(i)], ";"));
    } else if (type == Type::u8) {
      line(text("b0[quad] = ", stored[0], " | (", stored[1], " << 8) | (", stored[2], " << 16) | (", stored[3],
                " << 24);"));
    } else {
      line(text("b0[quad] = ", four(type == Type::f32 ? "vec4" : type == Type::s32 ? "ivec4" : "uvec4"), ";"));
    }
  } else if (target_.dialect == Dialect::cuda) {
    const char* types[] = {"float4", "double4", "int4", "longlong4", "uint4", "uchar4"};
    const std::string vector = types[static_cast<int>(type)];
    line(text("((", vector, "*)b0)[quad] = ", four("make_" + vector), ";"));
  } else {
    const char* types[] = {"float", "double", "int", "long", "uint", "uchar"};
    const std::string element = types[static_cast<int>(type)];
    std::string list;
    for (const std::string& one : stored) list += text(list.empty() ? "" : ", ", "(", element, ")(", one, ")");
    line(text("vstore4((", element, "4)(", list, "), quad, b0);"));
  }
  close();
  quads_.clear();
  // The first workgroup's: numbers of invocations behind the last point may not fit into an int.
  open(text("for (int left = lane; group == 0 && left < (pieces & 3); left += ", target_.group, ")"));
  line("int at = quads * 4 + left;");
  origins_ = {"at"};
  blocks_ = origins_;
  tile_dims_ = {"1"};
  store_element("at", as(to, value, eval(value, point)));
  close();
}

std::string Printer::declared_buffers() const {
  std::string result;
  int binding = 0;
  for (const int number : result_.buffers) {
    const Type type = program_.buffers[static_cast<std::size_t>(number)].type;
    if (words_.is_glsl()) {
      std::string element;
      if (type == Type::u8) {
        element = target_.has_u8 && !has_quads_ ? "uint8_t" : "uint";
      } else if (has_quads_ && type != Type::f64 && type != Type::s64) {
        element = type == Type::f32 ? "vec4" : type == Type::s32 ? "ivec4" : "uvec4";
      } else {
        const Kept as_kept[] = {Kept::f32, Kept::f64, Kept::s32, Kept::s64, Kept::u32};
        element = words_.type(as_kept[static_cast<int>(type)]);
      }
      const char* set = target_.dialect == Dialect::vulkan ? "set = 0, " : "";
      result += text("layout(std430, ", set, "binding = ", binding, ") ", number == 0 ? "" : "readonly ", "buffer B",
                     number, " { ", element, " b", number, "[]; };\n");
    } else {
      const bool is_cuda = target_.dialect == Dialect::cuda;
      const char* types[] = {"float",
                             "double",
                             "int",
                             is_cuda ? "long long" : "long",
                             is_cuda ? "unsigned" : "uint",
                             is_cuda ? "unsigned char" : "uchar"};
      result += text(binding == 0 ? "" : ", ", is_cuda ? "" : "__global ", number == 0 ? "" : "const ",
                     types[static_cast<int>(type)], "* b", number);
    }
    ++binding;
  }
  if (result_.has_scratch) {
    if (words_.is_glsl()) {
      const char* set = target_.dialect == Dialect::vulkan ? "set = 0, " : "";
      result +=
          text("layout(std430, ", set, "binding = ", binding++, ") coherent buffer Scratch { uint scratch[]; };\n");
    } else {
      result += target_.dialect == Dialect::cuda ? ", unsigned* scratch" : ", __global uint* scratch";
    }
  }
  switch (target_.dialect) {
    case Dialect::vulkan:
      result += result_.has_push_constants ? text("layout(push_constant) uniform Arguments { int arguments[",
                                                  result_.argument_words, "]; };\n")
                                           : text("layout(std430, set = 0, binding = ", binding,
                                                  ") readonly buffer Arguments { int arguments[]; };\n");
      break;
    case Dialect::gles:
      result += text("layout(location = 0) uniform int arguments[", result_.argument_words, "];\n");
      break;
    default:
      result += ", struct Arguments given";
  }
  return result;
}

std::string Printer::head() const {
  switch (target_.dialect) {
    case Dialect::vulkan: {
      std::string result = "#version 450\n";
      if (target_.has_s64) result += "#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require\n";
      if (target_.has_u8) result += "#extension GL_EXT_shader_8bit_storage : require\n";
      return result + "#define PRECISE precise\n";
    }
    case Dialect::gles:
      return "#version 310 es\n"
             "#extension GL_EXT_gpu_shader5 : enable\n"
             "precision highp float;\n"
             "precision highp int;\n"
             "#ifdef GL_EXT_gpu_shader5\n"
             "#define PRECISE precise\n"
             "#else\n"
             "#define PRECISE\n"
             "#endif\n";
    case Dialect::opencl:
      return text(target_.has_f64 ? "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n" : "",
                  "#pragma OPENCL FP_CONTRACT OFF\n");
    default:
      return "";
  }
}

Kernel Printer::print() {
  result_.group = target_.group;
  result_.tiling = tiling_;
  result_.points = has_stages_ ? 0 : has_quads_ ? 4 : 1;
  result_.buffers.push_back(0);
  result_.is_written.push_back(true);
  for (std::size_t buffer = 1; buffer < program_.buffers.size(); ++buffer) {
    bool is_read = false;
    for (std::size_t id = 0; id < program_.ops.size(); ++id) {
      const ir::Op& op = program_.ops[id];
      is_read |= analysis_.is_live[id] && op.code == Code::load && op.index == static_cast<int>(buffer);
    }
    if (!is_read) continue;
    result_.buffers.push_back(static_cast<int>(buffer));
    result_.is_written.push_back(false);
  }

  // The arguments: pieces of work, words of scratch memory a workgroup, extents, scalars.
  int word = 2;
  std::string arguments = "int pieces = arguments[0];\n";
  for (std::size_t buffer = 0; buffer < program_.buffers.size(); ++buffer) {
    dims_.emplace_back();
    for (std::size_t axis = 0; axis < program_.buffers[buffer].dims.size(); ++axis) {
      const std::int64_t known = program_.buffers[buffer].dims[axis];
      const int at = word++;
      if (known >= 0) {
        dims_.back().push_back(std::to_string(known));
      } else {
        dims_.back().push_back(text("d", buffer, "_", axis));
        arguments += text("  int d", buffer, "_", axis, " = arguments[", at, "];\n");
      }
    }
  }
  std::vector<bool> is_used(program_.scalars.size());
  for (std::size_t id = 0; id < program_.ops.size(); ++id) {
    const ir::Op& op = program_.ops[id];
    if (analysis_.is_live[id] && op.code == Code::scalar) is_used[static_cast<std::size_t>(op.index)] = true;
  }
  for (std::size_t number = 0; number < program_.scalars.size(); ++number) {
    const Type type = program_.scalars[number].type;
    const std::string low = words_.cast(Kept::u32, text("arguments[", word, "]"));
    const std::string high = words_.cast(Kept::u32, text("arguments[", word + 1, "]"));
    word += 2;
    scalars_.push_back(text("scalar", number));
    if (!is_used[number]) continue;
    const Kept as_kept[] = {Kept::f32, Kept::f64, Kept::s32, Kept::s64, Kept::u32, Kept::u32, Kept::boolean};
    const Kept of = as_kept[static_cast<int>(type)];
    arguments += text("  ", words_.variable(of), " scalar", number, " = ", words_.from_bits(of, low, high), ";\n");
  }
  result_.argument_words = word;
  result_.has_push_constants = target_.dialect == Dialect::vulkan && word * 4 <= target_.push_bytes;

  if (has_stages_) {
    print_tiles();
  } else if (has_quads_) {
    print_quads();
  } else {
    print_points();
  }

  const auto given = static_cast<int>(result_.buffers.size()) + (result_.has_scratch ? 1 : 0) +
                     (target_.dialect == Dialect::vulkan && !result_.has_push_constants ? 1 : 0);
  if (given > target_.most_buffers) {
    throw Error(Errc::unsupported, text("[", program_.name, "] uses ", given, " buffers at once, and ", target_.device,
                                        " takes at most ", target_.most_buffers));
  }

  const std::string qualifier = words_.is_glsl()                   ? "shared"
                                : target_.dialect == Dialect::cuda ? "__shared__"
                                                                   : "__local";
  std::string shared;
  const auto share = [&](std::string_view type, std::string_view array, std::int64_t elements) {
    shared += text(words_.is_glsl() ? "" : "  ", qualifier, " ", type, " ", array, "[", elements, "];\n");
  };
  for (const auto& [id, where] : scratch_of_) {
    if (where.is_shared) share(words_.type(kept(id)), where.name, where.elements);
  }
  if (uses_reduction_memory_) {
    share(words_.type(Kept::u32), "shared_low", target_.group);
    share(words_.type(Kept::u32), "shared_high", target_.group);
    share("int", "shared_place", target_.group);
  }
  const std::string base = result_.has_scratch ? "  int scratch_base = group * arguments[1];\n" : "";
  std::string& source = result_.source;
  source = head();
  if (words_.is_glsl()) {
    source +=
        text("layout(local_size_x = ", target_.group, ") in;\n", declared_buffers(), shared, functions(body_, target_),
             "void main() {\n", "  int lane = int(gl_LocalInvocationID.x);\n  int group = int(gl_WorkGroupID.x);\n",
             "  int groups = int(gl_NumWorkGroups.x);\n  ", arguments, base, body_, "}\n");
  } else {
    const bool is_cuda = target_.dialect == Dialect::cuda;
    source += text(
        "struct Arguments { int words[", word, "]; };\n", functions(body_, target_),
        is_cuda ? "extern \"C\" __global__ void kernel_main("
                : text("__kernel __attribute__((reqd_work_group_size(", target_.group, ", 1, 1))) void kernel_main("),
        declared_buffers(), ") {\n  const int* arguments = given.words;\n", shared,
        is_cuda ? "  int lane = threadIdx.x, group = blockIdx.x, groups = gridDim.x;\n  "
                : "  int lane = (int)get_local_id(0), group = (int)get_group_id(0), groups = "
                  "(int)get_num_groups(0);\n  ",
        arguments, base, body_, "}\n");
  }
  return std::move(result_);
}

Kernel print(const ir::Program& program, const Target& target, Form form) {
  return Printer(program, target, form).print();
}

void check_types(const ir::Program& program, const Target& target) {
  for (const ir::Buffer& buffer : program.buffers) {
    const bool is_missing =
        (buffer.type == Type::f64 && !target.has_f64) || (buffer.type == Type::s64 && !target.has_s64);
    if (!is_missing) continue;
    throw Error(Errc::unsupported, text("[", program.name, "] ", buffer.name, " is ", ir::to_string(buffer.type),
                                        ", which ", target.device, " does not have"));
  }
  kept_as(program, Analysis(program, single_points(program)).is_live, target);
}

Kernel::Grid Kernel::grid(const ir::Program& program, const std::int64_t* dims) const {
  const std::size_t rank = program.buffers.front().dims.size();
  Grid grid;
  std::int64_t pieces = 1;
  if (points == 0) {
    pieces = tiling.tiles({dims, rank});
    grid.groups = pieces;
  } else {
    for (std::size_t axis = 0; axis < rank; ++axis) pieces *= dims[axis];
    const std::int64_t at_once = static_cast<std::int64_t>(group) * points;
    grid.groups = (pieces + at_once - 1) / at_once;
  }
  for (std::size_t i = 0; i < kept.size(); ++i) {
    grid.scratch_bytes += points_of(program, kept[i], tiling, dims) * 4 * kept_words[i];
  }
  return grid;
}

std::int64_t Kernel::steps(const ir::Program& program, const std::int64_t* dims) const {
  // What cannot be told counts as one; the end of a loop is a step too.
  std::vector<std::int64_t> runs;  // of each loop: how often its body is run
  std::int64_t sum = 1;
  constexpr std::int64_t many = std::int64_t{1} << 40;
  for (const Loop& loop : loops) {
    std::int64_t count = 1;
    for (const ir::Id extent : loop.extents) {
      count = std::min(many, count * std::max<std::int64_t>(1, extent_value(program, extent, tiling, dims)));
    }
    count = (count + loop.shared_by - 1) / loop.shared_by;
    const std::int64_t outer = loop.around < 0 ? 1 : runs[static_cast<std::size_t>(loop.around)];
    runs.push_back(std::min(many, outer * count));
    sum = std::min(many, sum + outer * (count + 1));
  }
  return sum;
}

std::vector<std::uint32_t> Kernel::arguments(const ir::Program& program, const std::int64_t* dims,
                                             const std::uint64_t* scalars, const Grid& grid) const {
  const std::size_t rank = program.buffers.front().dims.size();
  std::vector<std::uint32_t> words;
  words.reserve(static_cast<std::size_t>(argument_words));
  std::int64_t pieces = 1;
  for (std::size_t axis = 0; axis < rank; ++axis) pieces *= dims[axis];
  if (points == 0) pieces = grid.groups;
  words.push_back(static_cast<std::uint32_t>(pieces));
  words.push_back(static_cast<std::uint32_t>(grid.scratch_bytes / 4));
  for (const ir::Buffer& buffer : program.buffers) {
    for (std::size_t axis = 0; axis < buffer.dims.size(); ++axis) words.push_back(static_cast<std::uint32_t>(*dims++));
  }
  for (std::size_t i = 0; i < program.scalars.size(); ++i) {
    std::uint64_t bits = scalars[i];
    if (program.scalars[i].type == Type::f32) {
      bits = std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
    }
    if (program.scalars[i].type == Type::u8) bits &= 255;
    words.push_back(static_cast<std::uint32_t>(bits));
    words.push_back(static_cast<std::uint32_t>(bits >> 32));
  }
  return words;
}

}  // namespace tessera::compile::gpu
