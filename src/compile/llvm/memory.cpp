#include "compile/llvm/emitter.hpp"
#include "compile/llvm/scope.hpp"

#include <algorithm>

namespace tessera::compile {

using ir::Border;
using ir::Code;
using ir::Id;
using llvm::Value;

namespace {

bool is_one(const Value* value) {
  const auto* constant = llvm::dyn_cast_or_null<llvm::ConstantInt>(value);
  return constant && constant->isOne();
}

// Strides up to which neighbours are loaded together and picked apart.
constexpr std::int64_t most_in_group = 4;

llvm::Align align_of(ir::Type type) { return llvm::Align(static_cast<std::uint64_t>(ir::bits_of(type)) / 8); }

}  // namespace

Emitter::Source Emitter::source_of(const ir::Op& op) {
  if (op.code == Code::load) {
    const auto buffer = static_cast<std::size_t>(op.index);
    return {buffers_[buffer], dims_[buffer], dims_[buffer], {}, true};
  }
  Source source{scratch_of_.at(op.operands[0]), {}, extents_of(op.operands[0]), {}, false};
  for (Id extent : ir::extents_of(op)) source.extents.push_back(scalar(extent));
  for (Id start : ir::starts_of(op)) source.starts.push_back(scalar(start));
  return source;
}

Emitter::Lanes Emitter::place_of(const Source& source, std::span<const Lanes> indices) {
  Values places(indices.begin(), indices.end());
  for (std::size_t axis = 0; axis < source.starts.size(); ++axis) {
    places[axis] = add_places(places[axis], uniform(b_.CreateNeg(source.starts[axis])));
  }
  return offset_of(places, source.present);
}

Emitter::Lanes Emitter::load_from(const Source& source, ir::Type type, std::span<const Lanes> indices) {
  return load_from(source.base, type, place_of(source, indices), source.is_input);
}

// The number that is added to an index last, which tells the channels of a pixel apart.
std::int64_t Emitter::which_of_group(Id index, std::int64_t step) const {
  const ir::Op& op = program_[index];
  std::int64_t which = 0;
  if (op.code != Code::add) return 0;
  if (!ir::is_constant(program_, op.operands[1], which)) ir::is_constant(program_, op.operands[0], which);
  return which > 0 && which < step ? which : 0;
}

Emitter::Lanes Emitter::load_groups(const Source& source, ir::Type type, std::span<const Lanes> indices,
                                    std::int64_t step, std::int64_t which) {
  const Lanes place = place_of(source, indices);
  llvm::Type* element = memory_type(type);
  Value* address = b_.CreateInBoundsGEP(element, source.base, b_.CreateSub(place.base, i64(which)));
  const int bits = ir::bits_of(type);
  const auto lanes = static_cast<unsigned>(lanes_);
  if (bits == 8 && (step == 2 || step == 4)) {  // a group is one number: shifts are quicker than shuffles
    llvm::Type* group = b_.getIntNTy(static_cast<unsigned>(bits * step));
    Value* groups = b_.CreateAlignedLoad(llvm::FixedVectorType::get(group, lanes), address, align_of(type));
    groups = b_.CreateLShr(groups, llvm::ConstantInt::get(groups->getType(), static_cast<std::uint64_t>(which * bits)));
    return varying(from_memory(type, b_.CreateTrunc(groups, llvm::FixedVectorType::get(element, lanes))));
  }
  auto* all = llvm::FixedVectorType::get(element, lanes * static_cast<unsigned>(step));
  std::vector<int> mask;
  for (int lane = 0; lane < lanes_; ++lane) mask.push_back(static_cast<int>(lane * step + which));
  Value* loaded = b_.CreateAlignedLoad(all, address, align_of(type));
  return varying(from_memory(type, b_.CreateShuffleVector(loaded, mask)));
}

// Whether an index of a load or pick surely is inside of what it reads, at every point of the tile.
bool Emitter::is_inside(const ir::Op& op, std::size_t axis) const {
  const Id index = ir::indices_of(op)[axis];
  if (op.code == Code::load) return is_inside(index, op.index, static_cast<int>(axis));
  const ir::Op& extent = program_[ir::extents_of(op)[axis]];
  if (extent.code == Code::dim) return is_inside(index, extent.index, extent.axis);
  std::int64_t known = 0, value = 0;
  if (!ir::is_constant(program_, ir::extents_of(op)[axis], known)) return false;
  if (ir::is_constant(program_, index, value)) return value >= 0 && value < known;
  const ir::Op& place = program_[index];
  return place.code == Code::iota &&
         ir::is_constant(program_, place.shape[static_cast<std::size_t>(place.axis)], value) && value <= known;
}

// Whether the index of a load surely is inside of the buffer.
bool Emitter::is_inside(Id index, int buffer, int axis) const {
  const ir::Op& op = program_[index];
  const std::int64_t known = program_.buffers[static_cast<std::size_t>(buffer)].dims[static_cast<std::size_t>(axis)];
  const auto is_dim = [&](Id extent) {
    const ir::Op& of = program_[extent];
    std::int64_t value = 0;
    if (known >= 0 && ir::is_constant(program_, extent, value)) return value <= known;
    return of.code == Code::dim && of.index == buffer && of.axis == axis;
  };
  std::int64_t value = 0;
  if (ir::is_constant(program_, index, value)) return value >= 0 && value < known;
  if (op.code == Code::iota) return is_dim(op.shape[static_cast<std::size_t>(op.axis)]);
  if (op.code != Code::add) return false;
  // origin + iota, of a tile that ends with the output, along an axis as long as the output's.
  for (std::size_t side = 0; side < 2; ++side) {
    const ir::Op& origin = program_[op.operands[side]];
    const ir::Op& place = program_[op.operands[1 - side]];
    if (origin.code != Code::origin || place.code != Code::iota) continue;
    const ir::Op& extent = program_[place.shape[static_cast<std::size_t>(place.axis)]];
    if (extent.code != Code::tile_dim || extent.axis != origin.axis) continue;
    if (!analysis_.is_clipped[static_cast<std::size_t>(origin.axis)]) continue;
    if (buffer == 0) return axis == origin.axis;
    const ir::SameExtent wanted{buffer, axis, origin.axis};
    if (std::ranges::find(program_.same_extents, wanted) != program_.same_extents.end()) return true;
  }
  return false;
}

Emitter::Lanes Emitter::offset_of(std::span<const Lanes> indices, std::span<Value* const> extents) {
  Lanes offset = uniform(i64(0));
  for (std::size_t axis = 0; axis < indices.size(); ++axis) {
    if (axis > 0) offset = mul_places(offset, uniform(extents[axis]));
    offset = add_places(offset, indices[axis]);
  }
  return offset;
}

Emitter::Lanes Emitter::loaded(Id id, const Point& point) {
  const ir::Op& op = program_[id];
  const Source source = source_of(op);
  const std::span<const Id> operands = ir::indices_of(op);
  const bool is_safe_here = std::ranges::find(safe_loads_, id) != safe_loads_.end() &&
                            std::ranges::find(safe_places_, point.back()) != safe_places_.end();
  Values indices;
  std::vector<bool> is_checked;
  for (std::size_t axis = 0; axis < operands.size(); ++axis) {
    indices.push_back(eval(operands[axis], operand_point(op, operands[axis], point)));
    const bool is_last = axis + 1 == operands.size();
    is_checked.push_back(!is_inside(op, axis) && !(is_last && is_safe_here));
  }
  Value* inside = nullptr;  // of the axes that all lanes share
  bool is_odd = false;      // lanes go their own ways over a border
  bool is_row = false;      // lanes are neighbours, but may be over the border
  const Values asked = indices;
  for (std::size_t axis = 0; axis < indices.size(); ++axis) {
    if (!is_checked[axis]) continue;
    if (indices[axis].is_uniform()) {
      Value* is_inside = nullptr;
      indices[axis].base = inside_border(op, axis, indices[axis].base, source.extents[axis], is_inside);
      if (is_inside) inside = inside ? b_.CreateAnd(inside, is_inside) : is_inside;
    } else if (axis + 1 == indices.size() && !indices[axis].is_vector && is_one(indices[axis].stride)) {
      is_row = true;
    } else {
      is_odd = true;
    }
  }
  const auto masked = [&](Lanes value) {
    if (!inside) return value;
    value.base = b_.CreateSelect(inside, value.base, llvm::Constant::getNullValue(value.base->getType()));
    return value;
  };
  if (is_odd) return varying(load_lane_by_lane(op, source, asked));
  const auto* stride = llvm::dyn_cast_or_null<llvm::ConstantInt>(indices.empty() ? nullptr : indices.back().stride);
  const bool is_grouped =
      is_safe_here && !indices.back().is_vector && stride && stride->getSExtValue() > 1 &&
      stride->getSExtValue() <= most_in_group &&
      std::all_of(indices.begin(), indices.end() - 1, [](const Lanes& index) { return index.is_uniform(); });
  const auto at = [&] {
    if (!is_grouped) return load_from(source, op.type, indices);
    const std::int64_t step = stride->getSExtValue();
    return load_groups(source, op.type, indices, step, which_of_group(operands.back(), step));
  };
  if (!is_row) return masked(at());

  Value* first = indices.back().base;
  Value* extent = source.extents.back();
  Value* is_within =
      b_.CreateAnd(b_.CreateICmpSGE(first, i64(0)), b_.CreateICmpSLE(b_.CreateAdd(first, i64(lanes_)), extent));
  auto* quick = llvm::BasicBlock::Create(context_, "within", function_);
  auto* slow = llvm::BasicBlock::Create(context_, "border", function_);
  auto* end = llvm::BasicBlock::Create(context_, "loaded", function_);
  b_.CreateCondBr(is_within, quick, slow);
  b_.SetInsertPoint(quick);
  Value* whole = masked(at()).base;
  quick = b_.GetInsertBlock();
  b_.CreateBr(end);
  b_.SetInsertPoint(slow);
  Value* gathered = load_lane_by_lane(op, source, asked);
  slow = b_.GetInsertBlock();
  b_.CreateBr(end);
  b_.SetInsertPoint(end);
  llvm::PHINode* value = b_.CreatePHI(whole->getType(), 2);
  value->addIncoming(whole, quick);
  value->addIncoming(gathered, slow);
  return varying(value);
}

// Where an index is read: inside; `is_inside` is set where the border is zero.
Value* Emitter::inside_border(const ir::Op& op, std::size_t axis, Value* index, Value* extent, Value*& is_inside) {
  const std::int64_t step = op.list.empty() ? 1 : op.list[axis];
  const auto below = [&](Value* a, Value* n) {  // a mod n, not negative
    Value* rest = b_.CreateSRem(a, n);
    return b_.CreateSelect(b_.CreateICmpSLT(rest, i64(0)), b_.CreateAdd(rest, n), rest);
  };
  Value* within = nullptr;  // the group
  if (step > 1) {
    within = below(index, i64(step));
    index = b_.CreateSDiv(b_.CreateSub(index, within), i64(step));
    extent = b_.CreateSDiv(extent, i64(step));
  }
  Value* last = b_.CreateSub(extent, i64(1));
  switch (op.border) {
    case Border::zero:
      is_inside = b_.CreateICmpULT(index, extent);
      index = b_.CreateSelect(is_inside, index, i64(0));
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
    case Border::wrap:
      index = below(index, b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, extent, i64(1)));
      break;
  }
  return within ? b_.CreateAdd(b_.CreateMul(index, i64(step)), within) : index;
}

