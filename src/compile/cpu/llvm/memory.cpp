#include "compile/cpu/llvm/emitter.hpp"
#include "compile/cpu/llvm/scope.hpp"

#include <algorithm>
#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/TargetParser/Triple.h>

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

constexpr std::int64_t cache_line = 64;

// Whether two places are computed alike.
bool is_same_place(const Value* a, const Value* b) {
  if (a == b) return true;
  const auto* first = llvm::dyn_cast<llvm::Instruction>(a);
  const auto* second = llvm::dyn_cast<llvm::Instruction>(b);
  const bool is_sum =
      first && second && (llvm::isa<llvm::BinaryOperator>(first) || llvm::isa<llvm::IntrinsicInst>(first));
  if (!is_sum || !first->isSameOperationAs(second)) return false;
  return std::ranges::equal(first->operand_values(), second->operand_values(), is_same_place);
}

llvm::Align align_of(const llvm::Type* element) {
  return llvm::Align(static_cast<std::uint64_t>(element->getScalarSizeInBits()) / 8);
}

}  // namespace

Emitter::Source Emitter::source_of(const ir::Op& op) {
  if (op.code == Code::load) {
    const auto buffer = static_cast<std::size_t>(op.index);
    return {buffers_[buffer], memory_type(op.type), dims_[buffer], dims_[buffer], {}};
  }
  const Id value = op.operands[0];
  Source source{scratch_of_.at(value), scratch_type(value), {}, scratch_extents(value), {}};
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

// Which of a group of `step` elements an index means, by the numbers that are added in it: it tells the channels of a
// pixel apart, and loads of several channels have the groups in common.
std::int64_t Emitter::which_of_group(Id index, std::int64_t step) const {
  const std::function<std::int64_t(Id)> number_in = [&](Id id) -> std::int64_t {
    const ir::Op& op = program_[id];
    std::int64_t number = 0;
    if (ir::is_constant(program_, id, number)) return number % step;
    if (op.code == Code::add) return (number_in(op.operands[0]) + number_in(op.operands[1])) % step;
    return 0;
  };
  return (number_in(index) + step) % step;
}

// The groups of which a load takes one each, if they are surely all there.
Emitter::Group Emitter::group_of(const ir::Op& op, std::span<const Lanes> places, const Lanes& place,
                                 bool is_safe) const {
  const auto* stride = llvm::dyn_cast_or_null<llvm::ConstantInt>(place.stride);
  if (lanes_ == 1 || place.is_vector || !stride) return {};
  const std::int64_t step = stride->getSExtValue();
  if (step < 2 || step > most_in_group) return {};
  // A number along the last axis, which is as long as a group.
  const auto* number = places.back().is_uniform() ? llvm::dyn_cast<llvm::ConstantInt>(places.back().base) : nullptr;
  if (number && op.code == Code::load && program_.buffers[static_cast<std::size_t>(op.index)].dims.back() == step) {
    const std::int64_t which = number->getSExtValue();
    return which >= 0 && which < step ? Group{step, which} : Group{};
  }
  // Along the last axis: safe_range() has seen to it.
  const std::span<const Id> indices = ir::indices_of(op);
  const bool is_along = row_axis(op) + 1 == static_cast<int>(indices.size());
  return is_along && is_safe ? Group{step, which_of_group(indices.back(), step)} : Group{};
}

Emitter::Lanes Emitter::load_group(const ir::Op& op, const Source& source, const Lanes& place, const Group& group) {
  Value* first = add_places(uniform(place.base), uniform(i64(-group.which))).base;
  Value* address = element_at(source.element, source.base, first);
  const unsigned bits = source.element->getScalarSizeInBits();
  const auto lanes = static_cast<unsigned>(lanes_), step = static_cast<unsigned>(group.step);
  if (Value* ahead = bytes_ahead(op)) {
    const std::int64_t line_elements = std::max<std::int64_t>(1, cache_line * 8 / bits);
    for (std::int64_t done = 0; done < group.step * lanes_; done += line_elements) {
      Value* at = add_places(uniform(first), uniform(i64(done))).base;
      prefetch({source.base, at, 0, source.element, ahead, false});
    }
  }
  if (source.element->isIntegerTy(8) && step == 4) {
    if (Value* bytes = load_fourth_bytes(address, group.which)) return varying(bytes);
  }
  Value* groups = nullptr;  // each as one number: shifts are quicker than shuffles
  if (source.element->isIntegerTy(8) && step == 3) groups = load_three_bytes(address);
  if (source.element->isIntegerTy(8) && step != 3) {
    auto* of = llvm::FixedVectorType::get(b_.getIntNTy(bits * step), lanes);
    groups = b_.CreateAlignedLoad(of, address, align_of(source.element));
  }
  if (groups) {
    llvm::Type* of = groups->getType();
    groups = b_.CreateLShr(groups, llvm::ConstantInt::get(of, static_cast<std::uint64_t>(group.which) * bits));
    return varying(b_.CreateTrunc(groups, llvm::FixedVectorType::get(source.element, lanes)));
  }
  auto* all = llvm::FixedVectorType::get(source.element, lanes * step);
  Value* loaded = b_.CreateAlignedLoad(all, address, align_of(source.element));
  const auto which = static_cast<unsigned>(group.which);
  return varying(b_.CreateShuffleVector(loaded, llvm::createStrideMask(which, step, lanes)));
}

// Every fourth byte, as the channel of a pixel, by shuffles that are common to all four: within 128 bits the bytes of a
// channel come together, then a transposition of four registers brings those of each channel into one, and at last its
// words are put in order. Packing each channel by itself takes twice as many. Null where the registers do not fit.
Value* Emitter::load_fourth_bytes(Value* address, std::int64_t which) {
  constexpr unsigned channels = 4, lane_bytes = 16;
  const unsigned bytes = host_.vector_bits / 8, lanes = bytes / lane_bytes;
  if (static_cast<unsigned>(lanes_) != bytes || host_.level == VectorLevel::baseline ||
      !llvm::Triple(module_.getTargetTriple()).isX86())
    return nullptr;
  auto* of_bytes = llvm::FixedVectorType::get(b_.getInt8Ty(), bytes);
  llvm::SmallVector<int, 64> together;
  for (unsigned i = 0; i < bytes; ++i) {
    const unsigned lane = i / lane_bytes, channel = i % lane_bytes / channels, pixel = i % channels;
    together.push_back(static_cast<int>(lane * lane_bytes + pixel * channels + channel));
  }
  const auto bits = static_cast<unsigned>(which);
  // Two registers in turns: of each 128 bits the lower or upper half, in parts of so many bits.
  const auto in_turns = [&](Value* a, Value* b, unsigned part_bits, bool is_upper) {
    auto* type = llvm::FixedVectorType::get(b_.getIntNTy(part_bits), host_.vector_bits / part_bits);
    const unsigned parts = 128 / part_bits;
    llvm::SmallVector<int, 16> from;
    for (unsigned lane = 0; lane < lanes; ++lane) {
      for (unsigned i = 0; i < parts / 2; ++i) {
        const unsigned at = lane * parts + i + (is_upper ? parts / 2 : 0);
        from.push_back(static_cast<int>(at));
        from.push_back(static_cast<int>(at + lanes * parts));
      }
    }
    return b_.CreateShuffleVector(b_.CreateBitCast(a, type), b_.CreateBitCast(b, type), from);
  };
  llvm::SmallVector<Value*, channels> registers;
  for (unsigned i = 0; i < channels; ++i) {
    Value* at = b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), address, std::uint64_t{i} * bytes);
    registers.push_back(b_.CreateShuffleVector(b_.CreateAlignedLoad(of_bytes, at, llvm::Align(1)), together));
  }
  Value* first = in_turns(registers[0], registers[1], 32, (bits & 2) != 0);
  Value* second = in_turns(registers[2], registers[3], 32, (bits & 2) != 0);
  Value* all = in_turns(first, second, 64, (bits & 1) != 0);
  llvm::SmallVector<int, 16> in_order;
  for (unsigned i = 0; i < channels * lanes; ++i) {
    in_order.push_back(static_cast<int>(i % lanes * channels + i / lanes));
  }
  auto* of_words = llvm::FixedVectorType::get(b_.getInt32Ty(), channels * lanes);
  return b_.CreateBitCast(b_.CreateShuffleVector(b_.CreateBitCast(all, of_words), in_order), of_bytes);
}

