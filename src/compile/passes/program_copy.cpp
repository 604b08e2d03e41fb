#include "compile/passes/program_copy.hpp"

#include <utility>

namespace tessera::compile {

using ir::Code;
using ir::Id;
using ir::Op;
using ir::Program;

std::vector<bool> live_ops(const Program& program) { return live_ops(program, program.body().ops.back(), {}); }

std::vector<bool> live_ops(const Program& program, Id root, const std::map<Id, Id>& given) {
  std::vector<bool> is_live(program.ops.size());
  std::vector<Id> open = {root};
  while (!open.empty()) {
    const Id id = open.back();
    open.pop_back();
    if (is_live[static_cast<std::size_t>(id)]) continue;
    is_live[static_cast<std::size_t>(id)] = true;
    if (given.contains(id)) continue;
    const Op& op = program[id];
    open.insert(open.end(), op.operands.begin(), op.operands.end());
    open.insert(open.end(), op.shape.begin(), op.shape.end());
    if (op.code != Code::loop) continue;
    const std::vector<Id>& results = program.regions[static_cast<std::size_t>(op.index)].results;
    open.insert(open.end(), results.begin(), results.end());
  }
  return is_live;
}

ProgramCopy::ProgramCopy(ir::Builder& to, const Program& from, Choices choices, Id root)
    : to_(to),
      from_(from),
      choices_(std::move(choices)),
      root_(root == ir::none ? from.stored() : root),
      is_live_(live_ops(from, root_, choices_.given)),
      copies_(from.ops.size(), ir::none) {}

void ProgramCopy::copy(const ir::Region& region) {
  for (const Id id : region.ops) {
    const Op& op = from_[id];
    if (op.code == Code::store || !is_live_[static_cast<std::size_t>(id)]) continue;
    if (const auto given = choices_.given.find(id); given != choices_.given.end()) {
      at(id) = given->second;
    } else if (op.code == Code::loop) {
      copy_loop(id);
    } else if (op.code == Code::result) {
      at(id) = results_.at(op.operands[0])[static_cast<std::size_t>(op.index)];
    } else {
      at(id) = made(op);
    }
  }
}

void ProgramCopy::copy_loop(Id id) {
  const Op& loop = from_[id];
  const ir::Region& body = from_.regions[static_cast<std::size_t>(loop.index)];
  to_.begin_loop(at(loop.operands[0]), all(std::span(loop.operands).subspan(1)));
  const std::vector<Id> arguments = to_.arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i) at(body.arguments[i]) = arguments[i];
  copy(body);
  results_[id] = to_.end_loop(all(body.results));
}

Id ProgramCopy::made(const Op& op) {
  const std::vector<Id> operands = all(op.operands);
  const auto rest = [&](std::size_t first) { return std::vector<Id>(operands.begin() + first, operands.end()); };
  switch (op.code) {
    case Code::dim:
    case Code::tile_dim:
    case Code::origin:
    case Code::block:
    case Code::scalar:
      return choices_.leaf(op);
    case Code::load:
      return choices_.load(op, operands);
    case Code::iota: {
      const Id made = to_.iota(shape_of(op), op.axis);
      return choices_.iota ? choices_.iota(op, made) : made;
    }
    case Code::select:
      return to_.select(operands[0], operands[1], operands[2]);
    case Code::fma:
      return to_.fma(operands[0], operands[1], operands[2]);
    case Code::convert:
    case Code::nearest:
      return to_.convert(op.code, op.type, operands[0]);
    case Code::broadcast:
      return choices_.drops_broadcasts ? operands[0] : to_.broadcast(operands[0], shape_of(op));
    case Code::reshape:
      return to_.reshape(operands[0], shape_of(op));
    case Code::transpose:
      return to_.transpose(operands[0], op.list);
    case Code::slice: {
      std::vector<Id> starts = rest(1);
      for (std::size_t axis = 0; choices_.start && axis < starts.size(); ++axis) {
        starts[axis] = choices_.start(op, axis, starts[axis]);
      }
      return to_.slice(operands[0], starts, all(op.shape));
    }
    case Code::pick:
      return to_.pick(operands[0], all(ir::starts_of(op)), all(ir::extents_of(op)), all(ir::indices_of(op)), op.border,
                      op.list);
    case Code::mma:
      return to_.mma(operands[0], operands[1], operands[2]);
    default:
      break;
  }
  if (ir::is_reduction(op.code)) return to_.reduce(op.code, operands[0], op.axis);
  if (ir::is_unary(op.code)) return to_.unary(op.code, operands[0]);
  if (ir::is_binary(op.code)) return to_.binary(op.code, operands[0], operands[1]);
  return to_.make({.code = op.code, .type = op.type, .number = op.number, .integer = op.integer});  // a constant
}

}  // namespace tessera::compile
