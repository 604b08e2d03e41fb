// Reductions along the last axis.
#include "compile/llvm/emitter.hpp"

namespace tessera::compile {

using ir::Code;
using ir::Id;
using llvm::Value;

// A row is, in this order: the part of a vector up to where vectors are aligned, steps of several vectors abreast,
// single vectors, and the part of a vector that is left. The parts are whole vectors too, the first and the last of the
// row, of which the lanes that belong to others are hidden. Rows of less than a vector are done element by element.
//
// Vectors that lie across two cache lines take twice the time: rows of 1000 floats were read at 87 GB/s on a core with
// vectors of 64 bytes, and are at 130.
struct Emitter::RowReduction {
  static constexpr int abreast = 4;
  // Shorter rows, in vectors, are not worth the part before them.
  static constexpr std::int64_t least_aligned = 16;

  Emitter& e;
  const ir::Op& op;
  Id operand;
  ir::Type type;
  Point row;
  Value* length;
  Value* lanes;
  Value* identity;

  RowReduction(Emitter& emitter, Id id, const Point& first, Value* of_length)
      : e(emitter),
        op(e.program_[id]),
        operand(op.operands[0]),
        type(e.program_[operand].type),
        row(first),
        length(of_length),
        lanes(e.i64(e.natural_lanes_)),
        identity(e.identity_of(op)) {}

  Value* combined(Value* a, Value* b) { return e.combine(op.code, type, a, b); }
  Value* across_lanes(const Values& sums) {
    Value* sum = sums[0].base;
    for (std::size_t i = 1; i < sums.size(); ++i) sum = combined(sums[i].base, sum);
    return e.across_lanes(op.code, type, sum);
  }
  Value* nothing() { return e.vector(e.uniform(identity)); }
  // What becomes of values if a condition holds.
  Values if_so(Value* condition, const Values& values, const std::function<Values(const Values&)>& then) {
    return e.accumulate(e.b_.CreateZExt(condition, e.b_.getInt64Ty()), values,
                        [&](Value*, const Values& now) { return then(now); });
  }

  // The operand's vectors from so many elements on.
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

  // `count` times so many vectors abreast, from the element `from` on, added to what there is.
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

  // The lanes from `first` up to `end` of the vector that begins with the element `begin`.
  Values with_part(Value* begin, Value* first, Value* end, const Values& sums) {
    llvm::IRBuilder<>& b = e.b_;
    const auto in_bytes = [&](Value* value) { return b.CreateTrunc(value, e.like(b.getInt8Ty(), value)); };
    const auto everywhere = [&](Value* value) { return e.vector(e.uniform(in_bytes(value))); };
    Value* lane = in_bytes(e.vector({e.i64(0), e.i64(1), false}));
    Value* is_part = b.CreateAnd(b.CreateICmpUGE(lane, everywhere(first)), b.CreateICmpULT(lane, everywhere(end)));
    Value* part = b.CreateSelect(is_part, vectors_at({{begin}})[0].base, nothing());
    return {e.varying(combined(part, sums[0].base))};
  }

  // How many elements there are before the first aligned vector of what is read; null: that is not known. By its place
  // in the buffer, so that sums are the same wherever that is.
  Value* elements_before_aligned() {
    Id id = operand;
    Point start = row;
    start.back() = e.uniform(e.i64(0));
    while (is_elementwise(e.program_[id].code) && !e.is_materialised(id)) {
      const ir::Op& value = e.program_[id];
      id = value.operands[0];
      start = e.operand_point(value, id, start);
    }
    const ir::Op& load = e.program_[id];
    const int axis = load.code == Code::load ? e.row_axis(load) : -1;
    if (axis < 0 || axis + 1 != e.program_.buffers[static_cast<std::size_t>(load.index)].rank()) return nullptr;
    e.lanes_ = 1;
    Values indices;
    for (Id index : ir::indices_of(load)) indices.push_back(e.eval(index, e.operand_point(load, index, start)));
    Value* place = e.place_of(e.source_of(load), indices).base;
    e.lanes_ = e.natural_lanes_;
    Value* before = e.b_.CreateAnd(e.b_.CreateNeg(place), e.i64(e.natural_lanes_ - 1));
    Value* is_long = e.b_.CreateICmpSGE(length, e.i64(least_aligned * e.natural_lanes_));
    return e.b_.CreateSelect(is_long, before, e.i64(0));
  }

  Lanes run();
};

Emitter::Lanes Emitter::RowReduction::run() {
  llvm::IRBuilder<>& b = e.b_;
  e.lanes_ = e.natural_lanes_;
  const bool has_vectors = e.natural_lanes_ > 1;
  Value* head = has_vectors ? elements_before_aligned() : nullptr;
  Value* begin = head ? head : e.i64(0);
  const std::int64_t step = std::int64_t{abreast} * e.natural_lanes_;
  Value* steps = b.CreateUDiv(b.CreateSub(length, begin), e.i64(step));
  const auto of_steps = [&](Value* first, Value* count) {
    const Values none(abreast, e.varying(nothing()));
    Value* from = b.CreateAdd(begin, b.CreateMul(first, e.i64(step)));
    return Values{e.uniform(across_lanes(with_vectors(from, count, none)))};
  };
  const bool in_blocks = e.is_in_blocks(op, steps);
  const auto add = [&](Value* next, const Values& now) {
    return Values{e.uniform(combined(in_blocks ? e.total_of(next) : next, now[0].base))};
  };
  Values all = in_blocks ? e.sum_of_blocks(steps, {e.uniform(identity)}, of_steps) : of_steps(e.i64(0), steps);
  Value* done = b.CreateAdd(begin, b.CreateMul(steps, e.i64(step)));
  if (has_vectors) {
    Value* singles = b.CreateUDiv(b.CreateSub(length, done), lanes);
    Value* end = b.CreateAdd(done, b.CreateMul(singles, lanes));
    Value* has_head = b.CreateICmpNE(begin, e.i64(0));
    Value* has_tail = b.CreateAnd(b.CreateICmpNE(length, end), b.CreateICmpSGE(length, lanes));
    Value* has_rest = b.CreateOr(b.CreateOr(b.CreateICmpNE(singles, e.i64(0)), has_tail), has_head);
    all = if_so(has_rest, all, [&](const Values& now) {
      Values rest = with_vectors(done, singles, {e.varying(nothing())});
      if (head) rest = if_so(has_head, rest, [&](const Values& r) { return with_part(e.i64(0), e.i64(0), begin, r); });
      rest = if_so(has_tail, rest, [&](const Values& r) {
        Value* last = b.CreateSub(length, lanes);
        return with_part(last, b.CreateSub(end, last), lanes, r);
      });
      return add(across_lanes(rest), now);
    });
    done = b.CreateSelect(has_tail, length, end);
  }
  e.lanes_ = 1;
  all = e.accumulate(b.CreateSub(length, done), all, [&](Value* counter, const Values& now) {
    row.back() = e.uniform(b.CreateAdd(done, counter));
    return add(e.eval_whole(operand, {row})[0].base, now);
  });
  if (in_blocks) all[0].base = b.CreateFPCast(all[0].base, e.element_type(type));
  return all[0];
}

Emitter::Lanes Emitter::reduced_row(Id id, const Point& first, Value* length) {
  return RowReduction(*this, id, first, length).run();
}

}  // namespace tessera::compile