Emitter::Lanes Emitter::offset_of(std::span<const Lanes> indices, std::span<Value* const> extents) {
  Lanes offset = uniform(i64(0));
  for (std::size_t axis = 0; axis < indices.size(); ++axis) {
    if (axis > 0) offset = mul_places(offset, uniform(extents[axis]));
    offset = add_places(offset, indices[axis]);
  }
  return offset;
}

// A byte for each byte, from a table of 256: from either half of it, and then one of the two.
Value* Emitter::looked_up(const ir::Op& load, const Point& point) {
  constexpr unsigned bytes = 64;
  const auto lanes = static_cast<unsigned>(lanes_);
  const Id index = load.operands[0];
  Value* which = vector(eval(index, operand_point(load, index, point)));
  which = b_.CreateTrunc(which, like(b_.getInt8Ty(), which));
  if (lanes < bytes) which = b_.CreateShuffleVector(which, llvm::createSequentialMask(0, lanes, bytes - lanes));
  auto* of = llvm::FixedVectorType::get(b_.getInt8Ty(), bytes);
  const auto part = [&](std::uint64_t number) {
    Value* at = b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), source_of(load).base, number * bytes);
    return b_.CreateAlignedLoad(of, at, llvm::Align(1));
  };
  const auto half = [&](std::uint64_t first) {
    return b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_vpermi2var_qi_512, {}, {part(first), which, part(first + 1)});
  };
  Value* found = b_.CreateSelect(b_.CreateICmpSLT(which, llvm::Constant::getNullValue(of)), half(2), half(0));
  return lanes < bytes ? b_.CreateShuffleVector(found, llvm::createSequentialMask(0, lanes, 0)) : found;
}