Value* Emitter::load_scalar_checked(const ir::Op& op, const Source& source, std::span<Value* const> indices) {
  Values inside_indices;
  Value* inside = nullptr;
  for (std::size_t axis = 0; axis < indices.size(); ++axis) {
    Value* index = indices[axis];
    if (!this->is_inside(op, axis)) {
      Value* is_inside = nullptr;
      index = inside_border(op, axis, index, source.extents[axis], is_inside);
      if (is_inside) inside = inside ? b_.CreateAnd(inside, is_inside) : is_inside;
    }
    inside_indices.push_back(uniform(index));
  }
  Value* value = load_from(source, op.type, inside_indices).base;
  return inside ? b_.CreateSelect(inside, value, llvm::Constant::getNullValue(value->getType())) : value;
}

// A loop over the lanes: little code for what happens at borders only, and for gathers over them.
Value* Emitter::load_lane_by_lane(const ir::Op& op, const Source& source, const Values& indices) {
  llvm::Type* element = element_type(op.type);
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

Value* Emitter::from_memory(ir::Type type, Value* value) {
  if (type != ir::Type::boolean) return value;
  return b_.CreateICmpNE(value, llvm::Constant::getNullValue(value->getType()));
}

Value* Emitter::to_memory(ir::Type type, Value* value) {
  if (type != ir::Type::boolean) return value;
  return b_.CreateZExt(value, like(memory_type(type), value));
}

Emitter::Lanes Emitter::load_from(Value* base, ir::Type type, const Lanes& offset, bool is_input) {
  llvm::Type* element = memory_type(type);
  if (offset.is_uniform()) {
    Value* address = b_.CreateInBoundsGEP(element, base, offset.base);
    return uniform(from_memory(type, b_.CreateAlignedLoad(element, address, align_of(type))));
  }
  auto* of = llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes_));
  if (!offset.is_vector && is_one(offset.stride)) {
    Value* address = b_.CreateInBoundsGEP(element, base, offset.base);
    if (streaming_ && is_input && host_.level == VectorLevel::avx512)
      prefetch(base, address, static_cast<std::int64_t>(lanes_) * ir::bits_of(type) / 8);
    return varying(from_memory(type, b_.CreateAlignedLoad(of, address, align_of(type))));
  }
  Value* value = llvm::PoisonValue::get(of);
  Value* step = offset.base;
  for (int lane = 0; lane < lanes_; ++lane) {
    Value* place = step;
    if (offset.is_vector) {
      place = b_.CreateExtractElement(offset.base, static_cast<std::uint64_t>(lane));
    } else {
      step = b_.CreateAdd(step, offset.stride);
    }
    Value* one = b_.CreateAlignedLoad(element, b_.CreateInBoundsGEP(element, base, place), align_of(type));
    value = b_.CreateInsertElement(value, one, static_cast<std::uint64_t>(lane));
  }
  return varying(from_memory(type, value));
}

