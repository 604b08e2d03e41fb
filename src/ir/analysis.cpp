#include "ir/analysis.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

namespace tessera::ir {

namespace {

bool is_constant_equal(const Program& program, Id id, std::int64_t wanted) {
  std::int64_t value = 0;
  return is_constant(program, id, value) && value == wanted;
}

// The value below any broadcasts.
Id without_broadcast(const Program& program, Id id) {
  while (program[id].code == Code::broadcast) id = program[id].operands[0];
  return id;
}

// Whether `id` is each point's own coordinate along an axis of the output: origin + iota.
bool is_own_coordinate(const Program& program, Id id, int output_axis) {
  const Op& sum = program[without_broadcast(program, id)];
  if (sum.code != Code::add) return false;
  const Op* origin = &program[without_broadcast(program, sum.operands[0])];
  const Op* iota = &program[without_broadcast(program, sum.operands[1])];
  if (origin->code == Code::iota) std::swap(origin, iota);
  if (origin->code != Code::origin || iota->code != Code::iota || origin->axis != output_axis) return false;
  // The iota must run along the axis of the tile that it is added to, aligned at the last axis as in broadcasting.
  const int rank = static_cast<int>(iota->shape.size());
  if (rank - iota->axis != program.buffers[0].rank() - output_axis) return false;
  const Op& extent = program[iota->shape[static_cast<std::size_t>(iota->axis)]];
  return extent.code == Code::tile_dim && extent.axis == output_axis;
}

// Whether a load reads, for each point of the tile, that point of the buffer (broadcast as in NumPy).
bool is_own_point(const Program& program, const Op& load) {
  const Buffer& buffer = program.buffers[static_cast<std::size_t>(load.index)];
  const int missing = program.buffers[0].rank() - buffer.rank();
  if (missing < 0) return false;
  for (int axis = 0; axis < buffer.rank(); ++axis) {
    const Id index = load.operands[static_cast<std::size_t>(axis)];
    if (is_own_coordinate(program, index, axis + missing)) continue;
    const bool is_one = buffer.dims[static_cast<std::size_t>(axis)] == 1;
    if (!is_one || !is_constant_equal(program, without_broadcast(program, index), 0)) return false;
  }
  return true;
}

// Whether each point of the result depends on the same point of the operands.
bool is_elementwise(Code code) { return code >= Code::neg && code <= Code::nearest; }

// Whether each extent of a shape is the tile's, or 1.
bool is_within_tile(const Program& program, const std::vector<Id>& shape) {
  const int missing = program.buffers[0].rank() - static_cast<int>(shape.size());
  if (missing < 0) return false;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const Op& extent = program[shape[axis]];
    const bool is_tiles = extent.code == Code::tile_dim && extent.axis == static_cast<int>(axis) + missing;
    if (!is_tiles && !is_constant_equal(program, shape[axis], 1)) return false;
  }
  return true;
}

bool is_pointwise_op(const Program& program, const Op& op) {
  switch (op.code) {
    case Code::constant:
    case Code::scalar:
      return true;
    case Code::load:
      return is_own_point(program, op);
    case Code::broadcast:
      return is_within_tile(program, op.shape);
    default:
      return is_elementwise(op.code);
  }
}

}  // namespace

bool is_pointwise(const Program& program) {
  std::vector<bool> seen(program.ops.size()), is_read(program.buffers.size());
  is_read[0] = true;
  std::vector<Id> open = {program.stored()};
  while (!open.empty()) {
    const Id id = open.back();
    open.pop_back();
    if (seen[static_cast<std::size_t>(id)]) continue;
    seen[static_cast<std::size_t>(id)] = true;
    const Op& op = program[id];
    if (!is_pointwise_op(program, op)) return false;
    if (op.code == Code::load) {
      is_read[static_cast<std::size_t>(op.index)] = true;
    } else {
      open.insert(open.end(), op.operands.begin(), op.operands.end());
    }
  }
  return std::ranges::find(is_read, false) == is_read.end();
}

namespace {

// Which values depend on a buffer. Loops feed carried values back, so it takes several rounds.
std::vector<bool> depending_on(const Program& program, int buffer) {
  std::vector<bool> depends(program.ops.size());
  const auto any = [&](const std::vector<Id>& ids) {
    return std::ranges::any_of(ids, [&](Id id) { return depends[static_cast<std::size_t>(id)]; });
  };
  for (bool is_changed = true; is_changed;) {
    is_changed = false;
    for (std::size_t i = 0; i < program.ops.size(); ++i) {
      if (depends[i]) continue;
      const Op& op = program.ops[i];
      bool does = any(op.operands) || (op.code == Code::load && op.index == buffer);
      if (op.code == Code::loop) does = does || any(program.regions[static_cast<std::size_t>(op.index)].results);
      depends[i] = does;
      is_changed = is_changed || does;
    }
    for (const Region& region : program.regions) {
      if (region.loop == none || !depends[static_cast<std::size_t>(region.loop)]) continue;
      for (Id argument : region.arguments) {
        if (depends[static_cast<std::size_t>(argument)]) continue;
        depends[static_cast<std::size_t>(argument)] = true;
        is_changed = true;
      }
    }
  }
  return depends;
}

bool keeps_points(const Op& op) {
  return is_elementwise(op.code) || op.code == Code::load || op.code == Code::broadcast || op.code == Code::argument ||
         op.code == Code::loop || op.code == Code::result || op.code == Code::store;
}

}  // namespace

