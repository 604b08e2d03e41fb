// Loops that run for each point by themselves: loops of the program, matrix products and reductions.
#include "compile/cpu/llvm/emitter.hpp"
#include "compile/cpu/llvm/scope.hpp"
#include "ir/arithmetic.hpp"

namespace tessera::compile::cpu {

using ir::Code;
using ir::Id;
using llvm::Value;

// A counted loop that carries values in registers.
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

// Whether a sum has more floats than are added up in their own type.
bool Emitter::is_in_blocks(const ir::Op& reduction, Value* count) const {
  if (reduction.code != Code::reduce_sum || !ir::is_float(reduction.type)) return false;
  const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(count);
  return !constant || constant->getSExtValue() > ir::sum_block;
}

// Adds up the sums of blocks in f64.
Emitter::Values Emitter::sum_of_blocks(Value* count, Values zeros,
                                       const std::function<Values(Value* first, Value* count)>& block) {
  Value* blocks = b_.CreateUDiv(b_.CreateAdd(count, i64(ir::sum_block - 1)), i64(ir::sum_block));
  for (Lanes& zero : zeros) zero.base = math_.as_double(zero.base);
  return accumulate(blocks, zeros, [&](Value* number, const Values& totals) {
    Value* first = b_.CreateMul(number, i64(ir::sum_block));
    Value* left = b_.CreateSub(count, first);
    Values sums = block(first, b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, left, i64(ir::sum_block)));
    for (std::size_t i = 0; i < sums.size(); ++i)
      sums[i].base = b_.CreateFAdd(math_.as_double(sums[i].base), totals[i].base);
    return sums;
  });
}

// Computes all carried values at all points at once, and remembers those that were not needed.
Emitter::Values Emitter::inline_loop(const ir::Op& loop, Id wanted, const Points& points) {
  const ir::Region& region = program_.regions[static_cast<std::size_t>(loop.index)];
  const std::size_t carried = region.results.size();
  Value* count = scalar(loop.operands[0]);
  // A value of rank 0 has a single point.
  const auto points_of = [&](std::size_t j) {
    return program_[region.results[j]].shape.empty() ? Points{Point{}} : points;
  };
  // If a value of rank 0 is wanted, the points of the others are unknown, and they are not computed.
  const bool wants_scalar = program_[wanted].shape.empty();
  std::vector<std::size_t> used;
  for (std::size_t j = 0; j < carried; ++j) {
    if (!wants_scalar || program_[region.results[j]].shape.empty()) used.push_back(j);
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
        if (static_cast<Id>(id) == wanted) result.push_back(value);
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
  return accumulate(extent(program_[a].shape.back()), initial, [&](Value* k, const Values& sums) {
    Points of_a, of_b;
    for (const Point& point : points) {
      of_a.push_back(batch_point(a, point, point[point.size() - 2], uniform(k)));
      of_b.push_back(batch_point(b, point, uniform(k), point.back()));
    }
    const Values left = eval_whole(a, of_a);
    const Values right = eval_whole(b, of_b);
    Values result;
    for (std::size_t i = 0; i < points.size(); ++i) {
      result.push_back(varying(math_.multiply_add(op.type, vector(left[i]), vector(right[i]), sums[i].base)));
    }
    return result;
  });
}

Emitter::Values Emitter::inline_reduction(const ir::Op& op, const Points& points) {
  const Id operand = op.operands[0];
  const ir::Type type = program_[operand].type;
  const auto axis = static_cast<std::size_t>(op.axis);
  const bool finds_index = op.code == Code::argmax;
  Values initial(points.size(), varying(vector(uniform(math_.identity_of(op.code, type)))));
  if (finds_index) initial.insert(initial.end(), points.size(), varying(vector(uniform(i64(0)))));
  const auto step = [&](Value* k, const Values& now) {
    Points moved = points;
    for (Point& point : moved) point[axis] = uniform(k);
    const Values values = eval_whole(operand, moved);
    Values result, indices;
    for (std::size_t i = 0; i < points.size(); ++i) {
      Value* value = vector(values[i]);
      if (!finds_index) {
        result.push_back(varying(math_.combine(op.code, type, value, now[i].base)));
        continue;
      }
      // Greater, or the first NaN.
      Value* best = now[i].base;
      Value* is_greater = math_.compare(Code::gt, type, value, best);
      if (ir::is_float(type)) {
        Value* is_first_nan = b_.CreateAnd(b_.CreateFCmpUNO(value, value), b_.CreateFCmpORD(best, best));
        is_greater = b_.CreateOr(is_greater, is_first_nan);
      }
      result.push_back(varying(b_.CreateSelect(is_greater, value, best)));
      indices.push_back(varying(b_.CreateSelect(is_greater, vector(uniform(k)), now[points.size() + i].base)));
    }
    result.insert(result.end(), indices.begin(), indices.end());
    return result;
  };
  Value* count = extent(program_[operand].shape[axis]);
  if (is_in_blocks(op, count)) {
    Values totals = sum_of_blocks(count, initial, [&](Value* first, Value* some) {
      return accumulate(some, initial, [&](Value* k, const Values& now) { return step(b_.CreateAdd(first, k), now); });
    });
    for (Lanes& total : totals) total.base = b_.CreateFPCast(total.base, initial[0].base->getType());
    return totals;
  }
  Values sums = accumulate(count, initial, step);
  if (finds_index) sums.erase(sums.begin(), sums.begin() + static_cast<std::ptrdiff_t>(points.size()));
  return sums;
}

}  // namespace tessera::compile::cpu
