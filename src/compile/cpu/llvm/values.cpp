#include "compile/cpu/llvm/emitter.hpp"
#include "compile/cpu/llvm/scope.hpp"

#include <algorithm>
#include <llvm/IR/InlineAsm.h>
#include <string>

namespace tessera::compile::cpu {

using ir::Code;
using ir::Id;
using llvm::Value;

void Emitter::known_insert(Id id, const Point& point, const Lanes& value) { known_.back()[{id, point}] = value; }

Emitter::Values Emitter::eval(Id id, const Points& points) {
  Values result(points.size());
  Points missing;
  std::vector<std::size_t> number(points.size());  // among the missing ones
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::pair<Id, Point> key{id, points[i]};
    for (auto scope = known_.rbegin(); scope != known_.rend() && !result[i].base; ++scope) {
      const auto found = scope->find(key);
      if (found != scope->end()) result[i] = found->second;
    }
    if (result[i].base) continue;
    const auto same = std::ranges::find(missing, points[i]);
    number[i] = static_cast<std::size_t>(same - missing.begin());
    if (same == missing.end()) missing.push_back(points[i]);
  }
  if (missing.empty()) return result;
  eval_operands(id, missing);
  const Values computed = compute(id, missing);
  for (std::size_t i = 0; i < missing.size(); ++i) known_insert(id, missing[i], computed[i]);
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!result[i].base) result[i] = computed[number[i]];
  }
  return result;
}

bool Emitter::is_known(Id id, const Points& points) const {
  return std::ranges::all_of(points, [&](const Point& point) {
    return std::ranges::any_of(known_, [&](const Known& scope) { return scope.contains({id, point}); });
  });
}

// Evaluates the operands that a value needs, deepest first, with a stack of its own: recursion over a long chain of
// operations would overflow the thread's stack.
void Emitter::eval_operands(Id id, const Points& points) {
  struct Open {
    Id id;
    Points points;
    std::size_t next = 0;  // of its operands
  };
  std::vector<Open> open;
  open.push_back({id, points});
  while (!open.empty()) {
    Open& last = open.back();
    const std::vector<Id> operands = keeps_points(last.id) ? operands_of(last.id) : std::vector<Id>{};
    if (last.next < operands.size()) {
      const Id operand = operands[last.next++];
      Points mapped = operand_points(program_[last.id], operand, last.points);
      if (!keeps_points(operand)) {
        eval(operand, mapped);
      } else if (!is_known(operand, mapped)) {
        open.push_back({operand, std::move(mapped)});
      }
      continue;
    }
    const Open done = std::move(open.back());
    open.pop_back();
    if (!open.empty()) eval(done.id, done.points);
  }
}

Emitter::Values Emitter::eval_whole(Id id, const Points& points) {
  Values values = eval(id, points);
  for (Lanes& value : values) value = resized(id, value, ir::bits_of(program_[id].type));
  return values;
}

// The point of an operand that a point of the result needs, by the rules of broadcasting.
Emitter::Point Emitter::operand_point(const ir::Op& op, Id operand, const Point& point) {
  const std::vector<Id>& shape = program_[operand].shape;
  const std::size_t skipped = point.size() - shape.size();
  Point result;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const Lanes& given = point[skipped + axis];
    const bool is_repeated = shape[axis] != op.shape[skipped + axis] && is_extent_one(program_, shape[axis]);
    result.push_back(is_repeated ? uniform(i64(0)) : given);
  }
  return result;
}

// Whether a value needs its operands at the same points, or at permuted ones.
bool Emitter::keeps_points(Id id) const {
  const Code code = program_[id].code;
  return !is_in_scratch(id) && (is_elementwise(code) || code == Code::broadcast || code == Code::transpose);
}

std::vector<Id> Emitter::operands_of(Id id) const {
  return is_elementwise(program_[id].code) ? widths().operands_of(id) : program_[id].operands;
}

Emitter::Points Emitter::operand_points(const ir::Op& op, Id operand, const Points& points) {
  Points mapped;
  mapped.reserve(points.size());
  for (const Point& point : points) {
    if (op.code != Code::transpose) {
      mapped.push_back(operand_point(op, operand, point));
      continue;
    }
    Point moved(point.size());
    for (std::size_t i = 0; i < point.size(); ++i) moved[static_cast<std::size_t>(op.list[i])] = point[i];
    mapped.push_back(moved);
  }
  return mapped;
}

