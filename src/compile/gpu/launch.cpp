// What a launch needs to know of a kernel: workgroups, scratch memory, steps, arguments.
#include "compile/gpu/printer.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace tessera::compile::gpu {

using ir::Code;
using ir::Id;
using ir::Type;

namespace {

// Numbers from here on are all alike: no launch has so many of anything.
constexpr std::int64_t endless = Kernel::uncounted;

// Between which numbers an integer lies.
struct Bounds {
  std::int64_t least = -endless;
  std::int64_t most = endless;

  bool is_exact() const { return least == most && most < endless && least > -endless; }
};

std::int64_t bounded(std::int64_t value) { return std::clamp(value, -endless, endless); }
std::int64_t product(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? ((a < 0) != (b < 0) ? -endless : endless) : bounded(result);
}

Bounds bounds_of_type(Type type) {
  switch (type) {
    case Type::boolean:
      return {0, 1};
    case Type::u8:
      return {0, 255};
    case Type::s32:
      return {std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()};
    case Type::u32:
      return {0, std::numeric_limits<std::uint32_t>::max()};
    default:
      return {};
  }
}

// Bounds of the extents of a program and of the counts of its loops, in one launch. Without `dims` those of extents
// that are the same in all launches.
class Evaluation {
 public:
  Evaluation(const ir::Program& program, const Tiling& tiling, const std::int64_t* dims, const std::uint64_t* scalars)
      : program_(program), tiling_(tiling), dims_(dims), scalars_(scalars) {}

  Bounds of(Id id) const {
    const ir::Op& op = program_[id];
    if (ir::is_float(op.type) || !op.shape.empty()) return {};
    const Bounds found = look(op), type = bounds_of_type(op.type);
    return found.least < type.least || found.most > type.most ? type : found;  // what does not fit has come round
  }

 private:
  Bounds look(const ir::Op& op) const;
  Bounds leaf(const ir::Op& op) const;
  Bounds compared(Code code, const Bounds& a, const Bounds& b) const;
  Bounds converted(const ir::Op& op) const;
  Bounds dim(int buffer, int axis) const {
    const std::int64_t known = program_.buffers[static_cast<std::size_t>(buffer)].dims[static_cast<std::size_t>(axis)];
    if (known >= 0) return {known, known};
    if (!dims_) return {0, endless};
    std::size_t number = 0;
    for (int i = 0; i < buffer; ++i) number += program_.buffers[static_cast<std::size_t>(i)].dims.size();
    const std::int64_t extent = dims_[number + static_cast<std::size_t>(axis)];
    return {extent, extent};
  }
  Bounds below(const Bounds& count) const { return {0, std::max<std::int64_t>(count.most - 1, 0)}; }