bool reads_in_place(const Program& program, int buffer) {
  const std::vector<bool> depends = depending_on(program, buffer);
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    if (op.code == Code::load && op.index == buffer && !is_own_point(program, op)) return false;
    if (depends[i] && !keeps_points(op)) return false;
  }
  return true;
}

namespace {

// Bit by bit: == would make 0 equal to -0, and NaN unequal to itself.
bool is_same_number(double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }

// Whether two ops do the same to their operands.
bool is_same_operation(const Op& a, const Op& b) {
  if (a.code != b.code || a.type != b.type || a.index != b.index) return false;
  if (a.code == Code::load) return true;  // in a pointwise program the indices follow from the rank
  return a.integer == b.integer && is_same_number(a.number, b.number) && a.operands.size() == b.operands.size();
}

}  // namespace

bool is_same_pointwise(const Program& a, const Program& b) {
  std::vector<Id> partner(a.ops.size(), none);
  std::vector<std::pair<Id, Id>> open = {{a.stored(), b.stored()}};
  while (!open.empty()) {
    const Id in_a = without_broadcast(a, open.back().first);
    const Id in_b = without_broadcast(b, open.back().second);
    open.pop_back();
    Id& known = partner[static_cast<std::size_t>(in_a)];
    if (known == in_b) continue;
    if (known != none || !is_same_operation(a[in_a], b[in_b])) return false;
    known = in_b;
    if (a[in_a].code == Code::load) continue;
    for (std::size_t i = 0; i < a[in_a].operands.size(); ++i) {
      open.emplace_back(a[in_a].operands[i], b[in_b].operands[i]);
    }
  }
  return true;
}

namespace {

bool is_same_idiom(const Idiom& a, const Idiom& b) {
  if (a.name != b.name || a.numbers != b.numbers || a.inputs != b.inputs || a.epilogue_inputs != b.epilogue_inputs) {
    return false;
  }
  return a.epilogue && b.epilogue ? is_same_code(*a.epilogue, *b.epilogue) : a.epilogue == b.epilogue;
}

}  // namespace

bool is_same_code(const Program& a, const Program& b) {
  const auto is_same_buffer = [](const Buffer& x, const Buffer& y) { return x.type == y.type && x.dims == y.dims; };
  const auto is_same_scalar = [](const Scalar& x, const Scalar& y) { return x.type == y.type; };
  const auto is_same_op = [](const Op& x, const Op& y) { return x == y && is_same_number(x.number, y.number); };
  const auto is_same_region = [](const Region& x, const Region& y) {
    return x.parent == y.parent && x.loop == y.loop && x.arguments == y.arguments && x.ops == y.ops &&
           x.results == y.results;
  };
  return std::ranges::equal(a.buffers, b.buffers, is_same_buffer) &&
         std::ranges::equal(a.scalars, b.scalars, is_same_scalar) && std::ranges::equal(a.ops, b.ops, is_same_op) &&
         std::ranges::equal(a.regions, b.regions, is_same_region) && a.same_extents == b.same_extents &&
         a.tile == b.tile && a.whole == b.whole && a.part == b.part && is_same_idiom(a.idiom, b.idiom);
}

std::size_t hash_code(const Program& program) {
  std::size_t hash = 0;
  const auto add = [&](std::uint64_t value) { hash = (hash ^ value) * 0x9e3779b97f4a7c15U + (hash >> 29); };
  for (const Buffer& buffer : program.buffers) {
    add(static_cast<std::uint64_t>(buffer.type));
    for (std::int64_t dim : buffer.dims) add(static_cast<std::uint64_t>(dim));
  }
  for (const Op& op : program.ops) {
    add(static_cast<std::uint64_t>(op.code) << 8 | static_cast<std::uint64_t>(op.type));
    add(std::bit_cast<std::uint64_t>(op.number));
    add(static_cast<std::uint64_t>(op.integer));
    for (Id operand : op.operands) add(static_cast<std::uint64_t>(operand));
  }
  for (std::int64_t extent : program.tile) add(static_cast<std::uint64_t>(extent));
  return hash;
}

}  // namespace tessera::ir
