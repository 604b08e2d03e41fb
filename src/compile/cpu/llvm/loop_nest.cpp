// Loops over the points of a stage: outer axes, then rows of vectors.
#include "compile/cpu/llvm/emitter.hpp"
#include "compile/cpu/llvm/scope.hpp"
#include "compile/cpu/llvm/stage.hpp"

#include <algorithm>

namespace tessera::compile::cpu {

using ir::Id;
using llvm::Value;

void Emitter::emit_nest(const std::vector<Value*>& extents, const Stage& stage) {
  if (extents.empty()) {
    const Scope scope(known_);
    stage.run({Point{}});
    return;
  }
  Point outer;
  emit_axis(extents, stage, outer);
}

void Emitter::emit_axis(const std::vector<Value*>& extents, const Stage& stage, const Point& outer) {
  const std::size_t axis = outer.size();
  const auto row_at = [&](Value* at) {
    Point row = outer;
    row.push_back(uniform(at));
    return row;
  };
  if (axis + (stage.channels == 0 ? 1 : 2) == extents.size()) {
    emit_row(extents[axis], stage, {outer});
  } else if (axis + 2 == extents.size() && stage.rows > 1) {
    Value* whole = b_.CreateMul(b_.CreateUDiv(extents[axis], i64(stage.rows)), i64(stage.rows));
    for_each(i64(0), whole, stage.rows, [&](Value* at) {
      Points rows;
      for (int r = 0; r < stage.rows; ++r) rows.push_back(row_at(b_.CreateAdd(at, i64(r))));
      emit_row(extents.back(), stage, rows);
    });
    for_each(whole, extents[axis], 1, [&](Value* at) { emit_row(extents.back(), stage, {row_at(at)}); });
  } else {
    for_each(i64(0), extents[axis], 1, [&](Value* at) { emit_axis(extents, stage, row_at(at)); });
  }
}

void Emitter::emit_row_body(const Stage& stage, const Points& rows, Value* j, int lanes, int vectors) {
  const Scope scope(known_);
  lanes_ = lanes;
  body_block_ = b_.GetInsertBlock();
  Points points;
  for (const Point& row : rows) {
    for (int u = 0; u < vectors; ++u) {
      Point point = row;
      point.push_back({u == 0 ? j : b_.CreateAdd(j, i64(static_cast<std::int64_t>(u) * lanes)),
                       lanes > 1 ? i64(1) : nullptr, false});
      if (stage.channels == 0) points.push_back(point);
      for (int channel = 0; channel < stage.channels; ++channel) {
        points.push_back(point);
        points.back().push_back(uniform(i64(channel)));
      }
    }
  }
  if (lanes > 1) {
    for (const Point& point : points) safe_indices_.push_back(along_row(point));
  }
  stage.run(points);
  emit_prefetches();
  safe_indices_.clear();
  lanes_ = 1;
}

// Vectors where all loads are inside, single elements before and after.
void Emitter::emit_row(Value* extent, const Stage& stage, const Points& rows) {
  const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(extent);
  if (constant && constant->isOne()) {
    emit_row_body(stage, rows, i64(0), 1, 1);
    return;
  }
  if (natural_lanes_ == 1 || (constant && constant->getSExtValue() < natural_lanes_)) {
    for_each(i64(0), extent, 1, [&](Value* j) { emit_row_body(stage, rows, j, 1, 1); });
    return;
  }
  const auto [begin, end] = safe_range(stage, rows, extent);
  const std::vector<Id> safe = safe_loads_;
  const auto block = [&](const char* name) { return llvm::BasicBlock::Create(context_, name, function_); };
  llvm::BasicBlock *before = b_.GetInsertBlock(), *head = block("row"), *pick = block("row.pick"),
                   *vectors = block("row.vectors"), *one = block("row.one"), *after = block("row.end");
  llvm::BasicBlock* vector = stage.vectors > 1 ? block("row.vector") : nullptr;
  const std::int64_t step = static_cast<std::int64_t>(natural_lanes_) * stage.vectors;
  b_.CreateBr(head);
  b_.SetInsertPoint(head);
  llvm::PHINode* j = b_.CreatePHI(b_.getInt64Ty(), 4);
  j->addIncoming(i64(0), before);
  b_.CreateCondBr(b_.CreateICmpSLT(j, extent), pick, after);

  b_.SetInsertPoint(pick);
  Value* at_vector = j;
  // Too few elements for a vector: the last vector that fits, computing some points again, rather than one by one.
  const auto reaches_last = [&, from = begin, to = end] {
    Value* last = b_.CreateSub(to, i64(natural_lanes_));
    at_vector = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, j, last);
    Value* reaches = b_.CreateAnd(b_.CreateICmpSGE(last, from), b_.CreateICmpSLT(j, to));
    return b_.CreateAnd(b_.CreateICmpSGE(j, from), reaches);
  };
  const auto fits = [&, from = begin, to = end](std::int64_t elements) {
    return b_.CreateAnd(b_.CreateICmpSGE(j, from), b_.CreateICmpSLE(b_.CreateAdd(j, i64(elements)), to));
  };
  if (vector) {
    auto* pick_one = block("row.pick_one");
    b_.CreateCondBr(fits(step), vectors, pick_one);
    b_.SetInsertPoint(pick_one);
    b_.CreateCondBr(stage.can_repeat ? reaches_last() : fits(natural_lanes_), vector, one);
  } else {
    b_.CreateCondBr(stage.can_repeat ? reaches_last() : fits(step), vectors, one);
  }

  b_.SetInsertPoint(vectors);
  llvm::PHINode* at = b_.CreatePHI(b_.getInt64Ty(), 2);
  at->addIncoming(vector ? j : at_vector, pick);
  safe_loads_ = safe;
  emit_row_body(stage, rows, at, natural_lanes_, stage.vectors);
  Value* next = b_.CreateAdd(at, i64(step));
  at->addIncoming(next, b_.GetInsertBlock());
  j->addIncoming(next, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpSLE(b_.CreateAdd(next, i64(step)), end), vectors, head);

  if (vector) {
    b_.SetInsertPoint(vector);
    safe_loads_ = safe;
    emit_row_body(stage, rows, at_vector, natural_lanes_, 1);
    j->addIncoming(b_.CreateAdd(at_vector, i64(natural_lanes_)), b_.GetInsertBlock());
    b_.CreateBr(head);
  }
  b_.SetInsertPoint(one);
  safe_loads_.clear();
  emit_row_body(stage, rows, j, 1, 1);
  j->addIncoming(b_.CreateAdd(j, i64(1)), b_.GetInsertBlock());
  b_.CreateBr(head);
  b_.SetInsertPoint(after);
}

}  // namespace tessera::compile::cpu
