#include "compile/cpu/llvm/emitter.hpp"
#include "compile/cpu/llvm/scope.hpp"
#include "ir/arithmetic.hpp"

#include <algorithm>
#include <llvm/IR/InlineAsm.h>
#include <string>

namespace tessera::compile {

using ir::Code;
using ir::Id;
using llvm::Value;

namespace {

bool is_extent_one(const ir::Program& program, Id extent) {
  std::int64_t value = 0;
  return ir::is_constant(program, extent, value) && value == 1;
}

}  // namespace

void Emitter::known_insert(Id id, const Point& point, const Lanes& value) { known_.back()[{id, point}] = value; }

Emitter::Values Emitter::eval(Id id, const Points& points) {
  Values result(points.size());
  Points missing;
  std::vector<std::size_t> place(points.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::pair<Id, Point> key{id, points[i]};
    for (auto scope = known_.rbegin(); scope != known_.rend() && !result[i].base; ++scope) {
      const auto found = scope->find(key);
      if (found != scope->end()) result[i] = found->second;
    }
    if (result[i].base) continue;
    const auto same = std::ranges::find(missing, points[i]);
    place[i] = static_cast<std::size_t>(same - missing.begin());
    if (same == missing.end()) missing.push_back(points[i]);
  }
  if (missing.empty()) return result;
  eval_operands(id, missing);
  const Values computed = compute(id, missing);
  for (std::size_t i = 0; i < missing.size(); ++i) known_insert(id, missing[i], computed[i]);
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!result[i].base) result[i] = computed[place[i]];
  }
  return result;
}

bool Emitter::is_known(Id id, const Points& points) const {
  return std::ranges::all_of(points, [&](const Point& point) {
    return std::ranges::any_of(known_, [&](const Known& scope) { return scope.contains({id, point}); });
  });
}

// What a value needs of its operands, deepest first and not by calling each other: a chain of operations may be longer
// than the stack of the thread.
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

// The point of an operand that a point of the result needs: aligned at the last axis, an extent of 1 has one
// coordinate.
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

// Whether a value is asked of its operands at all its points together.
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

// LLVM puts chains that do not depend on each other one after the other, to need fewer registers. What it takes for an
// instruction with all of them, and is none, holds them together whenever they have become this much longer.
void Emitter::keep_abreast(Values& values) {
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

// Materialised values, and what a loop of stages carries.
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
    if (is_chain_) keep_abreast(result);
    return result;
  }
  if (is_reduction(op.code)) return inline_reduction(op, points);
  if (op.code == Code::mma) return inline_mma(op, points);
  if (op.code == Code::result) return inline_loop(program_[op.operands[0]], id, points);

  // What only moves points keeps them together for what is below it.
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
      llvm::Type* type = element_type(op.type);
      if (ir::is_float(op.type)) return uniform(llvm::ConstantFP::get(type, op.number));
      return uniform(llvm::ConstantInt::get(type, static_cast<std::uint64_t>(op.integer), true));
    }
    case Code::scalar: {
      Value* address = b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), scalars_, static_cast<std::uint64_t>(op.index));
      if (ir::is_float(op.type)) {
        return uniform(b_.CreateFPCast(b_.CreateLoad(b_.getDoubleTy(), address), element_type(op.type)));
      }
      return uniform(b_.CreateTrunc(b_.CreateLoad(b_.getInt64Ty(), address), element_type(op.type)));
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
  // Where only extents of 1 come and go, the coordinates stay.
  std::vector<std::size_t> kept_to, kept_from;
  for (std::size_t axis = 0; axis < to.size(); ++axis) {
    if (!is_extent_one(program_, to[axis])) kept_to.push_back(axis);
  }
  for (std::size_t axis = 0; axis < from.size(); ++axis) {
    if (!is_extent_one(program_, from[axis])) kept_from.push_back(axis);
  }
  const bool is_same = std::ranges::equal(kept_to, kept_from, [&](auto a, auto b) { return to[a] == from[b]; });
  Point moved(from.size(), uniform(i64(0)));
  if (is_same) {
    for (std::size_t i = 0; i < kept_to.size(); ++i) moved[kept_from[i]] = point[kept_to[i]];
    return eval(op.operands[0], moved);
  }
  Lanes place = uniform(i64(0));
  for (std::size_t axis = 0; axis < to.size(); ++axis) {
    place = add_places(mul_places(place, uniform(scalar(to[axis]))), point[axis]);
  }
  for (std::size_t axis = from.size(); axis-- > 0;) {
    if (is_extent_one(program_, from[axis])) continue;
    const bool is_first = std::all_of(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(axis),
                                      [&](Id extent) { return is_extent_one(program_, extent); });
    if (is_first) {
      moved[axis] = place;
      break;
    }
    // An extent of 0 has no points; the division must not trap all the same.
    Value* extent = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umax, scalar(from[axis]), i64(1));
    if (place.is_uniform()) {
      moved[axis] = uniform(b_.CreateURem(place.base, extent));
      place = uniform(b_.CreateUDiv(place.base, extent));
    } else {
      Value* places = vector(place);
      Value* extents = vector(uniform(extent));
      moved[axis] = varying(b_.CreateURem(places, extents));
      place = varying(b_.CreateUDiv(places, extents));
    }
  }
  return eval(op.operands[0], moved);
}