  const ir::Program& program_;
  const Tiling& tiling_;
  const std::int64_t* dims_;
  const std::uint64_t* scalars_;
};

Bounds Evaluation::leaf(const ir::Op& op) const {
  const std::int64_t tile = op.code == Code::tile_dim ? tiling_.extents[static_cast<std::size_t>(op.axis)] : 0;
  switch (op.code) {
    case Code::constant:
      return {bounded(op.integer), bounded(op.integer)};
    case Code::scalar: {
      if (!scalars_) return {};
      const auto value = bounded(static_cast<std::int64_t>(scalars_[op.index]));
      return {value, value};
    }
    case Code::dim:
      return dim(op.index, op.axis);
    case Code::tile_dim:
      return tile == 0 ? dim(0, op.axis) : Bounds{tile, tile};
    case Code::origin:
    case Code::block:
      return below(dim(0, op.axis));
    case Code::argument:
      if (op.index != 0) return {};
      return below(of(program_[program_.regions[static_cast<std::size_t>(op.region)].loop].operands[0]));
    default:
      return {};
  }
}

Bounds Evaluation::compared(Code code, const Bounds& a, const Bounds& b) const {
  const auto known = [](bool is_true, bool is_false) { return Bounds{is_true ? 1 : 0, is_false ? 0 : 1}; };
  switch (code) {
    case Code::lt:
      return known(a.most < b.least, a.least >= b.most);
    case Code::le:
      return known(a.most <= b.least, a.least > b.most);
    case Code::gt:
      return known(a.least > b.most, a.most <= b.least);
    case Code::ge:
      return known(a.least >= b.most, a.most < b.least);
    default: {
      const bool are_apart = a.most < b.least || a.least > b.most;
      const bool are_same = a.is_exact() && b.is_exact() && a.least == b.least;
      return code == Code::eq ? known(are_same, are_apart) : known(are_apart, are_same);
    }
  }
}

Bounds Evaluation::converted(const ir::Op& op) const {
  const ir::Op& from = program_[op.operands[0]];
  const Bounds type = bounds_of_type(op.type);
  if (ir::is_float(from.type)) {
    const bool is_scalar = from.code == Code::scalar && scalars_;
    if (from.code != Code::constant && !is_scalar) return type;
    const double number = is_scalar ? std::bit_cast<double>(scalars_[from.index]) : from.number;
    if (!(std::abs(number) < static_cast<double>(endless))) return number == number ? type : Bounds{0, 0};
    const auto whole = static_cast<std::int64_t>(op.code == Code::nearest ? std::round(number) : number);
    return {std::clamp(whole, type.least, type.most), std::clamp(whole, type.least, type.most)};
  }
  const Bounds known = of(op.operands[0]);
  return {std::clamp(known.least, type.least, type.most), std::clamp(known.most, type.least, type.most)};
}

Bounds Evaluation::look(const ir::Op& op) const {
  if (op.operands.empty()) return leaf(op);
  const auto operand = [&](std::size_t i) { return of(op.operands[i]); };
  switch (op.code) {
    case Code::convert:
    case Code::nearest:
      return converted(op);
    case Code::neg:
      return {-operand(0).most, -operand(0).least};
    case Code::broadcast:
    case Code::reshape:
      return operand(0);
    case Code::select: {
      const Bounds is = operand(0), a = operand(1), b = operand(2);
      if (is.is_exact()) return is.least != 0 ? a : b;
      return {std::min(a.least, b.least), std::max(a.most, b.most)};
    }
    default:
      break;
  }
  if (op.operands.size() != 2 || op.code == Code::load) return bounds_of_type(op.type);
  const bool is_comparison = op.code >= Code::eq && op.code <= Code::ge;
  if (is_comparison && ir::is_float(program_[op.operands[0]].type)) return {0, 1};
  const Bounds a = operand(0), b = operand(1);
  if (is_comparison) return compared(op.code, a, b);
  const auto corners = [&](const auto& combine) {
    const auto [least, most] = std::minmax(
        {combine(a.least, b.least), combine(a.least, b.most), combine(a.most, b.least), combine(a.most, b.most)});
    return Bounds{least, most};
  };
  switch (op.code) {
    case Code::add:
      return {bounded(a.least + b.least), bounded(a.most + b.most)};
    case Code::sub:
      return {bounded(a.least - b.most), bounded(a.most - b.least)};
    case Code::mul:
      return corners(product);
    case Code::div: {
      if (b.least > 0) return corners([](std::int64_t x, std::int64_t y) { return x / y; });
      const std::int64_t size = b.is_exact() && b.least == 0 ? 0 : std::max(std::abs(a.least), std::abs(a.most));
      return {-size, size};
    }
    case Code::rem: {
      if (a.is_exact() && b.is_exact())
        return b.least == 0 ? Bounds{0, 0} : Bounds{a.least % b.least, a.least % b.least};
      const std::int64_t size = std::max(std::abs(b.least), std::abs(b.most));
      return {std::max(std::min<std::int64_t>(a.least, 0), -size), std::min(std::max<std::int64_t>(a.most, 0), size)};
    }
    case Code::min:
      return {std::min(a.least, b.least), std::min(a.most, b.most)};
    case Code::max:
      return {std::max(a.least, b.least), std::max(a.most, b.most)};
    case Code::bit_and:
      if (a.least < 0 && b.least < 0) return {};
      return {0, a.least < 0 ? b.most : b.least < 0 ? a.most : std::min(a.most, b.most)};
    case Code::shl:
      if (b.least < 0 || b.most > 31) return {};
      return corners([](std::int64_t x, std::int64_t y) { return product(x, std::int64_t{1} << y); });
    case Code::shr:
      if (b.least < 0 || b.most > 31) return {};
      return corners([](std::int64_t x, std::int64_t y) { return x >> y; });
    default:
      return bounds_of_type(op.type);
  }
}

}  // namespace

std::int64_t points_of(const ir::Program& program, Id id, const Tiling& tiling, const std::int64_t* dims) {
  const Evaluation evaluation(program, tiling, dims, nullptr);
  std::int64_t points = 1;
  for (const Id extent : program[id].shape) {
    const Bounds value = evaluation.of(extent);
    if (!dims && (!value.is_exact() || value.least < 0)) return unknown;
    points = product(points, std::max<std::int64_t>(0, value.most));
  }
  return points;
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

std::int64_t Kernel::steps(const ir::Program& program, const std::int64_t* dims, const std::uint64_t* scalars) const {
  if (loops.empty()) return 1;
  const Evaluation evaluation(program, tiling, dims, scalars);
  std::vector<std::int64_t> runs;  // of each loop: how often its body is run
  std::int64_t sum = 1;            // the end of a loop is a step too
  for (const Loop& loop : loops) {
    std::int64_t count = loop.extents.empty() ? std::max<std::int64_t>(1, loop.most) : 1;
    for (const ir::Id extent : loop.extents) {
      count = product(count, std::max<std::int64_t>(1, evaluation.of(extent).most));
    }
    if (count < endless) count = (count + loop.shared_by - 1) / loop.shared_by;
    if (!loop.extents.empty() && loop.most != 0) count = std::min(count, loop.most);
    const std::int64_t outer = loop.around < 0 ? 1 : runs[static_cast<std::size_t>(loop.around)];
    runs.push_back(product(outer, count));
    sum = bounded(sum + product(outer, count + 1));
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