Emitter::Lanes Emitter::loaded(Id id, const Point& point) {
  const ir::Op& op = program_[id];
  if (host_.has_vbmi && lanes_ > 1 && lanes_ <= 64 && is_byte_table(program_, op)) return varying(looked_up(op, point));
  const Source source = source_of(op);
  const std::span<const Id> operands = ir::indices_of(op);
  const bool is_safe_here = std::ranges::find(safe_loads_, id) != safe_loads_.end() &&
                            std::ranges::find(safe_places_, along_row(point)) != safe_places_.end();
  const int along = point.empty() ? -1 : row_axis(op);
  Values indices;
  std::vector<bool> is_checked;
  for (std::size_t axis = 0; axis < operands.size(); ++axis) {
    indices.push_back(eval(operands[axis], operand_point(op, operands[axis], point)));
    const bool is_safe = is_safe_here && static_cast<int>(axis) == along;
    is_checked.push_back(!is_safe && !is_inside(op, axis));
  }
  Value* inside = nullptr;  // of the axes that all lanes share
  bool is_odd = false;      // lanes go their own ways over a border
  bool is_row = false;      // lanes are neighbours, but may be over the border
  const Values asked = indices;
  for (std::size_t axis = 0; axis < indices.size(); ++axis) {
    if (!is_checked[axis]) continue;
    if (indices[axis].is_uniform()) {
      Value* is_inside = nullptr;
      indices[axis].base = inside_border(op, source, axis, indices[axis].base, is_inside);
      if (is_inside) inside = inside ? b_.CreateAnd(inside, is_inside) : is_inside;
    } else if (static_cast<int>(axis) == along && !indices[axis].is_vector && is_one(indices[axis].stride)) {
      is_row = true;
    } else if (op.code == Code::load && op.border == Border::clamp && indices[axis].is_vector &&
               (op.list.empty() || op.list[axis] == 1)) {
      Value* last = b_.CreateSub(source.extents[axis], i64(1));
      Value* index = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, indices[axis].base, vector(uniform(last)));
      indices[axis].base = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, index, vector(uniform(i64(0))));
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
  const auto at = [&] {
    // Not in a branch, which other channels would not come by.
    Value* gathered = is_row ? nullptr : gathered_channel(id, point, source, indices);
    if (gathered) return varying(gathered);
    const Lanes place = place_of(source, indices);
    const Group group = group_of(op, indices, place, is_safe_here);
    if (bytes_ahead(op)) note_first_load(op, group.step);
    return group.step > 1 ? load_group(op, source, place, group)
                          : load_from(source.base, source.element, place, bytes_ahead(op));
  };
  if (!is_row) return masked(at());

  Value* first = indices[static_cast<std::size_t>(along)].base;
  Value* extent = source.extents[static_cast<std::size_t>(along)];
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

// By where it is, or by what it can be: a byte is inside of a table of 256.
bool Emitter::is_inside(const ir::Op& op, std::size_t axis) const {
  if (compile::is_inside(program_, op, axis, analysis_.is_clipped)) return true;
  if (op.code != Code::load) return false;
  const Range& range = widths().range(ir::indices_of(op)[axis]);
  return range.low >= 0 && range.high < program_.buffers[static_cast<std::size_t>(op.index)].dims[axis];
}

// Where an index is read: inside; `is_inside` is set where the border is zero. What is not inside is read where the
// source begins, which of a part may be far from the buffer's beginning.
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
  Value* value = load_from(source.base, source.element, place_of(source, inside_indices)).base;
  return inside ? b_.CreateSelect(inside, value, llvm::Constant::getNullValue(value->getType())) : value;
}

