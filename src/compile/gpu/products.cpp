#include "compile/gpu/printer.hpp"
#include "core/text.hpp"

#include <algorithm>

namespace tessera::compile::gpu {

using core::text;
using ir::Code;
using ir::Id;

namespace {

// The most of the inner axis at a time; and the least, below which the barriers cost more than is saved.
constexpr int most_depth = 32, least_depth = 4;

// Whether every live value that depends on another is computed from it pointwise; then so is the stored one.
bool is_used_by_point(const ir::Program& program, const std::vector<bool>& is_live, Id value) {
  std::vector<bool> depends(program.ops.size());
  depends[static_cast<std::size_t>(value)] = true;
  for (std::size_t id = 0; id < program.ops.size(); ++id) {
    const ir::Op& op = program.ops[id];
    const bool uses =
        std::ranges::any_of(op.operands, [&](Id operand) { return depends[static_cast<std::size_t>(operand)]; });
    if (!uses || !is_live[id]) continue;
    depends[id] = true;
    const bool is_same_point = is_elementwise(op.code) && op.shape == program[value].shape;
    if (op.region != 0 || (!is_same_point && op.code != Code::store)) return false;
  }
  return true;
}

}  // namespace

std::optional<Product> product_of(const ir::Program& program) {
  const ValueAnalysis analysis(program, single_points(program));
  Product product;
  for (std::size_t id = 0; id < program.ops.size(); ++id) {
    if (!analysis.is_live[id] || program.ops[id].code != Code::mma) continue;
    if (product.mma != ir::none) return {};
    product.mma = static_cast<Id>(id);
  }
  if (product.mma == ir::none) return {};
  const ir::Op& mma = program[product.mma];
  // The block is the tile.
  const std::size_t rank = program.buffers.front().dims.size();
  if (mma.shape.size() != rank) return {};
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const ir::Op& extent = program[mma.shape[axis]];
    if (extent.code != Code::tile_dim || extent.axis != static_cast<int>(axis)) return {};
  }
  product.value = product.mma;
  if (mma.region != 0) {
    const ir::Region& region = program.regions[static_cast<std::size_t>(mma.region)];
    const bool adds_up =
        region.parent == 0 && region.results == std::vector<Id>{product.mma} && mma.operands[2] == region.arguments[1];
    if (!adds_up || !analysis.is_inline_loop[static_cast<std::size_t>(region.loop)]) return {};
    product.loop = region.loop;
    product.value = ir::none;
    for (std::size_t id = 0; id < program.ops.size(); ++id) {
      const ir::Op& op = program.ops[id];
      if (!analysis.is_live[id] || op.code != Code::result || op.operands[0] != product.loop) continue;
      if (product.value != ir::none) return {};
      product.value = static_cast<Id>(id);
    }
  }
  if (!is_used_by_point(program, analysis.is_live, product.value)) return {};
  return product;
}

// As square as possible, with more columns than rows: neighbours read neighbours. The group is a power of two.
std::optional<Blocking> blocking_of(const Target& target, NumberKind kind, std::int64_t inner) {
  Blocking blocking;
  blocking.each = target.product_block;
  while (blocking.lanes[0] * blocking.lanes[1] * 2 <= target.group) {
    blocking.lanes[blocking.lanes[1] > blocking.lanes[0] ? 0 : 1] *= 2;
  }
  const std::int64_t bytes = std::int64_t{4} * words_of(kind) * (blocking.stride(0) + blocking.stride(1));
  blocking.depth = most_depth;
  while (inner > 0 && blocking.depth > least_depth && blocking.depth > inner) blocking.depth /= 2;
  while (blocking.depth >= least_depth && blocking.depth * bytes > target.shared_bytes) blocking.depth /= 2;
  if (blocking.depth < least_depth) return {};
  return blocking;
}

std::string Printer::multiplied_and_added(Id mma, const std::string& a, const std::string& b,
                                          const std::string& sum) const {
  const NumberKind of = kind(mma);
  if (is_float(of)) return text(sum, " + ", a, " * ", b);
  const std::string next = wrapping(of, sum, "+", wrapping(of, a, "*", b));
  return program_[mma].type == ir::Type::u8 ? text(next, " & 255u") : next;
}

