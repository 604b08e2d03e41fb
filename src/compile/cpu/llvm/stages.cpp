#include "compile/cpu/llvm/emitter.hpp"
#include "compile/cpu/llvm/scope.hpp"
#include "compile/cpu/llvm/stage.hpp"

#include <algorithm>

namespace tessera::compile::cpu {

using ir::Code;
using ir::Id;
using llvm::Value;

namespace {

bool is_constant_one(const Value* value) {
  const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(value);
  return constant && constant->isOne();
}

}  // namespace

// Whether a stage of its own materialises a value. The results of a loop of stages stay where the loop left them.
bool Emitter::is_own_stage(Id id) const {
  const ir::Op& op = program_[id];
  return is_materialised(id) &&
         (op.code != Code::result || analysis_.is_inline_loop[static_cast<std::size_t>(op.operands[0])]);
}

// The loads that one stage can materialise together with this one: of the same buffer, at as many points.
std::vector<Id> Emitter::loads_along_with(Id id) const {
  const ir::Op& op = program_[id];
  const auto goes_along = [&](Id other) {
    const ir::Op& load = program_[other];
    return load.code == Code::load && load.index == op.index && load.shape == op.shape && is_own_stage(other) &&
           std::ranges::all_of(load.operands, [&](Id index) { return is_coordinate(program_, index); });
  };
  std::vector<Id> found;
  if (!goes_along(id)) return found;
  for (Id other : program_.regions[static_cast<std::size_t>(op.region)].ops) {
    if (other > id && analysis_.is_live[static_cast<std::size_t>(other)] && goes_along(other)) found.push_back(other);
  }
  return found;
}

std::vector<std::vector<Id>> Emitter::stages_of(int region) const {
  std::vector<std::vector<Id>> stages;
  std::vector<Id> done;
  for (Id id : program_.regions[static_cast<std::size_t>(region)].ops) {
    const auto at = static_cast<std::size_t>(id);
    if (!analysis_.is_live[at] || std::ranges::find(done, id) != done.end()) continue;
    const bool is_loop = program_[id].code == Code::loop && !analysis_.is_inline_loop[at];
    if (!is_loop && !is_own_stage(id)) continue;
    stages.push_back({id});
    if (is_loop) continue;
    const std::vector<Id> others = loads_along_with(id);
    stages.back().insert(stages.back().end(), others.begin(), others.end());
    done.insert(done.end(), others.begin(), others.end());
  }
  return stages;
}

void Emitter::emit_region(int region) {
  for (const std::vector<Id>& stage : stages_of(region)) {
    if (program_[stage[0]].code == Code::loop) {
      emit_loop_stage(stage[0]);
    } else {
      emit_materialised(stage[0], {stage.begin() + 1, stage.end()});
    }
  }
}

bool Emitter::has_stages() const {
  return std::ranges::find(analysis_.is_materialised, true) != analysis_.is_materialised.end();
}

// Two if a point is a sum of products over the rows around it, as in a blur: neighbouring rows share most of their
// loads. The vertical half of a 7 by 7 blur took 12 % less time; four rows took as long as two. With three rows of 16
// bits too little is shared.
int Emitter::rows_for(Id root) const {
  constexpr int many_bytes = 3, many = 5;
  std::vector<bool> seen(program_.ops.size());
  std::vector<Id> open = {root};
  while (!open.empty()) {
    const Id id = open.back();
    open.pop_back();
    if (seen[static_cast<std::size_t>(id)] || (id != root && is_materialised(id))) continue;
    seen[static_cast<std::size_t>(id)] = true;
    const std::vector<Id> operands = operands_of(id);
    std::map<std::vector<Id>, int> along_columns;  // by what is read, and the index along the row
    const bool is_of_bytes = !widths().byte_sum(id).terms.empty();
    const bool is_sum = is_of_bytes || !widths().product_sum(id).terms.empty();
    for (Id operand : is_sum ? operands : std::vector<Id>{}) {
      const ir::Op& op = program_[operand];
      const bool is_read = op.code == Code::load || op.code == Code::pick;
      if (op.shape.size() < 2 || (op.code != Code::slice && !is_read)) continue;
      const Id column = is_read ? ir::indices_of(op).back() : op.operands.back();
      const Id source = op.code == Code::load ? op.index : op.operands[0];
      if (++along_columns[{source, column}] >= (is_of_bytes ? many_bytes : many)) return 2;
    }
    open.insert(open.end(), operands.begin(), operands.end());
  }
  return 1;
}

void Emitter::emit_materialised(Id id, const std::vector<Id>& others) {
  const ir::Op& op = program_[id];
  const bool has_byte_sum = analysis_.has_byte_sum(id);
  use_lanes(analysis_.lane_bits_of(id), has_byte_sum ? 8 : scratch_bits(id));
  const Scope scope(known_);
  if (is_reduction(op.code) && op.code != Code::argmax && op.axis + 1 == static_cast<int>(op.shape.size())) {
    emit_row_reduction(id);
    return;
  }
  Stage stage;
  stage.root = id;
  stage.others = others;
  stage.vectors = is_reduction(op.code) ? 4 : others.empty() ? 2 : 1;
  stage.can_repeat = true;
  stage.rows = rows_for(id);
  if (stage.rows > 1 || (are_lanes_doubled_ && !is_reduction(op.code))) stage.vectors = 1;
  stage.compute = [&, id](const Points& points) { return compute_anew(id, points); };
  stage.keep = [&, id](const Point& point, const Lanes& value) { to_scratch(id, point, value); };
  const auto keep_all = [&, id](const Points& points) {
    // All loads come before the first store: LLVM could not move them across it.
    std::vector<Id> all = {id};
    all.insert(all.end(), others.begin(), others.end());
    std::vector<Values> values;
    values.reserve(all.size());
    for (Id value : all) values.push_back(compute_anew(value, points));
    for (std::size_t v = 0; v < all.size(); ++v) {
      for (std::size_t i = 0; i < points.size(); ++i) to_scratch(all[v], points[i], values[v][i]);
    }
  };
  if (!others.empty()) stage.body = keep_all;
  const std::vector<Value*> extents = extents_of(id);
  if (extents.size() >= 2 && is_constant_one(extents.back())) {
    stage.channels = stage.rows = 1;
    row_from_end_ = 2;
  }
  emit_nest(extents, stage);
  row_from_end_ = 1;
}

Emitter::Values Emitter::compute_anew(Id id, const Points& points) {
  const Id before = std::exchange(computing_, id);
  Values values = compute(id, points);
  computing_ = before;
  return values;
}

void Emitter::emit_row_reduction(Id id) {
  std::vector<Value*> extents = extents_of(program_[id].operands[0]);
  Value* length = std::exchange(extents.back(), i64(1));
  Stage stage;
  stage.root = ir::none;
  stage.body = [&, id](const Points& points) { to_scratch(id, points[0], reduced_row(id, points[0], length)); };
  emit_nest(extents, stage);
}

// A loop whose carried values are read at other points: its body is a region of stages.
void Emitter::emit_loop_stage(Id id) {
  const ir::Op& loop = program_[id];
  use_lanes(analysis_.lane_bits, ir::bits_of(program_.buffers[0].type));
  const ir::Region& region = program_.regions[static_cast<std::size_t>(loop.index)];
  const std::size_t carried = region.results.size();
  const auto fill = [&](Id from, Id as, Value* to) {
    const Scope scope(known_);
    Stage stage;
    stage.root = from;
    stage.body = [&](const Points& points) {
      const Values values = eval_whole(from, points);
      for (std::size_t i = 0; i < points.size(); ++i) {
        const Lanes offset = offset_of({points[i].data(), points[i].size()}, scratch_extents(as));
        store_at(to, program_[as].type, offset, values[i], false);
      }
    };
    emit_nest(extents_of(as), stage);
  };
  std::vector<Value*> now, next;
  for (std::size_t j = 0; j < carried; ++j) {
    const Id argument = region.arguments[j + 1];
    now.push_back(scratch_of_.at(argument));
    next.push_back(spare_of_.at(argument));
    fill(loop.operands[j + 1], argument, now[j]);
  }
  Value* count = scalar(loop.operands[0]);

  llvm::BasicBlock* before = b_.GetInsertBlock();
  auto* head = llvm::BasicBlock::Create(context_, "loop", function_);
  auto* body = llvm::BasicBlock::Create(context_, "loop.body", function_);
  auto* end = llvm::BasicBlock::Create(context_, "loop.end", function_);
  b_.CreateBr(head);
  b_.SetInsertPoint(head);
  llvm::PHINode* counter = b_.CreatePHI(b_.getInt64Ty(), 2);
  counter->addIncoming(i64(0), before);
  std::vector<llvm::PHINode*> current, spare;
  for (std::size_t j = 0; j < carried; ++j) {
    current.push_back(b_.CreatePHI(b_.getPtrTy(), 2));
    spare.push_back(b_.CreatePHI(b_.getPtrTy(), 2));
    current[j]->addIncoming(now[j], before);
    spare[j]->addIncoming(next[j], before);
    scratch_of_[region.arguments[j + 1]] = current[j];
  }
  b_.CreateCondBr(b_.CreateICmpSLT(counter, count), body, end);
  b_.SetInsertPoint(body);
  {
    const Scope scope(known_);
    known_insert(region.arguments[0], Point{}, uniform(counter));
    emit_region(loop.index);
    for (std::size_t j = 0; j < carried; ++j) fill(region.results[j], region.arguments[j + 1], spare[j]);
  }
  counter->addIncoming(b_.CreateAdd(counter, i64(1)), b_.GetInsertBlock());
  for (std::size_t j = 0; j < carried; ++j) {
    current[j]->addIncoming(spare[j], b_.GetInsertBlock());
    spare[j]->addIncoming(current[j], b_.GetInsertBlock());
  }
  b_.CreateBr(head);
  b_.SetInsertPoint(end);
  for (std::size_t result = 0; result < program_.ops.size(); ++result) {
    const ir::Op& op = program_.ops[result];
    if (op.code != Code::result || op.operands[0] != id) continue;
    scratch_of_[static_cast<Id>(result)] = current[static_cast<std::size_t>(op.index)];
  }
}

}  // namespace tessera::compile::cpu
