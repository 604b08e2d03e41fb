#include "compile/passes/value_analysis.hpp"

#include <algorithm>

namespace tessera::compile {

using ir::Code;
using ir::Id;
using ir::Op;
using ir::Program;

bool is_elementwise(Code code) noexcept { return code >= Code::neg && code <= Code::nearest; }

bool is_reduction(Code code) noexcept { return code >= Code::reduce_sum && code <= Code::argmax; }

ValueAnalysis::ValueAnalysis(const ir::Program& program, const Tiling& tiling)
    : is_live(program.ops.size()),
      is_materialised(program.ops.size()),
      is_inline_loop(program.ops.size()),
      program_(program) {
  find_live();
  find_inline_loops();
  find_materialised();
  find_depth();
  for (std::size_t id = 0; id < program.ops.size(); ++id) has_mma |= is_live[id] && program.ops[id].code == Code::mma;
  // A tile may be clipped unless the program uses its number: block * tile_dim would no longer be its origin. A tile
  // that the caller chose keeps its shape.
  is_clipped.assign(tiling.extents.size(), program.tile.empty());
  for (std::size_t id = 0; id < program.ops.size(); ++id) {
    const Op& op = program.ops[id];
    if (op.code == Code::block && is_live[id]) is_clipped[static_cast<std::size_t>(op.axis)] = false;
  }
}

void ValueAnalysis::find_live() {
  std::vector<Id> open = {program_.body().ops.back()};
  const auto add = [&](Id id) {
    if (is_live[static_cast<std::size_t>(id)]) return;
    is_live[static_cast<std::size_t>(id)] = true;
    open.push_back(id);
  };
  is_live[static_cast<std::size_t>(open.front())] = true;
  while (!open.empty()) {
    const Op& op = program_[open.back()];
    open.pop_back();
    for (Id operand : op.operands) add(operand);
    for (Id extent : op.shape) add(extent);
    if (op.code == Code::loop) {
      for (Id result : program_.regions[static_cast<std::size_t>(op.index)].results) add(result);
    }
  }
}

// Whether a value is computed in a region, or in one nested in it.
bool ValueAnalysis::depends_on(Id id, int region) const {
  for (int at = program_[id].region; at >= 0; at = program_.regions[static_cast<std::size_t>(at)].parent) {
    if (at == region) return true;
  }
  return false;
}

// Whether a value of a loop's body depends on the carried values at its own point only.
bool ValueAnalysis::is_pointwise_in(Id id, int region, std::vector<signed char>& known) const {
  if (!depends_on(id, region)) return true;
  signed char& answer = known[static_cast<std::size_t>(id)];
  if (answer != -1) return answer != 0;
  answer = 1;
  const Op& op = program_[id];
  const ir::Region& body = program_.regions[static_cast<std::size_t>(region)];
  const std::vector<Id>& shape = program_[body.results.front()].shape;
  const auto carries = [&](Id value) {  // whether it depends on a carried value that has a shape
    std::vector<Id> open = {value};
    std::vector<bool> seen(program_.ops.size());
    while (!open.empty()) {
      const Id at = open.back();
      open.pop_back();
      if (seen[static_cast<std::size_t>(at)] || !depends_on(at, region)) continue;
      seen[static_cast<std::size_t>(at)] = true;
      const Op& found = program_[at];
      if (found.code == Code::argument && found.region == region && !found.shape.empty()) return true;
      open.insert(open.end(), found.operands.begin(), found.operands.end());
      if (found.code == Code::loop) {
        const auto& results = program_.regions[static_cast<std::size_t>(found.index)].results;
        open.insert(open.end(), results.begin(), results.end());
      }
    }
    return false;
  };
  const auto all = [&](const std::vector<Id>& ids) {
    return std::ranges::all_of(ids, [&](Id operand) { return is_pointwise_in(operand, region, known); });
  };
  bool result = false;
  if (is_reduction(op.code)) {
    result = false;
  } else if (op.code == Code::argument) {
    result = true;
  } else if (is_elementwise(op.code) || op.code == Code::broadcast) {
    result = all(op.operands) && (op.shape.empty() || op.shape == shape || !carries(id));
  } else if (op.code == Code::mma) {
    result = all(op.operands) && !carries(op.operands[0]) && !carries(op.operands[1]);
  } else if (op.code == Code::result) {
    result = is_pointwise_in(op.operands[0], region, known) && (op.shape.empty() || op.shape == shape || !carries(id));
  } else if (op.code == Code::loop) {
    result = is_inline_loop[static_cast<std::size_t>(id)] && all(op.operands) &&
             all(program_.regions[static_cast<std::size_t>(op.index)].results);
  } else {
    result = all(op.operands) && !carries(id);
  }
  answer = result ? 1 : 0;
  return result;
}

void ValueAnalysis::find_inline_loops() {
  // Inner loops first: their regions have higher numbers.
  for (std::size_t number = program_.regions.size(); number-- > 1;) {
    const ir::Region& body = program_.regions[number];
    const auto is_carried_alike = [&](Id result) {
      const auto& shape = program_[result].shape;
      return shape.empty() || shape == program_[body.results.front()].shape;
    };
    std::vector<signed char> known(program_.ops.size(), -1);
    // In order, so that each finds the answers for its operands, and recursion stays shallow.
    for (Id id = 0; id < body.loop; ++id) {
      if (is_live[static_cast<std::size_t>(id)]) is_pointwise_in(id, static_cast<int>(number), known);
    }
    is_inline_loop[static_cast<std::size_t>(body.loop)] =
        std::ranges::all_of(body.results, is_carried_alike) && std::ranges::all_of(body.results, [&](Id result) {
          return is_pointwise_in(result, static_cast<int>(number), known);
        });
  }
}

namespace {

int own_cost(Code code) {
  switch (code) {
    case Code::constant:
    case Code::scalar:
    case Code::dim:
    case Code::tile_dim:
    case Code::origin:
    case Code::block:
    case Code::argument:
    case Code::iota:
    case Code::broadcast:
    case Code::reshape:
    case Code::transpose:
    case Code::slice:
      return 0;
    case Code::exp:
    case Code::log:
    case Code::sin:
    case Code::cos:
    case Code::tanh:
    case Code::erf:
      return 16;
    case Code::pow:
      return 40;
    case Code::div:
    case Code::rem:
    case Code::sqrt:
    case Code::rsqrt:
      return 4;
    case Code::mma:
    case Code::loop:
      return 32;
    default:
      return is_reduction(code) ? 32 : 1;
  }
}

}  // namespace

int ValueAnalysis::cost_of(Id id, std::vector<int>& known) const {
  int& answer = known[static_cast<std::size_t>(id)];
  if (answer >= 0) return answer;
  answer = 0;
  const Op& op = program_[id];
  if (op.shape.empty() && op.code != Code::loop) return 0;  // computed once a tile, not once a point
  int sum = own_cost(op.code);
  if (!is_materialised[static_cast<std::size_t>(id)]) {
    for (Id operand : op.operands) sum += cost_of(operand, known);
    if (op.code == Code::loop) {
      for (Id result : program_.regions[static_cast<std::size_t>(op.index)].results) sum += 8 * cost_of(result, known);
    }
  }
  return known[static_cast<std::size_t>(id)] = std::min(sum, 1 << 20);
}

// A value is materialised if computing it for each use would cost more than a store and a load: results of reductions,
// and values that several stages, or shifted reads, share.
void ValueAnalysis::find_materialised() {
  std::vector<int> uses_elsewhere(program_.ops.size());  // by reductions, and at other points
  std::vector<int> uses(program_.ops.size());
  std::vector<bool> is_picked(program_.ops.size());  // read as if it were a buffer
  std::vector<bool> in_inline_region(program_.regions.size());
  for (std::size_t number = 1; number < program_.regions.size(); ++number) {
    const ir::Region& region = program_.regions[number];
    in_inline_region[number] = is_inline_loop[static_cast<std::size_t>(region.loop)] ||
                               in_inline_region[static_cast<std::size_t>(region.parent)];
  }
  for (std::size_t id = 0; id < program_.ops.size(); ++id) {
    const Op& op = program_.ops[id];
    if (!is_live[id]) continue;
    const bool moves =
        is_reduction(op.code) || op.code == Code::slice || op.code == Code::mma || (op.code == Code::load);
    if (op.code == Code::pick) is_picked[static_cast<std::size_t>(op.operands[0])] = true;
    for (Id operand : op.operands) {
      ++uses[static_cast<std::size_t>(operand)];
      if (moves) ++uses_elsewhere[static_cast<std::size_t>(operand)];
    }
  }
  std::vector<int> known(program_.ops.size(), -1);
  for (std::size_t id = 0; id < program_.ops.size(); ++id) {
    const Op& op = program_.ops[id];
    if (!is_live[id]) continue;
    const int price = cost_of(static_cast<Id>(id), known);  // in order, see find_inline_loops
    if (op.shape.empty() || in_inline_region[static_cast<std::size_t>(op.region)]) continue;
    if (op.code == Code::argument || op.code == Code::store || op.code == Code::loop) continue;
    if (op.code == Code::result) {  // maybe of a loop that is a stage of its own
      is_materialised[id] = !is_inline_loop[static_cast<std::size_t>(op.operands[0])];
      if (is_materialised[id]) continue;
    }
    constexpr int expensive = 8;
    constexpr int expensive_if_shifted = 3;
    const bool is_shared = uses[id] > 1 && uses_elsewhere[id] > 0;
    const bool is_worth_storing = is_picked[id] || is_reduction(op.code) || (is_shared && price >= expensive) ||
                                  (uses_elsewhere[id] > 1 && price >= expensive_if_shifted);
    if (!is_worth_storing) continue;
    is_materialised[id] = true;
    known[id] = 1;
  }
  cost = cost_of(program_.stored(), known);
}

void ValueAnalysis::find_depth() {
  std::vector<int> depths(program_.ops.size());
  for (std::size_t id = 0; id < program_.ops.size(); ++id) {
    const Op& op = program_.ops[id];
    if (op.shape.empty()) continue;  // computed once a tile, not once a point
    int deepest = 0;
    for (Id operand : op.operands) deepest = std::max(deepest, depths[static_cast<std::size_t>(operand)]);
    depths[id] = std::min(deepest + own_cost(op.code), 1 << 20);
  }
  depth = depths[static_cast<std::size_t>(program_.stored())];
}

namespace {

// Whether an index is begin + iota of the part that the program processes, along an axis that contains the whole part.
bool is_in_part(const Program& program, const Op& index, const ir::Part::Axis& axis) {
  const ir::Part& part = program.part;
  if (index.code != Code::add || std::ranges::find(part.inside, axis) == part.inside.end()) return false;
  const Op &begin = program[index.operands[0]], &offset = program[index.operands[1]];
  if (begin.code != Code::scalar || begin.index != part.begin || offset.code != Code::iota) return false;
  const Op& extent = program[offset.shape[static_cast<std::size_t>(offset.axis)]];
  return extent.code == Code::dim && extent.index == part.extent;
}

// Whether the index of a load is always inside of the buffer.
bool is_inside(const Program& program, Id index, int buffer, int axis, const std::vector<bool>& is_clipped) {
  const Op& op = program[index];
  const std::int64_t known = program.buffers[static_cast<std::size_t>(buffer)].dims[static_cast<std::size_t>(axis)];
  const auto is_dim = [&](Id extent) {
    const Op& of = program[extent];
    std::int64_t value = 0;
    if (known >= 0 && ir::is_constant(program, extent, value)) return value <= known;
    return of.code == Code::dim && of.index == buffer && of.axis == axis;
  };
  std::int64_t value = 0;
  if (ir::is_constant(program, index, value)) return value >= 0 && value < known;
  if (op.code == Code::iota) return is_dim(op.shape[static_cast<std::size_t>(op.axis)]);
  if (op.code != Code::add) return false;
  if (is_in_part(program, op, {buffer, axis})) return true;
  // origin + iota of a tile that is clipped to the output, along an axis as long as the output's.
  for (std::size_t side = 0; side < 2; ++side) {
    const Op& origin = program[op.operands[side]];
    const Op& offset = program[op.operands[1 - side]];
    if (origin.code != Code::origin || offset.code != Code::iota) continue;
    const Op& extent = program[offset.shape[static_cast<std::size_t>(offset.axis)]];
    if (extent.code != Code::tile_dim || extent.axis != origin.axis) continue;
    if (!is_clipped[static_cast<std::size_t>(origin.axis)]) continue;
    if (buffer == 0) return axis == origin.axis;
    const ir::SameExtent wanted{buffer, axis, origin.axis};
    if (std::ranges::find(program.same_extents, wanted) != program.same_extents.end()) return true;
  }
  return false;
}

}  // namespace

bool is_inside(const Program& program, const Op& op, std::size_t axis, const std::vector<bool>& is_clipped) {
  const Id index = ir::indices_of(op)[axis];
  if (op.code == Code::load) return is_inside(program, index, op.index, static_cast<int>(axis), is_clipped);
  const Op& extent = program[ir::extents_of(op)[axis]];
  if (extent.code == Code::dim) return is_inside(program, index, extent.index, extent.axis, is_clipped);
  std::int64_t known = 0, value = 0;
  if (!ir::is_constant(program, ir::extents_of(op)[axis], known)) return false;
  if (ir::is_constant(program, index, value)) return value >= 0 && value < known;
  const Op& offset = program[index];
  return offset.code == Code::iota &&
         ir::is_constant(program, offset.shape[static_cast<std::size_t>(offset.axis)], value) && value <= known;
}

}  // namespace tessera::compile
