// Loads of one element out of each of several groups, such as a channel of pixels, and table lookups.
#include "compile/cpu/llvm/emitter.hpp"

#include <algorithm>
#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/TargetParser/Triple.h>

namespace tessera::compile::cpu {

using ir::Code;
using ir::Id;
using llvm::Value;

namespace {

// The largest stride for which neighbours are loaded together and then separated.
constexpr std::int64_t most_in_group = 4;

}  // namespace

// Which element of a group of `step` an index selects, by the constants that are added in it: the channel of a pixel.
// Loads of several channels then load the same groups.
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

// The groups of which each lane loads one element, if all of them are inside for sure.
Emitter::Group Emitter::group_of(const ir::Op& op, std::span<const Lanes> indices_at, const Lanes& offset,
                                 bool is_safe) const {
  const auto* stride = llvm::dyn_cast_or_null<llvm::ConstantInt>(offset.stride);
  if (lanes_ == 1 || offset.is_vector || !stride) return {};
  const std::int64_t step = stride->getSExtValue();
  if (step < 2 || step > most_in_group) return {};
  // A constant index along the last axis, which is as long as a group.
  const auto* number =
      indices_at.back().is_uniform() ? llvm::dyn_cast<llvm::ConstantInt>(indices_at.back().base) : nullptr;
  if (number && op.code == Code::load && program_.buffers[static_cast<std::size_t>(op.index)].dims.back() == step) {
    const std::int64_t which = number->getSExtValue();
    return which >= 0 && which < step ? Group{step, which} : Group{};
  }
  // Along the last axis: safe_range() has checked the bounds.
  const std::span<const Id> indices = ir::indices_of(op);
  const bool is_along = row_axis(op) + 1 == static_cast<int>(indices.size());
  return is_along && is_safe ? Group{step, which_of_group(indices.back(), step)} : Group{};
}

Emitter::Lanes Emitter::load_group(const ir::Op& op, const Source& source, const Lanes& offset, const Group& group) {
  Value* first = add_indices(uniform(offset.base), uniform(i64(-group.which))).base;
  Value* address = element_at(source.element, source.base, first);
  const unsigned bits = source.element->getScalarSizeInBits();
  const auto lanes = static_cast<unsigned>(lanes_), step = static_cast<unsigned>(group.step);
  if (Value* ahead = bytes_ahead(op)) {
    const std::int64_t line_elements = std::max<std::int64_t>(1, cache_line * 8 / bits);
    for (std::int64_t done = 0; done < group.step * lanes_; done += line_elements) {
      Value* at = add_indices(uniform(first), uniform(i64(done))).base;
      prefetch({source.base, at, 0, source.element, ahead, false});
    }
  }
  if (source.element->isIntegerTy(8) && step == 4) {
    if (Value* bytes = load_fourth_bytes(address, group.which)) return varying(bytes);
  }
  Value* groups = nullptr;  // each as one integer: shifts are quicker than shuffles
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

// Every fourth byte, such as one channel of pixels, by shuffles that all four channels share: the bytes of a channel
// are brought together within 128 bits, then a transposition of four registers collects each channel in one of them,
// and at last its words are put in order. Packing each channel by itself takes twice as many shuffles. Null where the
// registers do not fit.
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
  // Interleaves the lower or upper half of each 128 bits of two registers, in parts of `part_bits`.
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

// Looks bytes up in a table of 256: in either half of it, then selects one of the two results.
Value* Emitter::looked_up(const ir::Op& load, const Point& point) {
  constexpr unsigned bytes = 64;
  const auto lanes = static_cast<unsigned>(lanes_);
  const Id index = load.operands[0];
  Value* which = vector(eval(index, operand_point(load, index, point)));
  which = b_.CreateTrunc(which, math_.like(b_.getInt8Ty(), which));
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

}  // namespace tessera::compile::cpu
