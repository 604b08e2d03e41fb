#include "compile/cpu/llvm/emitter.hpp"
#include "compile/cpu/llvm/scope.hpp"

#include <algorithm>

namespace tessera::compile::cpu {

using ir::Border;
using ir::Code;
using ir::Id;
using llvm::Value;

namespace {

bool is_one(const Value* value) {
  const auto* constant = llvm::dyn_cast_or_null<llvm::ConstantInt>(value);
  return constant && constant->isOne();
}

}  // namespace

Emitter::Source Emitter::source_of(const ir::Op& op) {
  if (op.code == Code::load) {
    const auto buffer = static_cast<std::size_t>(op.index);
    return {buffers_[buffer], math_.memory_type(op.type), dims_[buffer], dims_[buffer], {}};
  }
  const Id value = op.operands[0];
  Source source{scratch_of_.at(value), scratch_type(value), {}, scratch_extents(value), {}};
  for (Id extent : ir::extents_of(op)) source.extents.push_back(scalar(extent));
  for (Id start : ir::starts_of(op)) source.starts.push_back(scalar(start));
  return source;
}

Emitter::Lanes Emitter::element_offset(const Source& source, std::span<const Lanes> indices) {
  Values from_start(indices.begin(), indices.end());
  for (std::size_t axis = 0; axis < source.starts.size(); ++axis) {
    from_start[axis] = add_indices(from_start[axis], uniform(b_.CreateNeg(source.starts[axis])));
  }
  return offset_of(from_start, source.present);
}

Emitter::Lanes Emitter::offset_of(std::span<const Lanes> indices, std::span<Value* const> extents) {
  Lanes offset = uniform(i64(0));
  for (std::size_t axis = 0; axis < indices.size(); ++axis) {
    if (axis > 0) offset = mul_indices(offset, uniform(extents[axis]));
    offset = add_indices(offset, indices[axis]);
  }
  return offset;
}

// The indices of a load at a point, as far as they can be checked for all lanes together.
struct Emitter::CheckedIndices {
  Values given;
  Values indices;              // moved inside along the axes that were checked
  Value* is_inside = nullptr;  // along the axes that all lanes share; null: always
  int along = -1;              // the axis that the lanes lie along
  bool is_safe = false;        // the whole vector is inside along that axis
  bool is_row = false;         // the lanes are neighbours along it, and may cross the border
  bool by_lane = false;        // each lane may cross a border in its own way
};

Emitter::CheckedIndices Emitter::checked_indices(Id id, const Source& source, const Point& point) {
  const ir::Op& op = program_[id];
  const std::span<const Id> operands = ir::indices_of(op);
  CheckedIndices checked;
  checked.is_safe = std::ranges::find(safe_loads_, id) != safe_loads_.end() &&
                    std::ranges::find(safe_indices_, along_row(point)) != safe_indices_.end();
  checked.along = point.empty() ? -1 : row_axis(op);
  for (const Id operand : operands) checked.given.push_back(eval(operand, operand_point(op, operand, point)));
  checked.indices = checked.given;
  for (std::size_t axis = 0; axis < operands.size(); ++axis) {
    const bool is_along = static_cast<int>(axis) == checked.along;
    if ((is_along && checked.is_safe) || is_inside(op, axis)) continue;
    Lanes& index = checked.indices[axis];
    if (index.is_uniform()) {
      Value* is_here = nullptr;
      index.base = inside_border(op, source, axis, index.base, is_here);
      if (is_here) checked.is_inside = checked.is_inside ? b_.CreateAnd(checked.is_inside, is_here) : is_here;
    } else if (is_along && !index.is_vector && is_one(index.stride)) {
      checked.is_row = true;
    } else if (op.code == Code::load && op.border == Border::clamp && index.is_vector &&
               (op.list.empty() || op.list[axis] == 1)) {
      Value* last = b_.CreateSub(source.extents[axis], i64(1));
      Value* below = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, index.base, vector(uniform(last)));
      index.base = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, below, vector(uniform(i64(0))));
    } else {
      checked.by_lane = true;
    }
  }
  return checked;
}

