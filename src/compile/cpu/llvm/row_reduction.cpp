// Reductions along the last axis.
#include "compile/cpu/llvm/emitter.hpp"
#include "compile/cpu/llvm/scope.hpp"

namespace tessera::compile::cpu {

using ir::Code;
using ir::Id;
using llvm::Value;

// A long row is reduced in this order: a partial vector up to the first aligned one, steps of several vectors side by
// side, single vectors, and a partial vector at the end. The partial vectors are the first and the last whole vector of
// the row, with the lanes that belong to others masked. A short row is reduced in steps, single vectors and single
// elements from its beginning: computing where each part begins took as long as everything else for rows of 16 floats.
//
// Vectors that cross a cache line take twice the time: rows of 1000 floats were read at 87 GB/s on a core with vectors
// of 64 bytes, and are now read at 130.
struct Emitter::RowReduction {
  static constexpr int side_by_side = 4;
  static constexpr std::int64_t least_long = 32;  // vectors

  Emitter& e;
  const ir::Op& op;
  Id operand;
  ir::Type type;
  Point row;
  Value* length;
  Value* lanes;
  Value* identity;
  bool in_blocks;

  RowReduction(Emitter& emitter, Id id, const Point& first, Value* of_length)
      : e(emitter),
        op(e.program_[id]),
        operand(op.operands[0]),
        type(e.program_[operand].type),
        row(first),
        length(of_length),
        lanes(e.i64(e.natural_lanes_)),
        identity(e.math_.identity_of(op.code, type)),
        in_blocks(e.is_in_blocks(op, steps_from(e.i64(0)))) {}

  Value* combined(Value* a, Value* b) { return e.math_.combine(op.code, type, a, b); }
  Value* across_lanes(const Values& sums) {
    Value* sum = sums[0].base;
    for (std::size_t i = 1; i < sums.size(); ++i) sum = combined(sums[i].base, sum);
    return e.math_.across_lanes(op.code, type, sum);
  }
  Value* nothing() { return e.vector(e.uniform(identity)); }
  // Replaces values if a condition holds.
  Values if_so(Value* condition, const Values& values, const std::function<Values(const Values&)>& then) {
    return e.accumulate(e.b_.CreateZExt(condition, e.b_.getInt64Ty()), values,
                        [&](Value*, const Values& now) { return then(now); });
  }

  // The operand's vectors that begin at these elements.
  Values vectors_at(std::span<Value* const> begins) {
    Points points;
    for (Value* begin : begins) {
      row.back() = {begin, e.natural_lanes_ > 1 ? e.i64(1) : nullptr, false};
      points.push_back(row);
    }
    Values values = e.eval_whole(operand, points);
    for (Lanes& value : values) value = e.varying(e.vector(value));
    return values;
  }

  // Adds `count` steps of vectors side by side, beginning at the element `from`, to the sums.
  Values with_vectors(Value* from, Value* count, const Values& sums) {
    const auto each = static_cast<std::int64_t>(sums.size()) * e.natural_lanes_;
    return e.accumulate(count, sums, [&](Value* counter, const Values& now) {
      Value* begin = e.b_.CreateAdd(from, e.b_.CreateMul(counter, e.i64(each)));
      std::vector<Value*> begins;
      begins.reserve(sums.size());
      for (std::size_t u = 0; u < sums.size(); ++u) {
        begins.push_back(e.b_.CreateAdd(begin, e.i64(static_cast<std::int64_t>(u) * e.natural_lanes_)));
      }
      Values next = vectors_at(begins);
      for (std::size_t u = 0; u < next.size(); ++u) next[u].base = combined(next[u].base, now[u].base);
      return next;
    });
  }

  // Adds the lanes from `first` up to `end` of the vector that begins with the element `begin`.
  Values with_part(Value* begin, Value* first, Value* end, const Values& sums) {
    auto& b = e.b_;
    const auto in_bytes = [&](Value* value) { return b.CreateTrunc(value, e.math_.like(b.getInt8Ty(), value)); };
    const auto everywhere = [&](Value* value) { return e.vector(e.uniform(in_bytes(value))); };
    Value* lane = in_bytes(e.vector({e.i64(0), e.i64(1), false}));
    Value* is_part = b.CreateAnd(b.CreateICmpUGE(lane, everywhere(first)), b.CreateICmpULT(lane, everywhere(end)));
    Value* part = b.CreateSelect(is_part, vectors_at({{begin}})[0].base, nothing());
    return {e.varying(combined(part, sums[0].base))};
  }

  // The load that reads along the row, and its point for the row's first element; null if there is no such load, or
  // other ops are in between.
  const ir::Op* load_along(Point& start) {
    Id id = operand;
    start = row;
    start.back() = e.uniform(e.i64(0));
    while (is_elementwise(e.program_[id].code) && !e.is_materialised(id)) {
      const ir::Op& value = e.program_[id];
      id = value.operands[0];
      start = e.operand_point(value, id, start);
    }
    const ir::Op& load = e.program_[id];
    const int axis = load.code == Code::load ? e.row_axis(load) : -1;
    const bool is_last = axis >= 0 && axis + 1 == e.program_.buffers[static_cast<std::size_t>(load.index)].rank();
    return is_last ? &load : nullptr;
  }

  // The number of elements before its first aligned vector. By the index in the buffer, so that sums do not depend on
  // the buffer's address.
  Value* elements_before_aligned(const ir::Op& load, const Point& start) {
    e.lanes_ = 1;
    Values indices;
    for (Id index : ir::indices_of(load)) indices.push_back(e.eval(index, e.operand_point(load, index, start)));
    Value* offset = e.element_offset(e.source_of(load), indices).base;
    e.lanes_ = e.natural_lanes_;
    return e.b_.CreateAnd(e.b_.CreateNeg(offset), e.i64(e.natural_lanes_ - 1));
  }

