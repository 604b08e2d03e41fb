#include "compile/llvm/emitter.hpp"
#include "compile/llvm/vector_math.hpp"

#include <limits>
#include <llvm/IR/Intrinsics.h>

namespace tessera::compile {

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

std::int64_t least(ir::Type type) {
  switch (type) {
    case ir::Type::s32:
      return std::numeric_limits<std::int32_t>::min();
    case ir::Type::s64:
      return std::numeric_limits<std::int64_t>::min();
    default:
      return 0;
  }
}

std::uint64_t greatest(ir::Type type) {
  switch (type) {
    case ir::Type::u8:
      return 255;
    case ir::Type::s32:
      return std::numeric_limits<std::int32_t>::max();
    case ir::Type::u32:
      return std::numeric_limits<std::uint32_t>::max();
    case ir::Type::s64:
      return std::numeric_limits<std::int64_t>::max();
    default:
      return 1;
  }
}

}  // namespace

llvm::Type* Emitter::element_type(ir::Type type) const {
  switch (type) {
    case ir::Type::f32:
      return llvm::Type::getFloatTy(context_);
    case ir::Type::f64:
      return llvm::Type::getDoubleTy(context_);
    case ir::Type::boolean:
      return llvm::Type::getInt1Ty(context_);
    default:
      return llvm::Type::getIntNTy(context_, static_cast<unsigned>(ir::bits_of(type)));
  }
}

llvm::Type* Emitter::memory_type(ir::Type type) const {
  return type == ir::Type::boolean ? llvm::Type::getInt8Ty(context_) : element_type(type);
}

llvm::Type* Emitter::like(llvm::Type* element, Value* shape_of) const {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(shape_of->getType());
  return vector ? static_cast<llvm::Type*>(llvm::FixedVectorType::get(element, vector->getNumElements())) : element;
}

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

Emitter::Lanes Emitter::add_places(const Lanes& a, const Lanes& b) {
  if (a.is_vector || b.is_vector) return varying(b_.CreateAdd(vector(a), vector(b)));
  Value* stride = a.stride && b.stride ? b_.CreateAdd(a.stride, b.stride) : (a.stride ? a.stride : b.stride);
  if (is_zero(a.base)) return {b.base, stride, false};
  if (is_zero(b.base)) return {a.base, stride, false};
  return {b_.CreateAdd(a.base, b.base), stride, false};
}

Emitter::Lanes Emitter::mul_places(const Lanes& a, const Lanes& b) {
  if (a.is_vector || b.is_vector || (a.stride && b.stride)) return varying(b_.CreateMul(vector(a), vector(b)));
  if (!a.stride && is_one(a.base)) return b;
  if (!b.stride && is_one(b.base)) return a;
  Value* base = b_.CreateMul(a.base, b.base);
  if (a.stride) return {base, b_.CreateMul(a.stride, b.base), false};
  if (b.stride) return {base, b_.CreateMul(b.stride, a.base), false};
  return {base, nullptr, false};
}

Emitter::Lanes Emitter::elementwise(const ir::Op& op, std::span<const Lanes> operands) {
  const ir::Type type = program_[op.operands[0]].type;
  bool all_uniform = true;
  for (const Lanes& operand : operands) all_uniform &= operand.is_uniform();
  if (op.type == ir::Type::s64 && type == ir::Type::s64 && !all_uniform) {
    if (op.code == Code::add) return add_places(operands[0], operands[1]);
    if (op.code == Code::mul) return mul_places(operands[0], operands[1]);
    if (op.code == Code::sub && !operands[0].is_vector && !operands[1].is_vector && operands[0].stride &&
        !operands[1].stride) {
      return {b_.CreateSub(operands[0].base, operands[1].base), operands[0].stride, false};
    }
  }
  llvm::SmallVector<Value*, 3> values;
  for (const Lanes& operand : operands) values.push_back(all_uniform ? operand.base : vector(operand));
  // The types of the operands: of a select, those of what is selected.
  Value* result = apply(op, op.code == Code::select ? op.type : type, {values.data(), values.size()});
  return all_uniform ? uniform(result) : varying(result);
}

Value* Emitter::apply(const ir::Op& op, ir::Type operand_type, std::span<Value* const> x) {
  switch (op.code) {
    case Code::select:
      return b_.CreateSelect(x[0], x[1], x[2]);
    case Code::fma:
      return multiply_add(op.type, x[0], x[1], x[2]);
    case Code::convert:
    case Code::nearest:
      return converted(operand_type, op.type, op.code == Code::nearest, x[0]);
    default:
      return x.size() == 1 ? unary(op, x[0]) : binary(op.code, operand_type, x[0], x[1]);
  }
}

