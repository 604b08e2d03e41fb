#include "compile/cpu/llvm/lane_analysis.hpp"

#include <algorithm>

namespace tessera::compile::cpu {

using ir::Code;
using ir::Id;
using ir::Op;

LaneAnalysis::LaneAnalysis(const ir::Program& program, const Tiling& tiling, bool multiplies_bytes, bool has_vbmi)
    : ValueAnalysis(program, tiling), program_(program) {
  find_widths(multiplies_bytes);
  find_gathers(has_vbmi);
}

void LaneAnalysis::find_gathers(bool has_vbmi) {
  for (std::size_t id = 0; id < program_.ops.size(); ++id) {
    const Op& op = program_.ops[id];
    if (!is_live[id] || op.code != Code::load || (has_vbmi && is_byte_table(program_, op))) continue;
    has_gather |= std::ranges::any_of(
        op.operands, [&](Id index) { return !program_[index].shape.empty() && !is_coordinate(program_, index); });
  }
}

void LaneAnalysis::find_widths(bool multiplies_bytes) {
  widths.emplace(program_, is_live, is_materialised, multiplies_bytes);
  for (const ir::Buffer& buffer : program_.buffers) has_wide_data_ |= ir::bits_of(buffer.type) == 64;
  lane_bits = 8;
  for (std::size_t id = 0; id < program_.ops.size(); ++id) {
    if (!is_live[id]) continue;
    lane_bits = std::max(lane_bits, own_lane_bits(static_cast<Id>(id)));
  }
}

int LaneAnalysis::own_lane_bits(Id id) const {
  const Op& op = program_[id];
  // Indices are s64 but rarely in vectors: they do not count unless the data is as wide.
  if (op.shape.empty() || (op.type == ir::Type::s64 && !has_wide_data_) || op.type == ir::Type::boolean) return 0;
  const bool is_repeated = op.code == Code::broadcast && program_[op.operands[0]].shape.empty();
  return is_repeated ? 0 : widths->bits[static_cast<std::size_t>(id)];
}

std::vector<Id> LaneAnalysis::stage_of(Id root) const {
  std::vector<Id> found;
  std::vector<bool> seen(program_.ops.size());
  std::vector<Id> open = {root};
  while (!open.empty()) {
    const Id id = open.back();
    open.pop_back();
    if (seen[static_cast<std::size_t>(id)]) continue;
    seen[static_cast<std::size_t>(id)] = true;
    found.push_back(id);
    const Op& op = program_[id];
    if (id != root && is_materialised[static_cast<std::size_t>(id)]) continue;
    open.insert(open.end(), op.operands.begin(), op.operands.end());
    if (op.code != Code::loop) continue;
    const std::vector<Id>& results = program_.regions[static_cast<std::size_t>(op.index)].results;
    open.insert(open.end(), results.begin(), results.end());
  }
  return found;
}

int LaneAnalysis::lane_bits_of(Id root) const {
  if (program_.regions.size() > 1) return lane_bits;
  int bits = 8;
  for (const Id id : stage_of(root)) bits = std::max(bits, own_lane_bits(id));
  return bits;
}

bool LaneAnalysis::has_byte_sum(Id root) const {
  return std::ranges::any_of(stage_of(root), [&](Id id) {
    return (id == root || !is_materialised[static_cast<std::size_t>(id)]) && !widths->byte_sum(id).terms.empty();
  });
}

bool is_byte_table(const ir::Program& program, const Op& load) {
  if (load.code != Code::load || load.type != ir::Type::u8 || load.operands.size() != 1) return false;
  const Op& index = program[load.operands[0]];
  return program.buffers[static_cast<std::size_t>(load.index)].dims == std::vector<std::int64_t>{256} &&
         index.code == Code::convert && program[index.operands[0]].type == ir::Type::u8;
}

bool is_counter(const Op& op) noexcept { return op.code == Code::argument && op.index == 0; }

bool is_coordinate(const ir::Program& program, Id id) {
  if (is_counter(program[id])) return true;
  switch (program[id].code) {
    case Code::constant:
    case Code::scalar:
    case Code::dim:
    case Code::tile_dim:
    case Code::origin:
    case Code::block:
    case Code::iota:
      return true;
    case Code::add:
    case Code::sub:
    case Code::mul:
    case Code::broadcast:
      return std::ranges::all_of(program[id].operands, [&](Id operand) { return is_coordinate(program, operand); });
    default:  // a number, such as where a part begins
      return program[id].shape.empty() && is_elementwise(program[id].code) &&
             std::ranges::all_of(program[id].operands, [&](Id operand) { return is_coordinate(program, operand); });
  }
}

}  // namespace tessera::compile::cpu