  // The result of the steps that begin at the element `begin`.
  Values of_steps(Value* begin, Value* steps) {
    auto& b = e.b_;
    const std::int64_t step = std::int64_t{side_by_side} * e.natural_lanes_;
    const auto block = [&](Value* first, Value* count) {
      const Values none(side_by_side, e.varying(nothing()));
      Value* from = b.CreateAdd(begin, b.CreateMul(first, e.i64(step)));
      return Values{e.uniform(across_lanes(with_vectors(from, count, none)))};
    };
    return in_blocks ? e.sum_of_blocks(steps, {e.uniform(identity)}, block) : block(e.i64(0), steps);
  }
  Value* steps_from(Value* begin) {
    return e.b_.CreateUDiv(e.b_.CreateSub(length, begin), e.i64(std::int64_t{side_by_side} * e.natural_lanes_));
  }
  Value* after_steps(Value* begin, Value* steps) {
    return e.b_.CreateAdd(begin, e.b_.CreateMul(steps, e.i64(std::int64_t{side_by_side} * e.natural_lanes_)));
  }
  Values with(Value* next, const Values& now) {
    return {e.uniform(combined(in_blocks ? e.math_.as_double(next) : next, now[0].base))};
  }

  Values of_long_row(Value* head);
  Values of_short_row();
  Value* of_either(const ir::Op& load, const Point& start);
  Lanes run();
};

Emitter::Values Emitter::RowReduction::of_long_row(Value* head) {
  auto& b = e.b_;
  Value* steps = steps_from(head);
  const Values all = of_steps(head, steps);
  Value* done = after_steps(head, steps);
  Value* singles = b.CreateUDiv(b.CreateSub(length, done), lanes);
  Value* end = b.CreateAdd(done, b.CreateMul(singles, lanes));
  Values rest = with_vectors(done, singles, {e.varying(nothing())});
  rest = if_so(b.CreateICmpNE(head, e.i64(0)), rest,
               [&](const Values& now) { return with_part(e.i64(0), e.i64(0), head, now); });
  rest = if_so(b.CreateICmpNE(length, end), rest, [&](const Values& now) {
    Value* last = b.CreateSub(length, lanes);
    return with_part(last, b.CreateSub(end, last), lanes, now);
  });
  return with(across_lanes(rest), all);
}

Emitter::Values Emitter::RowReduction::of_short_row() {
  auto& b = e.b_;
  Value* steps = steps_from(e.i64(0));
  Values all = of_steps(e.i64(0), steps);
  Value* done = after_steps(e.i64(0), steps);
  if (e.natural_lanes_ > 1) {
    Value* singles = b.CreateUDiv(b.CreateSub(length, done), lanes);
    all = if_so(b.CreateICmpNE(singles, e.i64(0)), all, [&](const Values& now) {
      return with(across_lanes(with_vectors(done, singles, {e.varying(nothing())})), now);
    });
    done = b.CreateAdd(done, b.CreateMul(singles, lanes));
  }
  e.lanes_ = 1;
  all = e.accumulate(b.CreateSub(length, done), all, [&](Value* counter, const Values& now) {
    row.back() = e.uniform(b.CreateAdd(done, counter));
    return with(e.eval_whole(operand, {row})[0].base, now);
  });
  e.lanes_ = e.natural_lanes_;
  return all;
}

// A branch for each row rather than a loop of at most one step, which doubled the time of a short row.
Value* Emitter::RowReduction::of_either(const ir::Op& load, const Point& start) {
  auto& b = e.b_;
  auto* long_row = llvm::BasicBlock::Create(e.context_, "long", e.function_);
  auto* short_row = llvm::BasicBlock::Create(e.context_, "short", e.function_);
  auto* end = llvm::BasicBlock::Create(e.context_, "reduced", e.function_);
  b.CreateCondBr(b.CreateICmpSGE(length, e.i64(least_long * e.natural_lanes_)), long_row, short_row);
  std::vector<std::pair<Value*, llvm::BasicBlock*>> results;
  const auto emit = [&](llvm::BasicBlock* block, const std::function<Values()>& reduced) {
    b.SetInsertPoint(block);
    const Scope scope(e.known_);
    Value* result = reduced()[0].base;
    results.emplace_back(result, b.GetInsertBlock());
    b.CreateBr(end);
  };
  emit(long_row, [&] { return of_long_row(elements_before_aligned(load, start)); });
  emit(short_row, [&] { return of_short_row(); });
  b.SetInsertPoint(end);
  llvm::PHINode* result = b.CreatePHI(results[0].first->getType(), 2);
  for (const auto& [value, block] : results) result->addIncoming(value, block);
  return result;
}

Emitter::Lanes Emitter::RowReduction::run() {
  e.lanes_ = e.natural_lanes_;
  Point start;
  const ir::Op* load = e.natural_lanes_ > 1 ? load_along(start) : nullptr;
  Value* all = load ? of_either(*load, start) : of_short_row()[0].base;
  e.lanes_ = 1;
  return e.uniform(in_blocks ? e.b_.CreateFPCast(all, e.math_.element_type(type)) : all);
}

Emitter::Lanes Emitter::reduced_row(Id id, const Point& first, Value* length) {
  return RowReduction(*this, id, first, length).run();
}

}  // namespace tessera::compile::cpu