// Whether a slice surely lies within its operand along an axis: x[start … start + n) of n + c elements, start <= c.
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
    Lanes at = add_places(point[axis], uniform(scalar(op.operands[axis + 1])));
    if (!slice_is_inside(op, axis)) {
      Value* extent = scalar(program_[operand].shape[axis]);
      if (at.is_uniform()) {
        Value* inside = b_.CreateICmpULT(at.base, extent);
        both(uniform_inside, inside);
        at = uniform(b_.CreateSelect(inside, at.base, i64(0)));
      } else {
        Value* places = vector(at);
        Value* inside = b_.CreateICmpULT(places, vector(uniform(extent)));
        both(lanes_inside, inside);
        at = varying(b_.CreateSelect(inside, places, llvm::Constant::getNullValue(places->getType())));
      }
    }
    moved.push_back(at);
  }
  if (!uniform_inside && !lanes_inside) return eval(operand, moved);
  // An operand without points must not be asked.
  Value* has_points = nullptr;
  for (Id extent : program_[operand].shape) both(has_points, b_.CreateICmpNE(scalar(extent), i64(0)));
  both(uniform_inside, has_points);
  Value* mask = lanes_inside;
  if (mask) {
    mask = b_.CreateAnd(mask, b_.CreateVectorSplat(static_cast<unsigned>(lanes_), uniform_inside));
  } else {
    mask = uniform_inside;
  }
  auto* asked = llvm::BasicBlock::Create(context_, "slice", function_);
  auto* end = llvm::BasicBlock::Create(context_, "slice.end", function_);
  Value* any = mask->getType()->isVectorTy() ? b_.CreateOrReduce(mask) : mask;
  llvm::BasicBlock* before = b_.GetInsertBlock();
  b_.CreateCondBr(any, asked, end);
  b_.SetInsertPoint(asked);
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

// A counted loop around vectors that it carries in registers.
Emitter::Values Emitter::accumulate(Value* count, const Values& initial,
                                    const std::function<Values(Value*, const Values&)>& step) {
  std::vector<Value*> start;
  for (const Lanes& value : initial) start.push_back(value.base);
  llvm::BasicBlock* before = b_.GetInsertBlock();
  auto* head = llvm::BasicBlock::Create(context_, "sum", function_);
  auto* body = llvm::BasicBlock::Create(context_, "sum.body", function_);
  auto* end = llvm::BasicBlock::Create(context_, "sum.end", function_);
  b_.CreateBr(head);
  b_.SetInsertPoint(head);
  llvm::PHINode* counter = b_.CreatePHI(b_.getInt64Ty(), 2);
  counter->addIncoming(i64(0), before);
  std::vector<llvm::PHINode*> phis;
  Values sums;
  for (std::size_t i = 0; i < start.size(); ++i) {
    phis.push_back(b_.CreatePHI(start[i]->getType(), 2));
    phis.back()->addIncoming(start[i], before);
    sums.push_back({phis.back(), nullptr, initial[i].is_vector});
  }
  b_.CreateCondBr(b_.CreateICmpSLT(counter, count), body, end);
  b_.SetInsertPoint(body);
  {
    const Scope scope(known_);
    const Values next = step(counter, sums);
    for (std::size_t i = 0; i < phis.size(); ++i) {
      phis[i]->addIncoming(initial[i].is_vector ? vector(next[i]) : next[i].base, b_.GetInsertBlock());
    }
  }
  counter->addIncoming(b_.CreateAdd(counter, i64(1)), b_.GetInsertBlock());
  b_.CreateBr(head);
  b_.SetInsertPoint(end);
  return sums;
}