// LLVM schedules independent chains one after the other, to use fewer registers. An empty inline assembly that uses all
// of them keeps them side by side; it is inserted every `step` operations.
void Emitter::keep_side_by_side(Values& values) {
#if defined(__x86_64__)
  constexpr int step = 8;
  const bool is_register =
      values[0].is_vector && values[0].base->getType()->getPrimitiveSizeInBits() == host_.vector_bits;
  if (values.size() < 2 || !is_register || ++chain_length_ % step != 0) return;
  std::vector<Value*> operands;
  std::vector<llvm::Type*> types;
  std::string outputs, inputs;
  for (std::size_t i = 0; i < values.size(); ++i) {
    operands.push_back(values[i].base);
    types.push_back(values[i].base->getType());
    outputs += host_.level == VectorLevel::avx512 ? "=v," : "=x,";
    inputs += std::to_string(i) + ",";
  }
  inputs.pop_back();
  auto* all = llvm::StructType::get(context_, types);
  auto* nothing = llvm::InlineAsm::get(llvm::FunctionType::get(all, types, false), "", outputs + inputs, false);
  Value* changed = b_.CreateCall(nothing, operands);
  for (unsigned i = 0; i < values.size(); ++i) values[i].base = b_.CreateExtractValue(changed, {i});
#else
  (void)values;
#endif
}

// Whether a value is read from scratch memory: materialised, or carried by a loop of stages.
bool Emitter::is_in_scratch(Id id) const {
  const ir::Op& op = program_[id];
  const bool is_carried =
      op.code == Code::argument ||
      (op.code == Code::result && !analysis_.is_inline_loop[static_cast<std::size_t>(op.operands[0])]);
  return is_carried || (is_materialised(id) && id != computing_);
}

Emitter::Values Emitter::compute(Id id, const Points& points) {
  const ir::Op& op = program_[id];
  if (is_in_scratch(id)) {
    Values result;
    for (const Point& point : points) result.push_back(from_scratch(id, point));
    return result;
  }
  if (is_elementwise(op.code)) {
    std::vector<Values> operands;
    for (Id operand : operands_of(id)) operands.push_back(eval(operand, operand_points(op, operand, points)));
    if (std::optional<Values> sums = paired_product_sums(id, operands)) return *sums;
    if (std::optional<Values> sums = paired_byte_sums(id, operands)) return *sums;
    Values result;
    for (std::size_t i = 0; i < points.size(); ++i) {
      llvm::SmallVector<Lanes, 3> at_point;
      for (const Values& operand : operands) at_point.push_back(operand[i]);
      result.push_back(elementwise(id, {at_point.data(), at_point.size()}));
    }
    if (is_chain_) keep_side_by_side(result);
    return result;
  }
  if (is_reduction(op.code)) return inline_reduction(op, points);
  if (op.code == Code::mma) return inline_mma(op, points);
  if (op.code == Code::result) return inline_loop(program_[op.operands[0]], id, points);

  // These only permute or repeat points, so that the operand is still evaluated at all of them together.
  if (op.code == Code::broadcast || op.code == Code::transpose) {
    return eval(op.operands[0], operand_points(op, op.operands[0], points));
  }
  Values result;
  for (const Point& point : points) result.push_back(compute_one(id, point));
  return result;
}

Emitter::Lanes Emitter::compute_one(Id id, const Point& point) {
  const ir::Op& op = program_[id];
  const auto axis = static_cast<std::size_t>(op.axis);
  switch (op.code) {
    case Code::constant: {
      llvm::Type* type = math_.element_type(op.type);
      if (ir::is_float(op.type)) return uniform(llvm::ConstantFP::get(type, op.number));
      return uniform(llvm::ConstantInt::get(type, static_cast<std::uint64_t>(op.integer), true));
    }
    case Code::scalar: {
      Value* address = b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), scalars_, static_cast<std::uint64_t>(op.index));
      if (ir::is_float(op.type)) {
        return uniform(b_.CreateFPCast(b_.CreateLoad(b_.getDoubleTy(), address), math_.element_type(op.type)));
      }
      return uniform(b_.CreateTrunc(b_.CreateLoad(b_.getInt64Ty(), address), math_.element_type(op.type)));
    }
    case Code::dim:
      return uniform(dim(op.index, op.axis));
    case Code::tile_dim:
      return uniform(tile_dims_[axis]);
    case Code::origin:
      return uniform(origins_[axis]);
    case Code::block:
      return uniform(blocks_[axis]);
    case Code::iota:
      return point[axis];
    case Code::load:
    case Code::pick:
      return loaded(id, point);
    case Code::reshape:
      return reshaped(op, point);
    default:
      return sliced(op, point);
  }
}