// A loop over the lanes: little code for what happens at borders only, and for gathers over them.
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

Value* Emitter::from_memory(ir::Type type, Value* value) {
  if (type != ir::Type::boolean) return value;
  return b_.CreateICmpNE(value, llvm::Constant::getNullValue(value->getType()));
}

Value* Emitter::to_memory(ir::Type type, Value* value) {
  if (type != ir::Type::boolean) return value;
  return b_.CreateZExt(value, like(memory_type(type), value));
}

// The address of the place without its number may be outside of the buffer.
Value* Emitter::element_at(llvm::Type* element, Value* base, Value* place) {
  const auto [start, number] = without_number(place);
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
    Value* place = step;
    if (offset.is_vector) {
      place = b_.CreateExtractElement(offset.base, static_cast<std::uint64_t>(lane));
    } else {
      step = b_.CreateAdd(step, offset.stride);
    }
    Value* one = b_.CreateAlignedLoad(element, b_.CreateInBoundsGEP(element, base, place), align);
    value = b_.CreateInsertElement(value, one, static_cast<std::uint64_t>(lane));
  }
  return varying(value);
}

// How far ahead of a load the memory is asked for; null where it is not worth it.
Value* Emitter::bytes_ahead(int buffer) {
  // What measured best for two streams in and one out at 64 MiB, on a Xeon with AVX-512. Zen 3, which stands here for
  // the processors without, lost 7 % of its speed by it on a busy machine, but only if there is little to compute: else
  // it has too few loads under way, and ten multiplications took 1.35 times as long as one, with this 1.08 times.
  constexpr std::int64_t along_the_row = 2048;
  constexpr int little = 8;
  if (streaming_) {
    const bool helps = host_.level == VectorLevel::avx512 || analysis_.cost > little;
    return helps ? i64(along_the_row) : nullptr;
  }
  // In a tile with stages: the next row, of what the stages read and of the output. The rows of a tile are pieces that
  // the processor does not foresee; waiting for each of them took a fifth of a blur's time.
  const bool is_cut = !tiling_.extents.empty() && tiling_.extents.back() > 1;
  const bool is_first_use = has_stages() && (buffer == 0 || computing_ != ir::none);
  const std::vector<Value*>& dims = dims_[static_cast<std::size_t>(buffer)];
  if (lanes_ == 1 || !is_cut || !is_first_use || dims.size() < 2) return nullptr;
  const int bits = ir::bits_of(program_.buffers[static_cast<std::size_t>(buffer)].type);
  return b_.CreateMul(dims.back(), i64(bits / 8));
}

// Once a cache line, not for each of the neighbours that are loaded from it; and when all that the loop body loads is
// loaded, since LLVM takes no two loads together across a prefetch.
void Emitter::prefetch(Prefetch wanted) {
  const auto [start, number] = without_number(wanted.start);
  const std::int64_t bytes = number * static_cast<std::int64_t>(wanted.element->getScalarSizeInBits()) / 8;
  wanted.start = start;
  wanted.bytes = bytes / cache_line * cache_line;
  const auto is_same = [&](const Prefetch& other) {
    return other.base == wanted.base && other.bytes == wanted.bytes && is_same_place(other.start, wanted.start);
  };
  if (bytes < 0 || std::ranges::any_of(prefetches_, is_same)) return;
  prefetches_.push_back(wanted);
  if (b_.GetInsertBlock() != body_block_) emit_prefetches();  // what is computed here is not known at the end
}