// Whether so many are more floats than are added up in one go.
bool Emitter::is_in_blocks(const ir::Op& reduction, Value* count) const {
  if (reduction.code != Code::reduce_sum || !ir::is_float(reduction.type)) return false;
  const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(count);
  return !constant || constant->getSExtValue() > ir::sum_block;
}

// The sums of blocks, added up in f64.
Emitter::Values Emitter::sum_of_blocks(Value* count, Values zeros,
                                       const std::function<Values(Value* first, Value* count)>& block) {
  Value* blocks = b_.CreateUDiv(b_.CreateAdd(count, i64(ir::sum_block - 1)), i64(ir::sum_block));
  for (Lanes& zero : zeros) zero.base = total_of(zero.base);
  return accumulate(blocks, zeros, [&](Value* number, const Values& totals) {
    Value* first = b_.CreateMul(number, i64(ir::sum_block));
    Value* left = b_.CreateSub(count, first);
    Values sums = block(first, b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, left, i64(ir::sum_block)));
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i].base = b_.CreateFAdd(total_of(sums[i].base), totals[i].base);
    return sums;
  });
}

// All carried values at all points at once; those not asked for are remembered.
Emitter::Values Emitter::inline_loop(const ir::Op& loop, Id asked, const Points& points) {
  const ir::Region& region = program_.regions[static_cast<std::size_t>(loop.index)];
  const std::size_t carried = region.results.size();
  Value* count = scalar(loop.operands[0]);
  // A value of rank 0 has one point, whatever the others have.
  const auto points_of = [&](std::size_t j) {
    return program_[region.results[j]].shape.empty() ? Points{Point{}} : points;
  };
  // The others' points, where a value of rank 0 is asked for, are nobody's business.
  const bool asks_scalar = program_[asked].shape.empty();
  std::vector<std::size_t> used;
  for (std::size_t j = 0; j < carried; ++j) {
    if (!asks_scalar || program_[region.results[j]].shape.empty()) used.push_back(j);
  }
  Values initial;
  for (std::size_t j : used) {
    for (const Lanes& value : eval_whole(loop.operands[j + 1], points_of(j))) {
      const bool is_scalar = program_[region.results[j]].shape.empty();
      initial.push_back(is_scalar ? value : varying(vector(value)));
    }
  }
  const Values sums = accumulate(count, initial, [&](Value* counter, const Values& now) {
    known_insert(region.arguments[0], Point{}, uniform(counter));
    std::size_t next = 0;
    for (std::size_t j : used) {
      for (const Point& point : points_of(j)) known_insert(region.arguments[j + 1], point, now[next++]);
    }
    Values result;
    for (std::size_t j : used) {
      for (const Lanes& value : eval_whole(region.results[j], points_of(j))) result.push_back(value);
    }
    return result;
  });
  Values result;
  std::size_t next = 0;
  const Id first = static_cast<Id>(&loop - program_.ops.data());
  for (std::size_t j : used) {
    for (const Point& point : points_of(j)) {
      const Lanes& value = sums[next++];
      for (std::size_t id = static_cast<std::size_t>(first); id < program_.ops.size(); ++id) {
        const ir::Op& op = program_.ops[id];
        if (op.code != Code::result || op.operands[0] != first || op.index != static_cast<int>(j)) continue;
        known_insert(static_cast<Id>(id), point, value);
        if (static_cast<Id>(id) == asked) result.push_back(value);
      }
    }
  }
  return result;
}

