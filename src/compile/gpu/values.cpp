#include "compile/gpu/printer.hpp"
#include "core/text.hpp"
#include "ir/ranges.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <ranges>

namespace tessera::compile::gpu {

using core::text;
using ir::Code;
using ir::Id;

namespace {

bool is_extent_one(const ir::Program& program, Id extent) {
  std::int64_t value = 0;
  return ir::is_constant(program, extent, value) && value == 1;
}

bool is_number(const std::string& text) { return !text.empty() && text.find_first_not_of("0123456789") == text.npos; }

}  // namespace

// ---- Text

void Printer::line(const std::string& text) {
  body_.append(static_cast<std::size_t>(depth_) * 2, ' ');
  body_ += text;
  body_ += '\n';
}

void Printer::open(const std::string& text) {
  line(text.empty() ? "{" : core::text(text, " {"));
  ++depth_;
  known_.emplace_back();
}

void Printer::close() {
  known_.pop_back();
  --depth_;
  line("}");
}

void Printer::open_loop(const std::string& counter, const std::string& first, const std::string& count, int step,
                        std::vector<Id> extents) {
  const int around = open_loops_.empty() ? -1 : open_loops_.back();
  open_loops_.push_back(static_cast<int>(result_.loops.size()));
  result_.loops.push_back({around, std::move(extents), step});
  open(text("for (int ", counter, " = ", first, "; ", counter, " < ", count, "; ", counter, " += ", step, ")"));
}

void Printer::close_loop() {
  open_loops_.pop_back();
  close();
}

void Printer::note_loop(std::int64_t most) {
  result_.loops.push_back({open_loops_.empty() ? -1 : open_loops_.back(), {}, 1, most});
}

void Printer::count_up(const std::string& first, const std::string& count, int step, std::vector<Id> extents,
                       const std::function<void(const std::string&)>& body, std::int64_t most) {
  constexpr int at_once = 4;
  const std::string k = name("k");
  if (target_.most_steps == 0) {
    open_loop(k, first, count, step, std::move(extents));
    body(k);
    return close_loop();
  }
  line(text("int ", k, " = ", first, ";"));
  const int around = open_loops_.empty() ? -1 : open_loops_.back();
  open_loops_.push_back(static_cast<int>(result_.loops.size()));
  result_.loops.push_back({around, extents, static_cast<std::int64_t>(step) * at_once, most});
  open(text("for (; ", k, " + ", (at_once - 1) * step, " < ", count, "; ", k, " += ", at_once * step, ")"));
  for (int i = 0; i < at_once; ++i) {
    open("");
    body(i == 0 ? k : declare(NumberKind::s32, text(k, " + ", i * step)));
    close();
  }
  close_loop();
  if (is_number(count) && std::atoll(count.c_str()) % (at_once * step) == 0 && first == "0") return;
  result_.loops.push_back({around, std::move(extents), step, at_once - 1});
  open_loops_.push_back(static_cast<int>(result_.loops.size()) - 1);
  open(text("for (; ", k, " < ", count, "; ", k, " += ", step, ")"));
  body(k);
  close_loop();
}

std::string Printer::declare(NumberKind kind, const std::string& value) {
  std::string variable = name("v");
  line(text(syntax_.variable(kind), " ", variable, " = ", value, ";"));
  return variable;
}

std::string Printer::declare_index(const std::string& value) {
  const bool is_simple = value.find_first_of(" (") == std::string::npos;
  return is_simple ? value : declare(NumberKind::s32, value);
}

std::string Printer::plus(const std::string& a, const std::string& b) {
  if (a == "0") return b;
  if (b == "0") return a;
  if (is_number(a) && is_number(b)) return std::to_string(std::atoll(a.c_str()) + std::atoll(b.c_str()));
  return text("(", a, " + ", b, ")");
}

std::string Printer::times(const std::string& a, const std::string& b) {
  if (a == "0" || b == "0") return "0";
  if (a == "1") return b;
  if (b == "1") return a;
  if (is_number(a) && is_number(b)) return std::to_string(std::atoll(a.c_str()) * std::atoll(b.c_str()));
  return text("(", a, " * ", b, ")");
}

// ---- Values

std::string Printer::eval(Id id, const Point& point) {
  const std::pair<Id, Point> key{id, point};
  for (const Known& scope : std::views::reverse(known_)) {
    const auto found = scope.find(key);
    if (found != scope.end()) return found->second;
  }
  std::string value = compute(id, point);
  known_.back()[key] = value;
  return value;
}

std::string Printer::index(Id id, const Point& point) {
  std::string value = eval(id, point);
  if (kind(id) == NumberKind::s32) return value;
  const std::string least = syntax_.integer(NumberKind::s64, std::numeric_limits<std::int32_t>::min());
  const std::string greatest = syntax_.integer(NumberKind::s64, std::numeric_limits<std::int32_t>::max());
  const std::string inside =
      text(value, " < ", least, " ? ", least, " : ", value, " > ", greatest, " ? ", greatest, " : ", value);
  return declare(NumberKind::s32, syntax_.cast(NumberKind::s32, inside));
}

std::string Printer::extent(Id id) {
  if (const auto found = numbers_.find(id); found != numbers_.end()) return found->second;
  const std::string value = index(id);
  return ir::may_be_negative(program_, id) ? declare(NumberKind::s32, text("max(", value, ", 0)")) : value;
}

std::string Printer::count(Id id) {
  const auto found = numbers_.find(id);
  return found == numbers_.end() ? index(id) : found->second;
}

// The point of an operand that a point of the result needs, by the rules of broadcasting.
Printer::Point Printer::operand_point(const ir::Op& op, Id operand, const Point& point) const {
  const std::vector<Id>& shape = program_[operand].shape;
  const std::size_t skipped = point.size() - shape.size();
  Point result;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const bool is_repeated = shape[axis] != op.shape[skipped + axis] && is_extent_one(program_, shape[axis]);
    result.push_back(is_repeated ? "0" : point[skipped + axis]);
  }
  return result;
}

