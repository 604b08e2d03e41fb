#include "compile/cpu/llvm/emitter.hpp"
#include "compile/cpu/llvm/scope.hpp"
#include "compile/cpu/llvm/stage.hpp"
#include "ir/analysis.hpp"

#include <algorithm>
#include <bit>
#include <llvm/Analysis/VectorUtils.h>

namespace tessera::compile {

using ir::Code;
using ir::Id;
using llvm::Value;

namespace {

bool is_constant_one(const Value* value) {
  const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(value);
  return constant && constant->isOne();
}

}  // namespace

Emitter::Emitter(llvm::Module& module, const ir::Program& program, const Tiling& tiling, const Host& host)
    : module_(module),
      context_(module.getContext()),
      program_(program),
      tiling_(tiling),
      host_(host),
      analysis_(program, tiling, multiplies_bytes(), host.has_vbmi),
      b_(context_, llvm::TargetFolder(module.getDataLayout())) {
  use_lanes(analysis_.lane_bits, ir::bits_of(program_.buffers[0].type));
}

// Stages of fewer bits have more lanes. What is stored, or multiplied, may have fewer bits than it is computed in.
void Emitter::use_lanes(int bits, int narrowest) {
  natural_lanes_ = std::max(1, static_cast<int>(host_.vector_bits) / bits);
  // u8 that are computed in more bits: two vectors at a time, which become one again when they are stored.
  are_lanes_doubled_ = narrowest == 8 && (bits == 16 || bits == 32);
  if (are_lanes_doubled_) natural_lanes_ *= 2;
  // Each lane that reads for itself is code of its own: a table for 64 bytes took 34 ms to compile, and is no faster.
  constexpr int most_gathered = 16;
  if (analysis_.has_gather && natural_lanes_ > most_gathered) {
    natural_lanes_ = most_gathered;
    are_lanes_doubled_ = false;
  }
}

// Stores past the caches need whole aligned vectors, and loops that are bound by memory.
bool Emitter::can_stream() const {
  constexpr int smallest_vector = 16;
  constexpr int largest_cost = 64;
  const int bytes = natural_lanes_ * ir::bits_of(program_.buffers[0].type) / 8;
  return bytes >= smallest_vector && analysis_.cost <= largest_cost && !has_stages() && program_.regions.size() == 1 &&
         program_.buffers[0].rank() > 0 && channels_of_pixels() == 0;
}

void Emitter::emit(Form form) {
  if (form == Form::streaming) {
    emit_kernel("kernel_streaming", true);
    return;
  }
  emit_scratch_function();
  emit_kernel("kernel", false);
  if (can_stream()) llvm::GlobalAlias::create("kernel_can_stream", function_);
}

void Emitter::begin_function(llvm::Function* function) {
  function_ = function;
  buffers_.clear();
  dims_.clear();
  scratch_of_.clear();
  origins_.clear();
  blocks_.clear();
  tile_dims_.clear();
  next_origins_.clear();
  first_loads_.clear();
  known_.clear();
  known_.emplace_back();
  safe_loads_.clear();
  safe_places_.clear();
  prefetches_.clear();
  lanes_ = 1;
  function->addFnAttr(llvm::Attribute::NoUnwind);
  b_.SetInsertPoint(llvm::BasicBlock::Create(context_, "entry", function));
}

void Emitter::load_dims(Value* dims) {
  std::uint64_t next = 0;
  for (const ir::Buffer& buffer : program_.buffers) {
    dims_.emplace_back();
    for (std::int64_t known : buffer.dims) {
      Value* address = b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), dims, next++);
      dims_.back().push_back(known >= 0 ? i64(known) : b_.CreateLoad(b_.getInt64Ty(), address));
    }
  }
}

std::vector<Value*> Emitter::extents_of(Id id) {
  std::vector<Value*> extents;
  for (Id extent : program_[id].shape) extents.push_back(scalar(extent));
  return extents;
}

// Whether a value is materialised by a stage of its own. The results of a loop of stages are where the loop left them.
bool Emitter::is_own_stage(Id id) const {
  const ir::Op& op = program_[id];
  return is_materialised(id) &&
         (op.code != Code::result || analysis_.is_inline_loop[static_cast<std::size_t>(op.operands[0])]);
}

void Emitter::for_each(Value* begin, Value* end, std::int64_t step, const std::function<void(Value*)>& body) {
  if (step == 1 && is_constant_one(end) && begin == i64(0)) {
    const Scope scope(known_);
    body(begin);
    return;
  }
  llvm::BasicBlock* before = b_.GetInsertBlock();
  auto* head = llvm::BasicBlock::Create(context_, "each", function_);
  auto* inside = llvm::BasicBlock::Create(context_, "each.body", function_);
  auto* after = llvm::BasicBlock::Create(context_, "each.end", function_);
  b_.CreateBr(head);
  b_.SetInsertPoint(head);
  llvm::PHINode* at = b_.CreatePHI(b_.getInt64Ty(), 2);
  at->addIncoming(begin, before);
  b_.CreateCondBr(b_.CreateICmpSLT(at, end), inside, after);
  b_.SetInsertPoint(inside);
  {
    const Scope scope(known_);
    body(at);
  }
  at->addIncoming(b_.CreateAdd(at, i64(step)), b_.GetInsertBlock());
  b_.CreateBr(head);
  b_.SetInsertPoint(after);
}