Emitter::Values Emitter::inline_mma(const ir::Op& op, const Points& points) {
  const Id a = op.operands[0], b = op.operands[1], c = op.operands[2];
  const auto batch_point = [&](Id operand, const Point& point, const Lanes& row, const Lanes& column) {
    const std::vector<Id>& shape = program_[operand].shape;
    Point result;
    for (std::size_t axis = 0; axis + 2 < shape.size(); ++axis) {
      const std::size_t of_point = axis + point.size() - shape.size();
      result.push_back(is_extent_one(program_, shape[axis]) ? uniform(i64(0)) : point[of_point]);
    }
    result.push_back(row);
    result.push_back(column);
    return result;
  };
  Points of_c;
  for (const Point& point : points) of_c.push_back(operand_point(op, c, point));
  Values initial;
  for (const Lanes& value : eval_whole(c, of_c)) initial.push_back(varying(vector(value)));
  return accumulate(scalar(program_[a].shape.back()), initial, [&](Value* k, const Values& sums) {
    Points of_a, of_b;
    for (const Point& point : points) {
      of_a.push_back(batch_point(a, point, point[point.size() - 2], uniform(k)));
      of_b.push_back(batch_point(b, point, uniform(k), point.back()));
    }
    const Values left = eval_whole(a, of_a);
    const Values right = eval_whole(b, of_b);
    Values result;
    for (std::size_t i = 0; i < points.size(); ++i) {
      result.push_back(varying(multiply_add(op.type, vector(left[i]), vector(right[i]), sums[i].base)));
    }
    return result;
  });
}

Emitter::Values Emitter::inline_reduction(const ir::Op& op, const Points& points) {
  const Id operand = op.operands[0];
  const ir::Type type = program_[operand].type;
  const auto axis = static_cast<std::size_t>(op.axis);
  const bool finds_place = op.code == Code::argmax;
  Values initial(points.size(), varying(vector(uniform(identity_of(op)))));
  if (finds_place) initial.insert(initial.end(), points.size(), varying(vector(uniform(i64(0)))));
  const auto step = [&](Value* k, const Values& now) {
    Points moved = points;
    for (Point& point : moved) point[axis] = uniform(k);
    const Values values = eval_whole(operand, moved);
    Values result, places;
    for (std::size_t i = 0; i < points.size(); ++i) {
      Value* value = vector(values[i]);
      if (!finds_place) {
        result.push_back(varying(combine(op.code, type, value, now[i].base)));
        continue;
      }
      // Greater, or the first NaN; and the very first element counts whatever it is.
      Value* best = now[i].base;
      Value* is_greater = compare(Code::gt, type, value, best);
      if (ir::is_float(type)) {
        Value* is_first_nan = b_.CreateAnd(b_.CreateFCmpUNO(value, value), b_.CreateFCmpORD(best, best));
        is_greater = b_.CreateOr(is_greater, is_first_nan);
      }
      result.push_back(varying(b_.CreateSelect(is_greater, value, best)));
      places.push_back(varying(b_.CreateSelect(is_greater, vector(uniform(k)), now[points.size() + i].base)));
    }
    result.insert(result.end(), places.begin(), places.end());
    return result;
  };
  Value* count = scalar(program_[operand].shape[axis]);
  if (is_in_blocks(op, count)) {
    Values totals = sum_of_blocks(count, initial, [&](Value* first, Value* some) {
      return accumulate(some, initial, [&](Value* k, const Values& now) { return step(b_.CreateAdd(first, k), now); });
    });
    for (Lanes& total : totals) total.base = b_.CreateFPCast(total.base, initial[0].base->getType());
    return totals;
  }
  Values sums = accumulate(count, initial, step);
  if (finds_place) sums.erase(sums.begin(), sums.begin() + static_cast<std::ptrdiff_t>(points.size()));
  return sums;
}

}  // namespace tessera::compile