std::string Printer::compute(Id id, const Point& point) {
  const ir::Op& op = program_[id];
  const bool is_stored = is_materialised(id) && id != computing_;
  const bool is_carried =
      op.code == Code::argument ||
      (op.code == Code::result && !analysis_.is_inline_loop[static_cast<std::size_t>(op.operands[0])]);
  if (is_stored || is_carried) return from_scratch(id, point);
  if (is_elementwise(op.code)) {
    std::vector<std::string> operands;
    operands.reserve(op.operands.size());
    for (const Id operand : op.operands) operands.push_back(eval(operand, operand_point(op, operand, point)));
    return elementwise(id, operands);
  }
  if (is_reduction(op.code)) return inline_reduction(id, point);
  switch (op.code) {
    case Code::mma:
      return inline_mma(id, point);
    case Code::result:
      return inline_loop(program_[op.operands[0]], id, point);
    case Code::broadcast:
      return eval(op.operands[0], operand_point(op, op.operands[0], point));
    case Code::transpose: {
      Point moved(point.size());
      for (std::size_t i = 0; i < point.size(); ++i) moved[static_cast<std::size_t>(op.list[i])] = point[i];
      return eval(op.operands[0], moved);
    }
    case Code::reshape:
      return reshaped(op, point);
    case Code::slice:
      return sliced(id, point);
    case Code::load:
    case Code::pick:
      return loaded(id, point);
    default:
      return leaf(id, point);
  }
}

std::string Printer::leaf(Id id, const Point& point) {
  const ir::Op& op = program_[id];
  const auto axis = static_cast<std::size_t>(op.axis);
  switch (op.code) {
    case Code::constant:
      return ir::is_float(op.type) ? syntax_.number(kind(id), op.number) : syntax_.integer(kind(id), op.integer);
    case Code::scalar:
      return scalars_[static_cast<std::size_t>(op.index)];
    case Code::dim:
      return dim(op.index, op.axis);
    case Code::tile_dim:
      return tile_dims_[axis];
    case Code::origin:
      return origins_[axis];
    case Code::block:
      return blocks_[axis];
    default:  // iota
      return point[axis];
  }
}