void Emitter::emit_kernel(const char* name, bool streaming) {
  llvm::Type* pointer = b_.getPtrTy();
  llvm::Type* number = b_.getInt64Ty();
  auto* type = llvm::FunctionType::get(b_.getVoidTy(), {pointer, pointer, pointer, pointer, number, number}, false);
  begin_function(llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module_));
  streaming_ = streaming;
  for (unsigned argument = 0; argument < 4; ++argument) function_->addParamAttr(argument, llvm::Attribute::NoAlias);
  for (std::size_t buffer = 0; buffer < program_.buffers.size(); ++buffer) {
    buffers_.push_back(b_.CreateLoad(pointer, b_.CreateConstInBoundsGEP1_64(pointer, function_->getArg(0), buffer)));
  }
  load_dims(function_->getArg(1));
  scalars_ = function_->getArg(2);
  scratch_ = function_->getArg(3);
  for_each(function_->getArg(4), function_->getArg(5), 1, [&](Value* tile) { emit_tile(tile); });
  // What was stored past the caches must be seen by whoever is told that the work is done.
  if (streaming) b_.CreateFence(llvm::AtomicOrdering::SequentiallyConsistent);
  b_.CreateRetVoid();
}

void Emitter::emit_tile(Value* number) {
  const std::size_t rank = tiling_.extents.size();
  origins_.assign(rank, i64(0));
  blocks_.assign(rank, i64(0));
  tile_dims_.assign(rank, i64(1));
  next_origins_.assign(rank, i64(0));
  std::size_t first_cut = 0;
  while (first_cut < rank && tiling_.extents[first_cut] == 0) ++first_cut;
  Value* next = b_.CreateAdd(number, i64(1));
  for (std::size_t axis = rank; axis-- > 0;) {
    const std::int64_t extent = tiling_.extents[axis];
    Value* whole = dim(0, static_cast<int>(axis));
    if (extent == 0) {
      tile_dims_[axis] = whole;
      continue;
    }
    blocks_[axis] = number;
    Value* next_block = next;
    if (axis > first_cut) {
      Value* count = b_.CreateUDiv(b_.CreateAdd(whole, i64(extent - 1)), i64(extent));
      blocks_[axis] = b_.CreateURem(number, count);
      number = b_.CreateUDiv(number, count);
      next_block = b_.CreateURem(next, count);
      next = b_.CreateUDiv(next, count);
    }
    next_origins_[axis] = b_.CreateMul(next_block, i64(extent));
    origins_[axis] = b_.CreateMul(blocks_[axis], i64(extent));
    tile_dims_[axis] = i64(extent);
    if (analysis_.is_clipped[axis] && extent > 1) {
      tile_dims_[axis] =
          b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, b_.CreateSub(whole, origins_[axis]), i64(extent));
    }
  }
  // Scalars are loaded here: in the loops a store could be in their way.
  for (std::size_t id = 0; id < program_.ops.size(); ++id) {
    if (analysis_.is_live[id] && program_.ops[id].code == Code::scalar) scalar(static_cast<Id>(id));
  }
  place_scratch();
  emit_region(0);
  emit_store();
}

