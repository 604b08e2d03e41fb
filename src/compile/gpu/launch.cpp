// What a launch needs to know of a kernel: workgroups, scratch memory, steps, arguments.
#include "compile/gpu/printer.hpp"

#include <algorithm>
#include <bit>

namespace tessera::compile::gpu {

using ir::Code;
using ir::Id;
using ir::Type;

namespace {

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

}  // namespace

std::int64_t points_of(const ir::Program& program, Id id, const Tiling& tiling, const std::int64_t* dims) {
  std::int64_t points = 1;
  for (const Id extent : program[id].shape) {
    const std::int64_t value = extent_value(program, extent, tiling, dims);
    if (value < 0 && !dims) return unknown;
    points *= std::max<std::int64_t>(0, value);
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

std::int64_t Kernel::steps(const ir::Program& program, const std::int64_t* dims) const {
  // What cannot be told counts as one; the end of a loop is a step too.
  std::vector<std::int64_t> runs;  // of each loop: how often its body is run
  std::int64_t sum = 1;
  constexpr std::int64_t many = std::int64_t{1} << 40;
  for (const Loop& loop : loops) {
    std::int64_t count = loop.most;
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