// Loads at indices that are inside along all axes but those that `is_inside` is about.
Emitter::Lanes Emitter::load_checked(Id id, const Source& source, const Point& point, const CheckedIndices& checked) {
  const ir::Op& op = program_[id];
  // A row is loaded in a branch, where other channels could not use what was gathered.
  Value* gathered = checked.is_row ? nullptr : gathered_channel(id, point, source, checked.indices);
  Lanes value = varying(gathered);
  if (!gathered) {
    const Lanes offset = element_offset(source, checked.indices);
    const Group group = group_of(op, checked.indices, offset, checked.is_safe);
    if (bytes_ahead(op)) note_first_load(op, group.step);
    value = group.step > 1 ? load_group(op, source, offset, group)
                           : load_from(source.base, source.element, offset, bytes_ahead(op));
  }
  if (!checked.is_inside) return value;
  value.base = b_.CreateSelect(checked.is_inside, value.base, llvm::Constant::getNullValue(value.base->getType()));
  return value;
}

Emitter::Lanes Emitter::loaded(Id id, const Point& point) {
  const ir::Op& op = program_[id];
  if (host_.has_vbmi && lanes_ > 1 && lanes_ <= 64 && is_byte_table(program_, op)) return varying(looked_up(op, point));
  const Source source = source_of(op);
  const CheckedIndices checked = checked_indices(id, source, point);
  if (checked.by_lane) return varying(load_lane_by_lane(op, source, checked.given));
  if (!checked.is_row) return load_checked(id, source, point, checked);

  // One vector if all of it is inside, else lane by lane.
  Value* first = checked.indices[static_cast<std::size_t>(checked.along)].base;
  Value* extent = source.extents[static_cast<std::size_t>(checked.along)];
  Value* is_within =
      b_.CreateAnd(b_.CreateICmpSGE(first, i64(0)), b_.CreateICmpSLE(b_.CreateAdd(first, i64(lanes_)), extent));
  auto* quick = llvm::BasicBlock::Create(context_, "within", function_);
  auto* slow = llvm::BasicBlock::Create(context_, "border", function_);
  auto* end = llvm::BasicBlock::Create(context_, "loaded", function_);
  b_.CreateCondBr(is_within, quick, slow);
  b_.SetInsertPoint(quick);
  Value* whole = load_checked(id, source, point, checked).base;
  quick = b_.GetInsertBlock();
  b_.CreateBr(end);
  b_.SetInsertPoint(slow);
  Value* by_lane = load_lane_by_lane(op, source, checked.given);
  slow = b_.GetInsertBlock();
  b_.CreateBr(end);
  b_.SetInsertPoint(end);
  llvm::PHINode* value = b_.CreatePHI(whole->getType(), 2);
  value->addIncoming(whole, quick);
  value->addIncoming(by_lane, slow);
  return varying(value);
}

// Whether an index is always inside, by how it is computed or by its range: a byte always is in a table of 256.
bool Emitter::is_inside(const ir::Op& op, std::size_t axis) const {
  if (compile::is_inside(program_, op, axis, analysis_.is_clipped)) return true;
  if (op.code != Code::load) return false;
  const Range& range = widths().range(ir::indices_of(op)[axis]);
  return range.low >= 0 && range.high < program_.buffers[static_cast<std::size_t>(op.index)].dims[axis];
}