Value* Emitter::unary(const ir::Op& op, Value* x) {
  const bool is_float = ir::is_float(op.type);
  switch (op.code) {
    case Code::neg:
      return is_float ? b_.CreateFNeg(x) : b_.CreateNeg(x);
    case Code::abs:
      if (is_float) return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
      if (!ir::is_signed(op.type)) return x;
      return b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x, b_.getFalse());
    case Code::bit_not:
      return b_.CreateNot(x);
    case Code::sqrt:
      return b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x);
    case Code::floor:
      return b_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, x);
    case Code::ceil:
      return b_.CreateUnaryIntrinsic(llvm::Intrinsic::ceil, x);
    case Code::round:
      return b_.CreateUnaryIntrinsic(llvm::Intrinsic::round, x);
    case Code::rsqrt:
      return VectorMath(b_, host_.has_fma).rsqrt(x);
    case Code::exp:
      return VectorMath(b_, host_.has_fma).exp(x);
    case Code::log:
      return VectorMath(b_, host_.has_fma).log(x);
    case Code::sin:
      return VectorMath(b_, host_.has_fma).sin(x);
    case Code::cos:
      return VectorMath(b_, host_.has_fma).cos(x);
    case Code::tanh:
      return VectorMath(b_, host_.has_fma).tanh(x);
    default:
      return VectorMath(b_, host_.has_fma).erf(x);
  }
}

Value* Emitter::binary(Code code, ir::Type type, Value* a, Value* b) {
  const bool is_float = ir::is_float(type);
  switch (code) {
    case Code::add:
      return is_float ? b_.CreateFAdd(a, b) : b_.CreateAdd(a, b);
    case Code::sub:
      return is_float ? b_.CreateFSub(a, b) : b_.CreateSub(a, b);
    case Code::mul:
      return is_float ? b_.CreateFMul(a, b) : b_.CreateMul(a, b);
    case Code::div:
    case Code::rem:
      return divide(code, type, a, b);
    case Code::min:
    case Code::max:
      return minimum(code, type, a, b);
    case Code::pow:
      return is_float ? VectorMath(b_, host_.has_fma).pow(a, b) : integer_power(type, a, b);
    case Code::bit_and:
      return b_.CreateAnd(a, b);
    case Code::bit_or:
      return b_.CreateOr(a, b);
    case Code::bit_xor:
      return b_.CreateXor(a, b);
    case Code::shl:
    case Code::shr: {
      Value* width = llvm::ConstantInt::get(b->getType(), static_cast<std::uint64_t>(ir::bits_of(type) - 1));
      Value* amount = b_.CreateAnd(b, width);
      if (code == Code::shl) return b_.CreateShl(a, amount);
      return ir::is_signed(type) ? b_.CreateAShr(a, amount) : b_.CreateLShr(a, amount);
    }
    default:
      return compare(code, type, a, b);
  }
}

Value* Emitter::compare(Code code, ir::Type type, Value* a, Value* b) {
  using Predicate = llvm::CmpInst::Predicate;
  const bool is_signed = ir::is_signed(type);
  const auto pick = [&](Predicate of_floats, Predicate of_signed, Predicate of_unsigned) {
    if (ir::is_float(type)) return b_.CreateFCmp(of_floats, a, b);
    return b_.CreateICmp(is_signed ? of_signed : of_unsigned, a, b);
  };
  switch (code) {
    case Code::eq:
      return pick(Predicate::FCMP_OEQ, Predicate::ICMP_EQ, Predicate::ICMP_EQ);
    case Code::ne:
      return pick(Predicate::FCMP_UNE, Predicate::ICMP_NE, Predicate::ICMP_NE);
    case Code::lt:
      return pick(Predicate::FCMP_OLT, Predicate::ICMP_SLT, Predicate::ICMP_ULT);
    case Code::le:
      return pick(Predicate::FCMP_OLE, Predicate::ICMP_SLE, Predicate::ICMP_ULE);
    case Code::gt:
      return pick(Predicate::FCMP_OGT, Predicate::ICMP_SGT, Predicate::ICMP_UGT);
    default:
      return pick(Predicate::FCMP_OGE, Predicate::ICMP_SGE, Predicate::ICMP_UGE);
  }
}