// The initial values of the sums.
std::vector<std::string> Printer::started_sums(const std::vector<Point>& points) {
  const ir::Op& mma = program_[product_->mma];
  const NumberKind of = kind(product_->mma);
  const Id start = product_->loop == ir::none ? mma.operands[2] : program_[product_->loop].operands[1];
  std::vector<std::string> sums;
  sums.reserve(points.size());
  for (const Point& point : points) {
    sums.push_back(declare(of, as(of, start, eval(start, operand_point(mma, start, point)))));
  }
  return sums;
}

// Copies the blocks of the operands, beginning at this index of the inner axis. Indices beyond an end are clamped: the
// values are not used, but reading them is safe.
void Printer::fill_blocks(const std::string& first, const std::string& count, bool is_whole) {
  const std::size_t rank = tiling_.extents.size();
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    const Id operand = program_[product_->mma].operands[side];
    // Neighbouring invocations read neighbours along the last axis of the operand.
    const int across = blocking_.extent(side), inner = side == 0 ? blocking_.depth : across;
    const int elements = across * blocking_.depth;
    for (int done = 0; done < elements; done += group_) {
      const bool is_part = done + group_ > elements;
      const std::string number = done == 0 ? "lane" : declare(NumberKind::s32, text("lane + ", done));
      open(is_part ? text("if (", number, " < ", elements, ")") : "");
      const std::string quotient = declare(NumberKind::s32, text(number, " / ", inner));
      const std::string remainder = declare(NumberKind::s32, text(number, " % ", inner));
      const std::string &k = side == 0 ? remainder : quotient, &at = side == 0 ? quotient : remainder;
      const std::string inside = declare(NumberKind::s32, text("min(", at, ", ", tile_dims_[rank - 2 + side], " - 1)"));
      std::string from = declare(NumberKind::s32, text(first, " + ", k));
      if (!is_whole) from = declare(NumberKind::s32, text("min(", from, ", ", count, " - 1)"));
      const Point point = mma_point(operand, Point(rank, "0"), side == 0 ? inside : from, side == 0 ? from : inside);
      const std::string value = as(kind(product_->mma), operand, eval(operand, point));
      line(text("shared_", side, "[", k, " * ", blocking_.stride(side), " + ", at, "] = ", value, ";"));
      close();
    }
  }
}

// Adds to the sums for one index of the inner axis: an element of each row times each of the columns, or times four of
// them at once.
void Printer::add_step(const std::vector<std::string>& sums, const std::string& k) {
  const NumberKind of = kind(product_->mma);
  std::string from[2];
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    from[side] = declare(NumberKind::s32, text(k, " * ", blocking_.stride(side), " + first_", side));
  }
  std::vector<std::string> left, right;
  for (int i = 0; i < blocking_.each; ++i) left.push_back(declare(of, text("shared_0[", from[0], " + ", i, "]")));
  for (int i = 0; i < blocking_.each; i += sums_at_once()) {
    if (sums_at_once() == 1) {
      right.push_back(declare(of, text("shared_1[", from[1], " + ", i, "]")));
    } else {
      right.push_back(name("v"));
      const std::string vector = text(syntax_.wrapping_type(of), "4");
      line(text(vector, " ", right.back(), " = as_", vector, "(vload4(0, shared_1 + ", from[1], " + ", i, "));"));
    }
  }
  std::size_t at = 0;
  for (const std::string& a : left) {
    for (const std::string& b : right) {
      const std::string& sum = sums[at++];
      if (sums_at_once() == 1) {
        line(text(sum, " = ", multiplied_and_added(product_->mma, a, b, sum), ";"));
      } else {
        const std::string next = text(sum, " + (", syntax_.wrapping_type(of), ")(", a, ") * ", b);
        const bool is_byte = program_[product_->mma].type == ir::Type::u8;
        line(text(sum, " = ", is_byte ? text("(", next, ") & 255u") : next, ";"));
      }
    }
  }
}