// The loads that can be kept for the tile along with one that is: of the same memory, the same points.
std::vector<Id> Emitter::loads_along_with(Id id) const {
  const ir::Op& op = program_[id];
  const auto goes_along = [&](Id other) {
    const ir::Op& load = program_[other];
    return load.code == Code::load && load.index == op.index && load.shape == op.shape && is_own_stage(other) &&
           std::ranges::all_of(load.operands, [&](Id index) { return is_place(program_, index); });
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

int Emitter::vectors_for(int cost) const {
  // Enough to keep the units busy, few enough to keep code and registers small.
  const int vectors = analysis_.has_gather || cost > 24 ? 1 : cost > 8 ? 2 : 4;
  return are_lanes_doubled_ ? std::max(1, vectors / 2) : vectors;
}

// Two where a point is a sum of products over the rows around it, as in a blur: they have most of those in common. The
// vertical half of a blur of 7 by 7 took 12 % less time, four rows took as long as two. Of three rows of 16 bits too
// little is in common.
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
    std::map<std::vector<Id>, int> along_columns;  // by what is read, and where along the row
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

// One operation after the other, and so many that the processor, which looks some 250 ahead, does not see the next
// points early enough: it would wait most of the time for what it has begun. Of 128 multiplications of 4 Mi floats one
// took 165 µs, with four vectors abreast it takes 70, with eight 51.
bool Emitter::is_long_chain() const {
  constexpr int short_enough = 24;
  return !are_lanes_doubled_ && !has_stages() && program_.regions.size() == 1 && analysis_.cost > short_enough &&
         2 * analysis_.cost <= 3 * analysis_.depth;
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
    // All loads before the first store, which could be in their way.
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

// A loop whose values need each other at other points: its body is a region of stages.
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

void Emitter::emit_store() {
  const Id value = program_.stored();
  use_lanes(analysis_.lane_bits_of(value), ir::bits_of(program_.buffers[0].type));
  const std::vector<Id>& shape = program_[value].shape;
  const ir::Type type = program_.buffers[0].type;
  std::vector<Value*> extents;
  for (std::size_t axis = 0; axis < tile_dims_.size(); ++axis) {
    Value* extent = tile_dims_[axis];
    if (!analysis_.is_clipped[axis] && tiling_.extents[axis] != 0) {
      Value* left = b_.CreateSub(dim(0, static_cast<int>(axis)), origins_[axis]);
      extent = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, extent, left);
    }
    extents.push_back(extent);
  }
  const auto offset = [&](const Point& point) {
    Values indices;
    for (std::size_t axis = 0; axis < point.size(); ++axis) {
      indices.push_back(add_places(uniform(origins_[axis]), point[axis]));
    }
    return offset_of(indices, dims_[0]);
  };
  Stage stage;
  stage.root = shape.size() == extents.size() ? value : ir::none;
  stage.vectors = vectors_for(analysis_.cost);
  is_chain_ = is_long_chain();
  if (is_chain_) stage.vectors = 8;
  if (stage.root != ir::none) stage.rows = rows_for(value);
  // Of an input that may be the output a point is read once, before it is written.
  stage.can_repeat = !streaming_ && std::ranges::none_of(program_.ops, [&](const ir::Op& op) {
    return op.code == Code::load && ir::reads_in_place(program_, op.index);
  });
  if (analysis_.has_mma) {  // sums for 12 vectors of 16 registers, or 24 of 32
    stage.vectors = 2;
    stage.rows = host_.vector_registers >= 32 ? 12 : 6;
  }
  if (streaming_) {
    stage.alignment = [&](const Point& row) {
      const auto bytes = static_cast<std::int64_t>(natural_lanes_ * ir::bits_of(type) / 8);
      Value* address =
          b_.CreatePtrToInt(b_.CreateInBoundsGEP(memory_type(type), buffers_[0], offset(row).base), b_.getInt64Ty());
      return b_.CreateUDiv(b_.CreateAnd(b_.CreateNeg(address), i64(bytes - 1)), i64(ir::bits_of(type) / 8));
    };
  }
  stage.compute = [&](const Points& points) {
    Points asked;
    for (const Point& point : points) {
      Point at;
      for (std::size_t axis = 0; axis < shape.size(); ++axis) {
        std::int64_t extent = 0;
        const bool is_repeated = ir::is_constant(program_, shape[axis], extent) && extent == 1;
        at.push_back(is_repeated ? uniform(i64(0)) : point[point.size() - shape.size() + axis]);
      }
      asked.push_back(at);
    }
    return eval(value, asked);
  };
  if (const int channels = channels_of_pixels()) {
    // As many as words in a register: a pixel of bytes is one.
    if (type == ir::Type::u8 && channels > 1) natural_lanes_ = static_cast<int>(host_.vector_bits) / 32;
    stage.channels = channels;
    row_from_end_ = 2;
    stage.vectors = stage.rows = 1;
    is_chain_ = false;
    stage.body = [&, compute = stage.compute](const Points& points) {
      Values planes;
      for (const Lanes& plane : compute(points)) planes.push_back(resized(value, plane, ir::bits_of(type)));
      store_pixels(type, offset(points[0]), planes);
    };
  }
  stage.keep = [&](const Point& point, const Lanes& computed) {
    const Lanes at = offset(point);
    store_at(buffers_[0], type, at, resized(value, computed, ir::bits_of(type)), streaming_ && lanes_ > 1);
    Value* ahead = streaming_ ? nullptr : bytes_ahead(0);
    if (ahead) prefetch({buffers_[0], at.base, 0, memory_type(type), ahead, true});
    if (!streaming_ && lanes_ > 1) prefetch_next_tile(point);
  };
  emit_nest(extents, stage);
  row_from_end_ = 1;
}

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
    for (const Point& point : points) safe_places_.push_back(along_row(point));
  }
  stage.run(points);
  emit_prefetches();
  safe_places_.clear();
  lanes_ = 1;
}

// Vectors where all is safe, one by one before and after.
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
  // Too few for a vector: the last one that fits, again over some points, rather than all of them one by one.
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

}  // namespace tessera::compile