Value* Emitter::divide(Code code, ir::Type type, Value* a, Value* b) {
  const bool is_division = code == Code::div;
  if (ir::is_float(type)) {
    if (is_division) return b_.CreateFDiv(a, b);
    return b_.CreateFRem(a, b);  // a call of fmod for each lane: it has no quick form
  }
  const bool is_signed = ir::is_signed(type);
  llvm::Type* of = a->getType();
  Value* zero = llvm::Constant::getNullValue(of);
  Value* one = llvm::ConstantInt::get(of, 1);
  const auto* constant = llvm::dyn_cast<llvm::Constant>(b);
  if (constant && of->isVectorTy()) constant = constant->getSplatValue();
  if (constant && llvm::isa<llvm::ConstantInt>(constant) && !constant->isNullValue() && !constant->isAllOnesValue()) {
    if (is_signed) return is_division ? b_.CreateSDiv(a, b) : b_.CreateSRem(a, b);
    return is_division ? b_.CreateUDiv(a, b) : b_.CreateURem(a, b);
  }
  // What the processor traps on is kept from it.
  Value* by_zero = b_.CreateICmpEQ(b, zero);
  if (!is_signed) {
    Value* safe = b_.CreateSelect(by_zero, one, b);
    Value* result = is_division ? b_.CreateUDiv(a, safe) : b_.CreateURem(a, safe);
    return b_.CreateSelect(by_zero, zero, result);
  }
  Value* by_minus_one = b_.CreateICmpEQ(b, llvm::Constant::getAllOnesValue(of));
  Value* safe = b_.CreateSelect(b_.CreateOr(by_zero, by_minus_one), one, b);
  Value* result = is_division ? b_.CreateSDiv(a, safe) : b_.CreateSRem(a, safe);
  if (is_division) result = b_.CreateSelect(by_minus_one, b_.CreateNeg(a), result);
  return b_.CreateSelect(by_zero, zero, result);
}

// By squaring, as long as any lane has bits of its exponent left.
Value* Emitter::integer_power(ir::Type type, Value* x, Value* n) {
  llvm::Type* of = x->getType();
  Value* zero = llvm::Constant::getNullValue(of);
  Value* one = llvm::ConstantInt::get(of, 1);
  Value* is_negative = ir::is_signed(type) ? b_.CreateICmpSLT(n, zero) : nullptr;
  Value* exponent = is_negative ? b_.CreateSelect(is_negative, zero, n) : n;

  llvm::BasicBlock* before = b_.GetInsertBlock();
  auto* head = llvm::BasicBlock::Create(context_, "power", function_);
  auto* body = llvm::BasicBlock::Create(context_, "power.body", function_);
  auto* end = llvm::BasicBlock::Create(context_, "power.end", function_);
  b_.CreateBr(head);
  b_.SetInsertPoint(head);
  llvm::PHINode* left = b_.CreatePHI(of, 2);
  llvm::PHINode* power = b_.CreatePHI(of, 2);
  llvm::PHINode* result = b_.CreatePHI(of, 2);
  Value* any = of->isVectorTy() ? static_cast<Value*>(b_.CreateOrReduce(left)) : left;
  b_.CreateCondBr(b_.CreateICmpNE(any, llvm::Constant::getNullValue(any->getType())), body, end);
  b_.SetInsertPoint(body);
  Value* is_odd = b_.CreateICmpNE(b_.CreateAnd(left, one), zero);
  Value* next = b_.CreateSelect(is_odd, b_.CreateMul(result, power), result);
  Value* squared = b_.CreateMul(power, power);
  Value* halved = b_.CreateLShr(left, one);
  b_.CreateBr(head);
  left->addIncoming(exponent, before);
  left->addIncoming(halved, body);
  power->addIncoming(x, before);
  power->addIncoming(squared, body);
  result->addIncoming(one, before);
  result->addIncoming(next, body);
  b_.SetInsertPoint(end);
  if (!is_negative) return result;
  // 1 / x^n: 1 and -1 keep something, all else is nothing.
  Value* minus_one = llvm::Constant::getAllOnesValue(of);
  Value* sign = b_.CreateSelect(b_.CreateICmpNE(b_.CreateAnd(n, one), zero), minus_one, one);
  Value* inverse =
      b_.CreateSelect(b_.CreateICmpEQ(x, one), one, b_.CreateSelect(b_.CreateICmpEQ(x, minus_one), sign, zero));
  return b_.CreateSelect(is_negative, inverse, result);
}

