#include "compile/cpu/llvm/emitter.hpp"
#include "compile/cpu/llvm/vector_math.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/TargetParser/Triple.h>

namespace tessera::compile::cpu {

using ir::Code;
using llvm::Value;
using llvm::Intrinsic::ID;

namespace {

bool is_one(const Value* value) {
  const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(value);
  return constant && constant->isOne();
}

bool is_zero(const Value* value) {
  const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(value);
  return constant && constant->isZero();
}

}  // namespace

Value* Emitter::vector(const Lanes& value) {
  if (value.is_vector || lanes_ == 1) return value.base;
  Value* splat = b_.CreateVectorSplat(static_cast<unsigned>(lanes_), value.base);
  if (!value.stride) return splat;
  std::vector<llvm::Constant*> numbers;
  numbers.reserve(static_cast<std::size_t>(lanes_));
  for (int lane = 0; lane < lanes_; ++lane) numbers.push_back(b_.getInt64(static_cast<std::uint64_t>(lane)));
  Value* steps = llvm::ConstantVector::get(numbers);
  if (!is_one(value.stride)) {
    steps = b_.CreateMul(steps, b_.CreateVectorSplat(static_cast<unsigned>(lanes_), value.stride));
  }
  return b_.CreateAdd(splat, steps);
}

Emitter::Lanes Emitter::add_indices(const Lanes& a, const Lanes& b) {
  if (a.is_vector || b.is_vector) return varying(b_.CreateAdd(vector(a), vector(b)));
  Value* stride = a.stride && b.stride ? b_.CreateAdd(a.stride, b.stride) : (a.stride ? a.stride : b.stride);
  if (is_zero(a.base)) return {b.base, stride, false};
  if (is_zero(b.base)) return {a.base, stride, false};
  // Constants last, so that neighbours differ by a constant only and share everything else.
  const auto [first, more] = without_number(a.base);
  const auto [second, yet_more] = without_number(b.base);
  Value* sum = is_zero(second) ? first : is_zero(first) ? second : b_.CreateAdd(first, second);
  const std::int64_t number = more + yet_more;
  return {number == 0 ? sum : b_.CreateAdd(sum, i64(number)), stride, false};
}

// An index as the sum of a value and a constant.
std::pair<Value*, std::int64_t> Emitter::without_number(Value* index) {
  if (const auto* number = llvm::dyn_cast<llvm::ConstantInt>(index)) return {i64(0), number->getSExtValue()};
  const auto* sum = llvm::dyn_cast<llvm::BinaryOperator>(index);
  if (!sum || sum->getOpcode() != llvm::Instruction::Add) return {index, 0};
  const auto* number = llvm::dyn_cast<llvm::ConstantInt>(sum->getOperand(1));
  return number ? std::pair{sum->getOperand(0), number->getSExtValue()} : std::pair{index, std::int64_t{0}};
}

Emitter::Lanes Emitter::mul_indices(const Lanes& a, const Lanes& b) {
  if (a.is_vector || b.is_vector || (a.stride && b.stride)) return varying(b_.CreateMul(vector(a), vector(b)));
  if (!a.stride && is_one(a.base)) return b;
  if (!b.stride && is_one(b.base)) return a;
  Value* base = b_.CreateMul(a.base, b.base);
  if (a.stride) return {base, b_.CreateMul(a.stride, b.base), false};
  if (b.stride) return {base, b_.CreateMul(b.stride, a.base), false};
  return {base, nullptr, false};
}

Emitter::Lanes Emitter::elementwise(ir::Id id, std::span<const Lanes> operands) {
  const ir::Op& op = program_[id];
  const ir::Type type = program_[op.operands[0]].type;
  bool all_uniform = true;
  for (const Lanes& operand : operands) all_uniform &= operand.is_uniform();
  if (op.type == ir::Type::s64 && type == ir::Type::s64 && op.code == Code::add) {
    return add_indices(operands[0], operands[1]);
  }
  if (op.type == ir::Type::s64 && type == ir::Type::s64 && !all_uniform) {
    if (op.code == Code::mul) return mul_indices(operands[0], operands[1]);
    if (op.code == Code::sub && !operands[0].is_vector && !operands[1].is_vector && operands[0].stride &&
        !operands[1].stride) {
      return {b_.CreateSub(operands[0].base, operands[1].base), operands[0].stride, false};
    }
  }
  if (op.type == ir::Type::s64 && op.code == Code::rem && widths().range(op.operands[0]).low >= 0) {
    if (Value* rest = index_in_group(operands[0], operands[1])) return varying(rest);
  }
  llvm::SmallVector<Value*, 3> values;
  for (const Lanes& operand : operands) values.push_back(all_uniform ? operand.base : vector(operand));
  Value* result = apply(id, {values.data(), values.size()});
  return all_uniform ? uniform(result) : varying(result);
}

// A non-negative index modulo a small power of two, such as the channel of an element in a row: computed in bytes, and
// then widened, which a comparison undoes. Null if it has another form.
Value* Emitter::index_in_group(const Lanes& index, const Lanes& size) {
  constexpr std::uint64_t largest = 128;
  const auto* stride = llvm::dyn_cast_or_null<llvm::ConstantInt>(index.stride);
  const auto* number = size.is_uniform() ? llvm::dyn_cast<llvm::ConstantInt>(size.base) : nullptr;
  if (lanes_ == 1 || index.is_vector || !stride || !number || !number->getValue().isPowerOf2() ||
      number->getValue().ugt(largest))
    return nullptr;
  std::vector<llvm::Constant*> steps;
  for (int lane = 0; lane < lanes_; ++lane) {
    const std::int64_t step = lane * stride->getSExtValue() % static_cast<std::int64_t>(largest);
    steps.push_back(b_.getInt8(static_cast<std::uint8_t>(step)));
  }
  Value* first = b_.CreateVectorSplat(static_cast<unsigned>(lanes_), b_.CreateTrunc(index.base, b_.getInt8Ty()));
  Value* indices = b_.CreateAdd(first, llvm::ConstantVector::get(steps));
  auto last = static_cast<std::uint8_t>(number->getZExtValue() - 1);
  Value* rest = b_.CreateAnd(indices, llvm::ConstantInt::get(indices->getType(), last));
  return b_.CreateZExt(rest, math_.like(b_.getInt64Ty(), rest));
}

Value* Emitter::resized(ir::Id id, Value* value, int bits) {
  const auto now = static_cast<int>(value->getType()->getScalarSizeInBits());
  if (!ir::is_integer(program_[id].type) || now == bits) return value;
  llvm::Type* target = math_.like(b_.getIntNTy(static_cast<unsigned>(bits)), value);
  if (bits < now) return b_.CreateTrunc(value, target);
  return widths().range(id).is_signed() ? b_.CreateSExt(value, target) : b_.CreateZExt(value, target);
}

Emitter::Lanes Emitter::resized(ir::Id id, Lanes value, int bits) {
  value.base = resized(id, value.base, bits);
  return value;
}

Value* Emitter::apply(ir::Id id, std::span<Value*> x) {
  const ir::Op& op = program_[id];
  const int bits = widths().bits[static_cast<std::size_t>(id)];
  const std::vector<ir::Id> operands = widths().operands_of(id);
  if (op.code == Code::convert || op.code == Code::nearest) return converted_narrow(id, x[0]);
  if (op.code == Code::abs && ir::is_integer(op.type) && !widths().range(operands[0]).is_signed()) return x[0];
  if (const auto sum = widths().byte_sum(id); !sum.terms.empty()) return byte_sum(sum, x);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = resized(operands[i], x[i], bits);
  if (const auto product = widths().high_product(id); product.a != ir::none) {
    Value* other = product.b == ir::none
                       ? llvm::ConstantInt::get(x[0]->getType(), static_cast<std::uint64_t>(product.constant))
                       : x[1];
    return math_.upper_half(x[0], other, product.is_signed);
  }
  if (widths().average(id).a != ir::none) return math_.average(x[0], x[1]);
  if (const auto sum = widths().product_sum(id); !sum.terms.empty()) return product_sum(id, sum, x);

  // In fewer bits than the type has, the range decides whether there is a sign.
  ir::Type type = program_[op.operands[0]].type;
  if (ir::is_integer(type) && bits < ir::bits_of(type)) {
    const bool is_signed = widths().range_of_operands(op).is_signed();
    type = is_signed ? ir::Type::s32 : ir::Type::u32;
    if (op.code == Code::shl || op.code == Code::shr) {
      return math_.shifted(op.code, is_signed, x[0], widths().range(op.operands[1]).low);
    }
  }
  switch (op.code) {
    case Code::select:
      return b_.CreateSelect(x[0], x[1], x[2]);
    case Code::fma:
      return math_.multiply_add(op.type, x[0], x[1], x[2]);
    default:
      return x.size() == 1 ? math_.unary(op.code, op.type, x[0]) : math_.binary(op.code, type, x[0], x[1]);
  }
}

// A conversion of an operand that may have fewer bits than its type.
Value* Emitter::converted_narrow(ir::Id id, Value* x) {
  const ir::Op& op = program_[id];
  const ir::Id operand = op.operands[0];
  const ir::Type from = program_[operand].type;
  const Range& range = widths().range(operand);
  const int bits = widths().bits[static_cast<std::size_t>(id)];
  if (widths().passes_on(id)) return x;
  if (from == ir::Type::boolean && ir::is_integer(op.type)) {
    return b_.CreateZExt(x, math_.like(b_.getIntNTy(static_cast<unsigned>(bits)), x));
  }
  if (!widths().is_narrow(operand) || op.type == ir::Type::boolean) {
    return math_.converted(from, op.type, op.code == Code::nearest, x);
  }
  if (ir::is_float(op.type)) {
    // The signed conversion is quicker if both give the same.
    llvm::Type* target = math_.like(math_.element_type(op.type), x);
    const bool is_small = range.high <= std::numeric_limits<std::int32_t>::max();
    if (is_small) x = resized(operand, x, std::max(32, static_cast<int>(x->getType()->getScalarSizeInBits())));
    return range.is_signed() || is_small ? b_.CreateSIToFP(x, target) : b_.CreateUIToFP(x, target);
  }
  if (op.type == ir::Type::s64) return resized(operand, x, 64);
  // Only bounds that the range can exceed need a check.
  x = resized(operand, x, bits);
  const Range most = range_of(op.type);
  const auto bound = [&](std::int64_t value) {
    return llvm::ConstantInt::get(x->getType(), static_cast<std::uint64_t>(value), true);
  };
  if (range.low < most.low) x = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, bound(most.low));
  if (range.high > most.high) {
    const auto minimum = range.is_signed() ? llvm::Intrinsic::smin : llvm::Intrinsic::umin;
    x = b_.CreateBinaryIntrinsic(minimum, x, bound(most.high));
  }
  return x;
}

}  // namespace tessera::compile::cpu