// The index to read instead of one that may be outside. With a zero border `is_inside` is set, and an index outside
// reads where the source begins; for a part of a buffer that may be far from the buffer's beginning.
Value* Emitter::inside_border(const ir::Op& op, const Source& source, std::size_t axis, Value* index,
                              Value*& is_inside) {
  Value* extent = source.extents[axis];
  const std::int64_t step = op.list.empty() ? 1 : op.list[axis];
  const auto below = [&](Value* a, Value* n) {  // a mod n, not negative
    const auto* number = llvm::dyn_cast<llvm::ConstantInt>(n);
    if (number && number->getValue().isPowerOf2()) return b_.CreateAnd(a, b_.CreateSub(n, i64(1)));
    Value* rest = b_.CreateSRem(a, n);
    return b_.CreateSelect(b_.CreateICmpSLT(rest, i64(0)), b_.CreateAdd(rest, n), rest);
  };
  Value* within = nullptr;  // the group
  if (step > 1) {
    within = below(index, i64(step));
    index = b_.CreateExactSDiv(b_.CreateSub(index, within), i64(step));
    extent = b_.CreateSDiv(extent, i64(step));
  }
  Value* last = b_.CreateSub(extent, i64(1));
  switch (op.border) {
    case Border::zero:
      is_inside = b_.CreateICmpULT(index, extent);
      break;
    case Border::clamp:
      index = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, index, last);
      index = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, index, i64(0));
      break;
    case Border::reflect: {
      Value* period = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, b_.CreateShl(last, i64(1)), i64(1));
      Value* rest = below(index, period);
      index = b_.CreateSelect(b_.CreateICmpSGT(rest, last), b_.CreateSub(period, rest), rest);
      index = b_.CreateSelect(b_.CreateICmpSLT(last, i64(1)), i64(0), index);
      break;
    }
    case Border::symmetric: {
      Value* period = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, b_.CreateShl(extent, i64(1)), i64(1));
      Value* rest = below(index, period);
      index = b_.CreateSelect(b_.CreateICmpSGT(rest, last), b_.CreateSub(b_.CreateSub(period, i64(1)), rest), rest);
      break;
    }
    case Border::wrap:
      index = below(index, b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, extent, i64(1)));
      break;
  }
  if (within) index = b_.CreateAdd(b_.CreateMul(index, i64(step)), within);
  if (!is_inside) return index;
  return b_.CreateSelect(is_inside, index, source.starts.empty() ? i64(0) : source.starts[axis]);
}

Value* Emitter::load_scalar_checked(const ir::Op& op, const Source& source, std::span<Value* const> indices) {
  Values inside_indices;
  Value* inside = nullptr;
  for (std::size_t axis = 0; axis < indices.size(); ++axis) {
    Value* index = indices[axis];
    if (!this->is_inside(op, axis)) {
      Value* is_inside = nullptr;
      index = inside_border(op, source, axis, index, is_inside);
      if (is_inside) inside = inside ? b_.CreateAnd(inside, is_inside) : is_inside;
    }
    inside_indices.push_back(uniform(index));
  }
  Value* value = load_from(source.base, source.element, element_offset(source, inside_indices)).base;
  return inside ? b_.CreateSelect(inside, value, llvm::Constant::getNullValue(value->getType())) : value;
}

// A loop over the lanes: little code for the rare case at borders, and for gathers across them.
Value* Emitter::load_lane_by_lane(const ir::Op& op, const Source& source, const Values& indices) {
  llvm::Type* element = source.element;
  auto* vector_type = llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes_));
  Value* value = accumulate(i64(lanes_), {{llvm::PoisonValue::get(vector_type), nullptr, true}},
                            [&](Value* lane, const Values& now) {
                              llvm::SmallVector<Value*, 4> at_lane;
                              for (const Lanes& index : indices) {
                                if (index.is_vector) {
                                  at_lane.push_back(b_.CreateExtractElement(index.base, lane));
                                } else if (index.stride) {
                                  at_lane.push_back(b_.CreateAdd(index.base, b_.CreateMul(index.stride, lane)));
                                } else {
                                  at_lane.push_back(index.base);
                                }
                              }
                              Value* one = load_scalar_checked(op, source, {at_lane.data(), at_lane.size()});
                              return Values{{b_.CreateInsertElement(now[0].base, one, lane), nullptr, true}};
                            })[0]
                     .base;
  return value;
}