std::string Printer::reshaped(const ir::Op& op, const Point& point) {
  const std::vector<Id>& to = op.shape;
  const std::vector<Id>& from = program_[op.operands[0]].shape;
  // If only extents of 1 are added or removed, the other coordinates stay as they are.
  std::vector<std::size_t> axes_to, axes_from;
  for (std::size_t axis = 0; axis < to.size(); ++axis) {
    if (!is_extent_one(program_, to[axis])) axes_to.push_back(axis);
  }
  for (std::size_t axis = 0; axis < from.size(); ++axis) {
    if (!is_extent_one(program_, from[axis])) axes_from.push_back(axis);
  }
  const bool is_same = std::ranges::equal(axes_to, axes_from, [&](auto a, auto b) { return to[a] == from[b]; });
  Point moved(from.size(), "0");
  if (is_same) {
    for (std::size_t i = 0; i < axes_to.size(); ++i) moved[axes_from[i]] = point[axes_to[i]];
    return eval(op.operands[0], moved);
  }
  std::string at = "0";
  for (std::size_t axis = 0; axis < to.size(); ++axis) {
    at = declare_index(plus(times(at, extent(to[axis])), point[axis]));
  }
  for (std::size_t axis = from.size(); axis-- > 0;) {
    if (is_extent_one(program_, from[axis])) continue;
    const bool is_first = std::all_of(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(axis),
                                      [&](Id extent) { return is_extent_one(program_, extent); });
    if (is_first) {
      moved[axis] = at;
      break;
    }
    // An extent of 0 has no points, but the division must not trap.
    const std::string extent = declare_index(text("max(", index(from[axis]), ", 1)"));
    const std::string next = declare(NumberKind::s32, text(at, " / ", extent));
    moved[axis] = declare(NumberKind::s32, text(at, " - ", next, " * ", extent));
    at = next;
  }
  return eval(op.operands[0], moved);
}

std::string Printer::sliced(Id id, const Point& point) {
  const ir::Op& op = program_[id];
  const Id operand = op.operands[0];
  Point moved;
  std::string inside;
  for (std::size_t axis = 0; axis < point.size(); ++axis) {
    const std::string whole = extent(program_[operand].shape[axis]);
    // A start far outside must not wrap around.
    const Id start = op.operands[axis + 1];
    std::string at;
    if (kind(start) == NumberKind::s64) {
      const std::string wide = declare(NumberKind::s64, text(eval(start, {}), " + ", syntax_.widened(point[axis])));
      const std::string is_in = declare(NumberKind::boolean, text(wide, " >= ", syntax_.integer(NumberKind::s64, 0),
                                                                  " && ", wide, " < ", syntax_.widened(whole)));
      inside += text(inside.empty() ? "" : " && ", is_in);
      at = declare(NumberKind::s32, text(is_in, " ? ", syntax_.cast(NumberKind::s32, wide), " : 0"));
    } else {
      at = declare_index(plus(point[axis], eval(start, {})));
      inside += text(inside.empty() ? "" : " && ", at, " >= 0 && ", at, " < ", whole);
    }
    moved.push_back(at);
  }
  std::string value = declare(kind(id), kind(id) == NumberKind::boolean ? "false" : syntax_.cast(kind(id), "0"));
  open(text("if (", inside, ")"));
  line(text(value, " = ", eval(operand, moved), ";"));
  close();
  return value;
}

// Computes all carried values at the point at once.
std::string Printer::inline_loop(const ir::Op& loop, Id wanted, const Point& point) {
  const ir::Region& region = program_.regions[static_cast<std::size_t>(loop.index)];
  // A value of rank 0 has a single point. If such a value is wanted, the points of the others are unknown, and they are
  // not computed.
  const auto point_of = [&](std::size_t j) { return program_[region.results[j]].shape.empty() ? Point{} : point; };
  const bool wants_scalar = program_[wanted].shape.empty();
  std::vector<std::size_t> used;
  for (std::size_t j = 0; j < region.results.size(); ++j) {
    if (!wants_scalar || program_[region.results[j]].shape.empty()) used.push_back(j);
  }
  std::vector<std::string> carried;
  for (const std::size_t j : used) {
    const Id argument = region.arguments[j + 1], first = loop.operands[j + 1];
    carried.push_back(declare(kind(argument), as(kind(argument), first, eval(first, point_of(j)))));
  }
  const std::string count = this->count(loop.operands[0]);
  const std::string counter = name("k");
  open_loop(counter, "0", count, 1, {loop.operands[0]});
  known_.back()[{region.arguments[0], {}}] = counter;
  for (std::size_t i = 0; i < used.size(); ++i) {
    known_.back()[{region.arguments[used[i] + 1], point_of(used[i])}] = carried[i];
  }
  std::vector<std::string> next;
  for (const std::size_t j : used) {
    const Id argument = region.arguments[j + 1], result = region.results[j];
    next.push_back(declare(kind(argument), as(kind(argument), result, eval(result, point_of(j)))));
  }
  for (std::size_t i = 0; i < used.size(); ++i) line(text(carried[i], " = ", next[i], ";"));
  close_loop();
  const Id first = static_cast<Id>(&loop - program_.ops.data());
  std::string found;
  for (std::size_t i = 0; i < used.size(); ++i) {
    for (std::size_t id = static_cast<std::size_t>(first); id < program_.ops.size(); ++id) {
      const ir::Op& op = program_.ops[id];
      if (op.code != Code::result || op.operands[0] != first || op.index != static_cast<int>(used[i])) continue;
      known_.back()[{static_cast<Id>(id), point_of(used[i])}] = carried[i];
      if (static_cast<Id>(id) == wanted) found = carried[i];
    }
  }
  return found;
}