Value* Emitter::minimum(Code code, ir::Type type, Value* a, Value* b) {
  const bool is_max = code == Code::max || code == Code::reduce_max;
  if (ir::is_float(type)) {
    // One instruction where b may be NaN, a second and third for a.
    Value* picked = b_.CreateSelect(is_max ? b_.CreateFCmpOGT(a, b) : b_.CreateFCmpOLT(a, b), a, b);
    return b_.CreateSelect(b_.CreateFCmpUNO(a, a), a, picked);
  }
  const bool is_signed = ir::is_signed(type);
  const ID id = is_max ? (is_signed ? llvm::Intrinsic::smax : llvm::Intrinsic::umax)
                       : (is_signed ? llvm::Intrinsic::smin : llvm::Intrinsic::umin);
  return b_.CreateBinaryIntrinsic(id, a, b);
}

Value* Emitter::multiply_add(ir::Type type, Value* a, Value* b, Value* c) {
  if (!ir::is_float(type)) return b_.CreateAdd(b_.CreateMul(a, b), c);
  if (!host_.has_fma) return b_.CreateFAdd(b_.CreateFMul(a, b), c);
  return b_.CreateIntrinsic(llvm::Intrinsic::fma, {a->getType()}, {a, b, c});
}

Value* Emitter::converted(ir::Type from, ir::Type to, bool to_nearest, Value* x) {
  if (from == to) return x;
  llvm::Type* target = like(element_type(to), x);
  if (to == ir::Type::boolean) {
    Value* zero = llvm::Constant::getNullValue(x->getType());
    return ir::is_float(from) ? b_.CreateFCmpUNE(x, zero) : b_.CreateICmpNE(x, zero);
  }
  if (from == ir::Type::boolean) return ir::is_float(to) ? b_.CreateUIToFP(x, target) : b_.CreateZExt(x, target);
  if (ir::is_float(from)) {
    if (ir::is_float(to)) return b_.CreateFPCast(x, target);
    if (to_nearest) x = b_.CreateUnaryIntrinsic(llvm::Intrinsic::round, x);
    const ID id = ir::is_signed(to) ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat;
    return b_.CreateIntrinsic(id, {target, x->getType()}, {x});
  }
  const bool is_signed = ir::is_signed(from);
  if (ir::is_float(to)) return is_signed ? b_.CreateSIToFP(x, target) : b_.CreateUIToFP(x, target);
  const int from_bits = ir::bits_of(from);
  const int to_bits = ir::bits_of(to);
  const auto bound = [&](std::uint64_t value) { return llvm::ConstantInt::get(x->getType(), value, true); };
  if (is_signed && (to_bits < from_bits || !ir::is_signed(to))) {
    x = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, bound(static_cast<std::uint64_t>(least(to))));
  }
  if (to_bits < from_bits || (to_bits == from_bits && !is_signed)) {
    x = b_.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, x, bound(greatest(to)));
  }
  return is_signed ? b_.CreateSExtOrTrunc(x, target) : b_.CreateZExtOrTrunc(x, target);
}

Value* Emitter::identity_of(const ir::Op& reduction) {
  const ir::Type type = program_[reduction.operands[0]].type;
  llvm::Type* element = element_type(type);
  const bool is_max = reduction.code == Code::reduce_max || reduction.code == Code::argmax;
  switch (reduction.code) {
    case Code::reduce_sum:
      return llvm::Constant::getNullValue(element);
    case Code::reduce_product:
      return ir::is_float(type) ? llvm::ConstantFP::get(element, 1.0) : llvm::ConstantInt::get(element, 1);
    default:
      if (ir::is_float(type)) return llvm::ConstantFP::getInfinity(element, is_max);
      return llvm::ConstantInt::get(element, is_max ? static_cast<std::uint64_t>(least(type)) : greatest(type), true);
  }
}

Value* Emitter::combine(Code reduction, ir::Type type, Value* a, Value* b) {
  switch (reduction) {
    case Code::reduce_sum:
      return binary(Code::add, type, a, b);
    case Code::reduce_product:
      return binary(Code::mul, type, a, b);
    default:
      return minimum(reduction, type, a, b);
  }
}

// Halves against halves.
Value* Emitter::across_lanes(Code reduction, ir::Type type, Value* value) {
  const auto* of = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
  if (!of) return value;
  for (unsigned count = of->getNumElements() / 2; count > 0; count /= 2) {
    llvm::SmallVector<int, 32> low, high;
    for (unsigned i = 0; i < count; ++i) {
      low.push_back(static_cast<int>(i));
      high.push_back(static_cast<int>(i + count));
    }
    value = combine(reduction, type, b_.CreateShuffleVector(value, low), b_.CreateShuffleVector(value, high));
  }
  return b_.CreateExtractElement(value, std::uint64_t{0});
}

}  // namespace tessera::compile