// Far ahead, once a cache line. 2 KiB: what measured best for two streams in and one out at 64 MiB, on a Xeon with
// AVX-512. Zen 3, which stands here for the processors without, lost 7 % of its speed by it on a busy machine.
void Emitter::prefetch(Value* base, Value* address, std::int64_t bytes) {
  constexpr std::int64_t line = 64;
  constexpr std::int64_t ahead = 2048;
  std::int64_t& since = prefetched_[base];
  if (since == 0) {
    Value* at = b_.CreateConstGEP1_64(b_.getInt8Ty(), address, ahead);
    b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {at->getType()},
                       {at, b_.getInt32(0), b_.getInt32(3), b_.getInt32(1)});
  }
  since = (since + bytes) % line;
}

Emitter::Lanes Emitter::from_scratch(Id id, const Point& point) {
  const std::vector<Value*> extents = extents_of(id);
  return load_from(scratch_of_.at(id), program_[id].type, offset_of({point.data(), point.size()}, extents));
}

void Emitter::to_scratch(Id id, const Point& point, const Lanes& value) {
  const std::vector<Value*> extents = extents_of(id);
  store_at(scratch_of_.at(id), program_[id].type, offset_of({point.data(), point.size()}, extents), value, false);
}

void Emitter::store_at(Value* base, ir::Type type, const Lanes& offset, const Lanes& value, bool streaming) {
  llvm::Type* element = memory_type(type);
  Value* address = b_.CreateInBoundsGEP(element, base, offset.base);
  Value* stored = to_memory(type, offset.is_uniform() ? value.base : vector(value));
  const bool is_past_caches = streaming && !offset.is_uniform();
  const auto bytes = static_cast<std::uint64_t>(lanes_ * ir::bits_of(type) / 8);
  llvm::StoreInst* store = b_.CreateAlignedStore(stored, address, is_past_caches ? llvm::Align(bytes) : align_of(type));
  if (!is_past_caches) return;
  store->setMetadata(llvm::LLVMContext::MD_nontemporal,
                     llvm::MDNode::get(context_, llvm::ConstantAsMetadata::get(b_.getInt32(1))));
}

}  // namespace tessera::compile