// Adds up along the inner axis, in order, to the given sums.
void Printer::add_up(std::vector<std::string>& sums) {
  const NumberKind of = kind(product_->mma);
  std::vector<std::string> parts = sums;
  if (sums_at_once() != 1) {
    parts.clear();
    const std::string element(syntax_.wrapping_type(of));
    for (std::size_t i = 0; i < sums.size(); i += 4) {
      parts.push_back(name("v"));
      std::string list;
      for (std::size_t j = i; j < i + 4; ++j) list += text(j == i ? "" : ", ", "(", element, ")(", sums[j], ")");
      line(text(element, "4 ", parts.back(), " = (", element, "4)(", list, ");"));
    }
  }
  if (product_->loop != ir::none) {
    const ir::Op& loop = program_[product_->loop];
    const std::string counter = name("k");
    open_loop(counter, "0", count(loop.operands[0]), 1, {loop.operands[0]});
    known_.back()[{program_.regions[static_cast<std::size_t>(loop.index)].arguments[0], {}}] = counter;
  }
  const Id inner = program_[program_[product_->mma].operands[0]].shape.back();
  std::int64_t known = 0;
  const bool is_whole = ir::is_constant(program_, inner, known) && known % blocking_.depth == 0;
  const std::string count = extent(inner);
  const std::string first = name("k");
  open_loop(first, "0", count, blocking_.depth, {inner});
  fill_blocks(first, count, is_whole);
  print_barrier();
  const std::string steps =
      is_whole ? std::to_string(blocking_.depth)
               : declare(NumberKind::s32, text("min(", blocking_.depth, ", ", count, " - ", first, ")"));
  count_up("0", steps, 1, {}, [&](const std::string& k) { add_step(parts, k); }, blocking_.depth);
  print_barrier();  // before the next blocks use the same memory
  close_loop();
  if (product_->loop != ir::none) close_loop();
  if (sums_at_once() == 1) return;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    line(text(sums[i], " = ", syntax_.cast(of, text(parts[i / 4], ".s", i % 4)), ";"));
  }
}

void Printer::store_block(const std::vector<Point>& points) {
  const std::size_t rank = tiling_.extents.size();
  const Id stored = program_.stored();
  const NumberKind to = program_.buffers.front().type == ir::Type::s64 ? NumberKind::s64 : kind(stored);
  std::size_t number = 0;
  for (int row = 0; row < blocking_.each; ++row) {
    open(text("if (first_0 + ", row, " < ", tile_dims_[rank - 2], ")"));
    for (int column = 0; column < blocking_.each; ++column) {
      const Point& point = points[number++];
      std::vector<std::string> indices;
      indices.reserve(rank);
      for (std::size_t axis = 0; axis < rank; ++axis) indices.push_back(plus(origins_[axis], point[axis]));
      open(text("if (first_1 + ", column, " < ", tile_dims_[rank - 1], ")"));
      const std::string value = as(to, stored, eval(stored, point));
      store_element(offset(indices, dims_.front()), value);
      close();
    }
    close();
  }
}

void Printer::print_blocks() {
  const std::size_t rank = tiling_.extents.size();
  line(text("int first_0 = lane / ", blocking_.lanes[1], " * ", blocking_.each, ";"));
  line(text("int first_1 = lane % ", blocking_.lanes[1], " * ", blocking_.each, ";"));
  open_tiles();
  // Beyond the ends of the matrix an invocation computes the last element again: all must reach the barriers.
  std::vector<std::string> indices[2];
  for (const std::size_t axis : {std::size_t{0}, std::size_t{1}}) {
    for (int i = 0; i < blocking_.each; ++i) {
      indices[axis].push_back(
          declare(NumberKind::s32, text("min(first_", axis, " + ", i, ", ", tile_dims_[rank - 2 + axis], " - 1)")));
    }
  }
  std::vector<Point> points;
  for (const std::string& row : indices[0]) {
    for (const std::string& column : indices[1]) {
      points.emplace_back(rank, "0");
      points.back()[rank - 2] = row;
      points.back()[rank - 1] = column;
    }
  }
  std::vector<std::string> sums = started_sums(points);
  add_up(sums);
  for (std::size_t i = 0; i < points.size(); ++i) known_.back()[{product_->value, points[i]}] = sums[i];
  store_block(points);
  close();
}

}  // namespace tessera::compile::gpu