// Without the constant that is added to it, the index may be outside of the buffer.
Value* Emitter::element_at(llvm::Type* element, Value* base, Value* index) {
  const auto [start, number] = without_number(index);
  if (number == 0) return b_.CreateInBoundsGEP(element, base, start);
  return b_.CreateGEP(element, b_.CreateGEP(element, base, start), i64(number));
}

Emitter::Lanes Emitter::load_from(Value* base, llvm::Type* element, const Lanes& offset, Value* ahead) {
  const llvm::Align align = align_of(element);
  if (offset.is_uniform()) {
    Value* address = element_at(element, base, offset.base);
    return uniform(b_.CreateAlignedLoad(element, address, align));
  }
  auto* of = llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes_));
  if (!offset.is_vector && is_one(offset.stride)) {
    Value* address = element_at(element, base, offset.base);
    if (ahead) prefetch({base, offset.base, 0, element, ahead, false});
    return varying(b_.CreateAlignedLoad(of, address, align));
  }
  Value* value = llvm::PoisonValue::get(of);
  Value* step = offset.base;
  for (int lane = 0; lane < lanes_; ++lane) {
    Value* at = step;
    if (offset.is_vector) {
      at = b_.CreateExtractElement(offset.base, static_cast<std::uint64_t>(lane));
    } else {
      step = b_.CreateAdd(step, offset.stride);
    }
    Value* one = b_.CreateAlignedLoad(element, b_.CreateInBoundsGEP(element, base, at), align);
    value = b_.CreateInsertElement(value, one, static_cast<std::uint64_t>(lane));
  }
  return varying(value);
}

int Emitter::scratch_bits(Id id) const {
  const int bits = widths().bits[static_cast<std::size_t>(id)];
  // A value that a loop carries is stored even if nothing uses it.
  if (!widths().is_narrow(id) || bits == 0) return ir::bits_of(program_[id].type);
  // In memory a number may have fewer bits than it is computed in: the pixels between two filters are bytes.
  return std::min(bits, bits_for(widths().range(id)));
}

llvm::Type* Emitter::scratch_type(Id id) {
  return widths().is_narrow(id) ? b_.getIntNTy(static_cast<unsigned>(scratch_bits(id)))
                                : math_.memory_type(program_[id].type);
}

Emitter::Lanes Emitter::from_scratch(Id id, const Point& point) {
  const ir::Type type = program_[id].type;
  const std::vector<Value*> extents = scratch_extents(id);
  Lanes value = load_from(scratch_of_.at(id), scratch_type(id), offset_of({point.data(), point.size()}, extents));
  value.base = math_.from_memory(type, value.base);
  return value;
}

void Emitter::to_scratch(Id id, const Point& point, const Lanes& value) {
  const std::vector<Value*> extents = scratch_extents(id);
  const Lanes offset = offset_of({point.data(), point.size()}, extents);
  store_at(scratch_of_.at(id), program_[id].type, offset, resized(id, value, scratch_bits(id)), false);
}

void Emitter::store_at(Value* base, ir::Type type, const Lanes& offset, const Lanes& value, bool streaming) {
  Value* stored = math_.to_memory(type, offset.is_uniform() ? value.base : vector(value));
  llvm::Type* element = stored->getType()->getScalarType();
  Value* address = element_at(element, base, offset.base);
  const bool is_past_caches = streaming && !offset.is_uniform();
  const llvm::Align align = align_of(element);
  const auto bytes = static_cast<std::uint64_t>(lanes_) * align.value();
  llvm::StoreInst* store = b_.CreateAlignedStore(stored, address, is_past_caches ? llvm::Align(bytes) : align);
  if (!is_past_caches) return;
  store->setMetadata(llvm::LLVMContext::MD_nontemporal,
                     llvm::MDNode::get(context_, llvm::ConstantAsMetadata::get(b_.getInt32(1))));
}

}  // namespace tessera::compile::cpu