Printer::Point Printer::mma_point(Id operand, const Point& point, const std::string& row,
                                  const std::string& column) const {
  const std::vector<Id>& shape = program_[operand].shape;
  Point result;
  for (std::size_t axis = 0; axis + 2 < shape.size(); ++axis) {
    const std::size_t of_point = axis + point.size() - shape.size();
    result.push_back(is_extent_one(program_, shape[axis]) ? "0" : point[of_point]);
  }
  result.push_back(row);
  result.push_back(column);
  return result;
}

std::string Printer::inline_mma(Id id, const Point& point) {
  const ir::Op& op = program_[id];
  const Id a = op.operands[0], b = op.operands[1], c = op.operands[2];
  std::string sum = declare(kind(id), as(kind(id), c, eval(c, operand_point(op, c, point))));
  const std::string count = extent(program_[a].shape.back());
  count_up("0", count, 1, {program_[a].shape.back()}, [&](const std::string& k) {
    const std::string left = as(kind(id), a, eval(a, mma_point(a, point, point[point.size() - 2], k)));
    const std::string right = as(kind(id), b, eval(b, mma_point(b, point, k, point.back())));
    line(text(sum, " = ", multiplied_and_added(id, left, right, sum), ";"));
  });
  return sum;
}

std::string Printer::inline_reduction(Id id, const Point& point) {
  const ir::Op& op = program_[id];
  const Id operand = op.operands[0];
  const auto axis = static_cast<std::size_t>(op.axis);
  const bool finds_index = op.code == Code::argmax;
  const NumberKind of = finds_index ? kind(operand) : kind(id);
  std::string best = declare(of, identity(op, of));
  std::string at = finds_index ? declare(NumberKind::s32, "0") : "";
  const std::string lost = loses_bits(op) ? declare(of, syntax_.number(of, 0)) : "";
  const std::string count = extent(program_[operand].shape[axis]);
  count_up("0", count, 1, {program_[operand].shape[axis]}, [&](const std::string& k) {
    Point moved = point;
    moved[axis] = k;
    const std::string value = as(of, operand, eval(operand, moved));
    if (finds_index) {
      open(text("if (", is_greater(of, value, best), ")"));
      line(text(best, " = ", value, ";"));
      line(text(at, " = ", k, ";"));
      close();
    } else if (!lost.empty()) {
      add_exactly(best, lost, value);
    } else {
      line(text(best, " = ", combined(op.code, of, program_[operand].type, value, best), ";"));
    }
  });
  if (finds_index) return at;
  return lost.empty() ? best : declare(of, with_lost(best, lost));
}

// A running sum of millions of f32 would be off by a percent, and not every GPU has f64 to add up blocks in. So the
// rounding errors are added up too.
bool Printer::loses_bits(const ir::Op& reduction) const {
  return reduction.code == Code::reduce_sum && reduction.type == ir::Type::f32;
}

void Printer::add_exactly(const std::string& sum, const std::string& lost, const std::string& value) {
  const std::string next = declare(NumberKind::f32, text(sum, " + ", value));
  const std::string added = declare(NumberKind::f32, text(next, " - ", sum));
  line(text(lost, " = ", lost, " + ((", sum, " - (", next, " - ", added, ")) + (", value, " - ", added, "));"));
  line(text(sum, " = ", next, ";"));
}

// With infinity the error is NaN, and is ignored.
std::string Printer::with_lost(const std::string& sum, const std::string& lost) {
  return text(lost, " == ", lost, " ? ", sum, " + ", lost, " : ", sum);
}

}  // namespace tessera::compile::gpu