Emitter::Lanes Emitter::reshaped(const ir::Op& op, const Point& point) {
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
  Point moved(from.size(), uniform(i64(0)));
  if (is_same) {
    for (std::size_t i = 0; i < axes_to.size(); ++i) moved[axes_from[i]] = point[axes_to[i]];
    return eval(op.operands[0], moved);
  }
  Lanes index = uniform(i64(0));
  for (std::size_t axis = 0; axis < to.size(); ++axis) {
    index = add_indices(mul_indices(index, uniform(extent(to[axis]))), point[axis]);
  }
  for (std::size_t axis = from.size(); axis-- > 0;) {
    if (is_extent_one(program_, from[axis])) continue;
    const bool is_first = std::all_of(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(axis),
                                      [&](Id extent) { return is_extent_one(program_, extent); });
    if (is_first) {
      moved[axis] = index;
      break;
    }
    // An extent of 0 has no points, but the division must not trap.
    Value* divisor = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umax, extent(from[axis]), i64(1));
    if (index.is_uniform()) {
      moved[axis] = uniform(b_.CreateURem(index.base, divisor));
      index = uniform(b_.CreateUDiv(index.base, divisor));
    } else {
      Value* indices = vector(index);
      Value* divisors = vector(uniform(divisor));
      moved[axis] = varying(b_.CreateURem(indices, divisors));
      index = varying(b_.CreateUDiv(indices, divisors));
    }
  }
  return eval(op.operands[0], moved);
}

// Whether a slice always lies within its operand along an axis: x[start … start + n) of n + c elements with start <= c.
bool Emitter::slice_is_inside(const ir::Op& op, std::size_t axis) const {
  const Range& starts = widths().range(op.operands[axis + 1]);
  const std::int64_t start = starts.high;
  if (starts.low < 0) return false;
  const Id extent = op.shape[axis];
  const Id whole = program_[op.operands[0]].shape[axis];
  std::int64_t slack = 0;
  if (extent == whole) return start == 0;
  std::int64_t a = 0, b = 0;
  if (ir::is_constant(program_, extent, a) && ir::is_constant(program_, whole, b)) return start <= b - a;
  const ir::Op& sum = program_[whole];
  if (sum.code != Code::add) return false;
  for (int side = 0; side < 2; ++side) {
    const auto at = static_cast<std::size_t>(side);
    if (sum.operands[at] == extent && ir::is_constant(program_, sum.operands[1 - at], slack)) return start <= slack;
  }
  return false;
}

Emitter::Lanes Emitter::sliced(const ir::Op& op, const Point& point) {
  const Id operand = op.operands[0];
  Point moved;
  Value* uniform_inside = nullptr;
  Value* lanes_inside = nullptr;
  const auto both = [&](Value*& all, Value* one) { all = all ? b_.CreateAnd(all, one) : one; };
  for (std::size_t axis = 0; axis < point.size(); ++axis) {
    Lanes at = add_indices(point[axis], uniform(scalar(op.operands[axis + 1])));
    if (!slice_is_inside(op, axis)) {
      Value* whole = extent(program_[operand].shape[axis]);
      if (at.is_uniform()) {
        Value* inside = b_.CreateICmpULT(at.base, whole);
        both(uniform_inside, inside);
        at = uniform(b_.CreateSelect(inside, at.base, i64(0)));
      } else {
        Value* indices = vector(at);
        Value* inside = b_.CreateICmpULT(indices, vector(uniform(whole)));
        both(lanes_inside, inside);
        at = varying(b_.CreateSelect(inside, indices, llvm::Constant::getNullValue(indices->getType())));
      }
    }
    moved.push_back(at);
  }
  if (!uniform_inside && !lanes_inside) return eval(operand, moved);
  // An operand without points must not be evaluated.
  Value* has_points = nullptr;
  for (Value* whole : extents_of(operand)) both(has_points, b_.CreateICmpNE(whole, i64(0)));
  both(uniform_inside, has_points);
  Value* mask = lanes_inside;
  if (mask) {
    mask = b_.CreateAnd(mask, b_.CreateVectorSplat(static_cast<unsigned>(lanes_), uniform_inside));
  } else {
    mask = uniform_inside;
  }
  auto* inside = llvm::BasicBlock::Create(context_, "slice", function_);
  auto* end = llvm::BasicBlock::Create(context_, "slice.end", function_);
  Value* any = mask->getType()->isVectorTy() ? b_.CreateOrReduce(mask) : mask;
  llvm::BasicBlock* before = b_.GetInsertBlock();
  b_.CreateCondBr(any, inside, end);
  b_.SetInsertPoint(inside);
  Value* found = nullptr;
  {
    const Scope scope(known_);
    found = full(eval(operand, moved));
  }
  llvm::BasicBlock* after = b_.GetInsertBlock();
  b_.CreateBr(end);
  b_.SetInsertPoint(end);
  llvm::PHINode* value = b_.CreatePHI(found->getType(), 2);
  Value* zero = llvm::Constant::getNullValue(found->getType());
  value->addIncoming(zero, before);
  value->addIncoming(found, after);
  return varying(lanes_inside ? b_.CreateSelect(mask, value, zero) : value);
}

}  // namespace tessera::compile::cpu