// A stage loads a buffer: so many elements for each of the output's.
void Emitter::note_first_load(const ir::Op& op, std::int64_t step) {
  const bool is_row = row_axis(op) + 1 == program_.buffers[static_cast<std::size_t>(op.index)].rank();
  if (is_row) first_loads_[op.index] = step;
}

// What the stages of the next tile will load, while this one's output is computed: they would wait for most of it, and
// compute little meanwhile. Blur, sharpen and grayscale as one took 5 % less time on an image of 33 MB.
void Emitter::prefetch_next_tile(const Point& point) {
  constexpr unsigned second_cache = 2;  // a tile is more than the first one holds
  const std::size_t rank = point.size();
  for (const auto& [buffer, step] : first_loads_) {
    const std::vector<Value*>& dims = dims_[static_cast<std::size_t>(buffer)];
    if (rank < 2 || dims.size() != rank) continue;
    const auto next = [&](std::size_t axis) { return b_.CreateAdd(next_origins_[axis], point[axis].base); };
    Value* column = b_.CreateMul(next(rank - 1), i64(step));
    Value* place = b_.CreateAdd(b_.CreateMul(next(rank - 2), dims.back()), column);
    llvm::Type* element = memory_type(program_.buffers[static_cast<std::size_t>(buffer)].type);
    const std::int64_t bytes = step * lanes_ * static_cast<std::int64_t>(element->getScalarSizeInBits()) / 8;
    Value* address = b_.CreateGEP(element, buffers_[static_cast<std::size_t>(buffer)], place);
    for (std::int64_t done = 0; done < bytes; done += cache_line) {
      Value* at = b_.CreateGEP(b_.getInt8Ty(), address, i64(done));
      b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {at->getType()},
                         {at, b_.getInt32(0), b_.getInt32(second_cache), b_.getInt32(1)});
    }
  }
}

void Emitter::emit_prefetches() {
  for (const Prefetch& wanted : prefetches_) {
    Value* address = b_.CreateGEP(wanted.element, wanted.base, wanted.start);
    Value* at = b_.CreateGEP(b_.getInt8Ty(), address, b_.CreateAdd(wanted.ahead, i64(wanted.bytes)));
    b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {at->getType()},
                       {at, b_.getInt32(wanted.is_write ? 1 : 0), b_.getInt32(3), b_.getInt32(1)});
  }
  prefetches_.clear();
}

int Emitter::scratch_bits(Id id) const {
  const int bits = widths().bits[static_cast<std::size_t>(id)];
  // What a loop carries and nobody asks for has its place all the same.
  if (!widths().is_narrow(id) || bits == 0) return ir::bits_of(program_[id].type);
  // In memory a number may have fewer bits than processors compute in: the pixels between two filters are bytes.
  return std::min(bits, bits_for(widths().range(id)));
}

llvm::Type* Emitter::scratch_type(Id id) {
  return widths().is_narrow(id) ? b_.getIntNTy(static_cast<unsigned>(scratch_bits(id)))
                                : memory_type(program_[id].type);
}

Emitter::Lanes Emitter::from_scratch(Id id, const Point& point) {
  const ir::Type type = program_[id].type;
  const std::vector<Value*> extents = scratch_extents(id);
  Lanes value = load_from(scratch_of_.at(id), scratch_type(id), offset_of({point.data(), point.size()}, extents));
  value.base = from_memory(type, value.base);
  return value;
}

void Emitter::to_scratch(Id id, const Point& point, const Lanes& value) {
  const std::vector<Value*> extents = scratch_extents(id);
  const Lanes offset = offset_of({point.data(), point.size()}, extents);
  store_at(scratch_of_.at(id), program_[id].type, offset, resized(id, value, scratch_bits(id)), false);
}

void Emitter::store_at(Value* base, ir::Type type, const Lanes& offset, const Lanes& value, bool streaming) {
  Value* stored = to_memory(type, offset.is_uniform() ? value.base : vector(value));
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

}  // namespace tessera::compile
