#include "compile/cpu/llvm/element_math.hpp"

#include "compile/cpu/llvm/vector_math.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>
#include <llvm/TargetParser/Triple.h>

namespace tessera::compile::cpu {

using ir::Code;
using llvm::Value;
using llvm::Intrinsic::ID;

namespace {

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

ElementMath::ElementMath(llvm::IRBuilderBase& builder, const llvm::Module& module, const Host& host)
    : b_(builder), host_(host), is_x86_(llvm::Triple(module.getTargetTriple()).isX86()) {}

VectorMath ElementMath::functions() const { return {b_, host_.has_fma}; }

Value* ElementMath::from_memory(ir::Type type, Value* value) {
  if (type != ir::Type::boolean) return value;
  return b_.CreateICmpNE(value, llvm::Constant::getNullValue(value->getType()));
}

Value* ElementMath::to_memory(ir::Type type, Value* value) {
  if (type != ir::Type::boolean) return value;
  return b_.CreateZExt(value, like(memory_type(type), value));
}

llvm::Type* ElementMath::element_type(ir::Type type) const {
  switch (type) {
    case ir::Type::f32:
      return llvm::Type::getFloatTy(b_.getContext());
    case ir::Type::f64:
      return llvm::Type::getDoubleTy(b_.getContext());
    case ir::Type::boolean:
      return llvm::Type::getInt1Ty(b_.getContext());
    default:
      return llvm::Type::getIntNTy(b_.getContext(), static_cast<unsigned>(ir::bits_of(type)));
  }
}

llvm::Type* ElementMath::memory_type(ir::Type type) const {
  return type == ir::Type::boolean ? llvm::Type::getInt8Ty(b_.getContext()) : element_type(type);
}

llvm::Type* ElementMath::like(llvm::Type* element, Value* shape_of) const {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(shape_of->getType());
  return vector ? static_cast<llvm::Type*>(llvm::FixedVectorType::get(element, vector->getNumElements())) : element;
}

Value* ElementMath::instruction(const RegisterForms& forms, Value* a, Value* b) {
  const ID id = host_.vector_bits == 512 ? forms.of_512 : host_.vector_bits == 256 ? forms.of_256 : forms.of_128;
  return b_.CreateIntrinsic(id, {}, {a, b});
}

// An x86 instruction that LLVM rarely finds in the plain form, or only after a long search, applied to vectors of as
// many bits as a register. Null where there is no such instruction.
Value* ElementMath::in_registers(const RegisterForms& forms, Value* a, Value* b) {
  const auto* type = llvm::dyn_cast<llvm::FixedVectorType>(a->getType());
  const unsigned fit = host_.vector_bits / a->getType()->getScalarSizeInBits();
  if (!type || type->getNumElements() % fit != 0 || !is_x86_) return nullptr;
  llvm::SmallVector<Value*, 8> parts;
  for (unsigned first = 0; first < type->getNumElements(); first += fit) {
    const auto part = [&](Value* of) { return b_.CreateShuffleVector(of, llvm::createSequentialMask(first, fit, 0)); };
    parts.push_back(instruction(forms, part(a), part(b)));
  }
  return llvm::concatenateVectors(b_, parts);
}

// The upper half of a product of 16-bit numbers.
Value* ElementMath::upper_half(Value* a, Value* b, bool is_signed) {
  constexpr RegisterForms unsigned_forms = {llvm::Intrinsic::x86_sse2_pmulhu_w, llvm::Intrinsic::x86_avx2_pmulhu_w,
                                            llvm::Intrinsic::x86_avx512_pmulhu_w_512};
  constexpr RegisterForms signed_forms = {llvm::Intrinsic::x86_sse2_pmulh_w, llvm::Intrinsic::x86_avx2_pmulh_w,
                                          llvm::Intrinsic::x86_avx512_pmulh_w_512};
  if (Value* half = in_registers(is_signed ? signed_forms : unsigned_forms, a, b)) return half;
  llvm::Type* wide = like(b_.getInt32Ty(), a);
  const auto widened = [&](Value* x) { return is_signed ? b_.CreateSExt(x, wide) : b_.CreateZExt(x, wide); };
  Value* product = b_.CreateMul(widened(a), widened(b));
  return b_.CreateTrunc(b_.CreateLShr(product, llvm::ConstantInt::get(wide, 16)), a->getType());
}

// (a + b + 1) >> 1, which fits in the bits of a and b.
Value* ElementMath::average(Value* a, Value* b) {
  constexpr RegisterForms of_bytes = {llvm::Intrinsic::x86_sse2_pavg_b, llvm::Intrinsic::x86_avx2_pavg_b,
                                      llvm::Intrinsic::x86_avx512_pavg_b_512};
  constexpr RegisterForms of_halves = {llvm::Intrinsic::x86_sse2_pavg_w, llvm::Intrinsic::x86_avx2_pavg_w,
                                       llvm::Intrinsic::x86_avx512_pavg_w_512};
  const bool is_byte = a->getType()->getScalarSizeInBits() == 8;
  if (Value* mean = in_registers(is_byte ? of_bytes : of_halves, a, b)) return mean;
  llvm::Type* wide = like(b_.getInt32Ty(), a);
  Value* one = llvm::ConstantInt::get(wide, 1);
  Value* sum = b_.CreateAdd(b_.CreateAdd(b_.CreateZExt(a, wide), b_.CreateZExt(b, wide)), one);
  return b_.CreateTrunc(b_.CreateLShr(sum, one), a->getType());
}

// Shifts by an amount that may exceed the number of bits.
Value* ElementMath::shifted(Code code, bool is_signed, Value* a, std::int64_t amount) {
  const auto last = static_cast<std::int64_t>(a->getType()->getScalarSizeInBits()) - 1;
  if (amount > last && (code == Code::shl || !is_signed)) return llvm::Constant::getNullValue(a->getType());
  Value* by = llvm::ConstantInt::get(a->getType(), static_cast<std::uint64_t>(std::min(amount, last)));
  if (code == Code::shl) return b_.CreateShl(a, by);
  return is_signed ? b_.CreateAShr(a, by) : b_.CreateLShr(a, by);
}

Value* ElementMath::unary(Code code, ir::Type type, Value* x) {
  const bool is_float = ir::is_float(type);
  switch (code) {
    case Code::neg:
      return is_float ? b_.CreateFNeg(x) : b_.CreateNeg(x);
    case Code::abs:
      if (is_float) return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
      if (!ir::is_signed(type)) return x;
      return b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x, b_.getFalse());
    case Code::bit_not:
      return b_.CreateNot(x);
    case Code::sqrt:
      return b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x);
    case Code::floor:
    case Code::ceil:
    case Code::round:
      return to_whole(code, x);
    case Code::rsqrt:
      return functions().rsqrt(x);
    case Code::exp:
      return functions().exp(x);
    case Code::log:
      return functions().log(x);
    case Code::sin:
      return functions().sin(x);
    case Code::cos:
      return functions().cos(x);
    case Code::tanh:
      return functions().tanh(x);
    default:
      return functions().erf(x);
  }
}

Value* ElementMath::to_whole(Code code, Value* x) {
  // Before SSE4.1, LLVM would call a function for each lane.
  const bool has_instruction = host_.level != VectorLevel::baseline || !is_x86_;
  const VectorMath by_hand = functions();
  switch (code) {
    case Code::floor:
      return has_instruction ? b_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, x) : by_hand.floor(x);
    case Code::ceil:
      return has_instruction ? b_.CreateUnaryIntrinsic(llvm::Intrinsic::ceil, x) : by_hand.ceil(x);
    default:
      return has_instruction ? b_.CreateUnaryIntrinsic(llvm::Intrinsic::round, x) : by_hand.round(x);
  }
}

Value* ElementMath::binary(Code code, ir::Type type, Value* a, Value* b) {
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
      return is_float ? functions().pow(a, b) : integer_power(type, a, b);
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

Value* ElementMath::compare(Code code, ir::Type type, Value* a, Value* b) {
  using Predicate = llvm::CmpInst::Predicate;
  bool is_signed = ir::is_signed(type);
  // A widened value is compared with a constant in its original width if the constant fits: LLVM would widen the rest
  // too.
  const auto* widened = llvm::dyn_cast<llvm::ZExtInst>(a);
  const auto* number = llvm::dyn_cast<llvm::Constant>(b);
  if (number && number->getType()->isVectorTy()) number = number->getSplatValue();
  const auto* fits = llvm::dyn_cast_or_null<llvm::ConstantInt>(number);
  if (widened && fits && fits->getValue().isIntN(widened->getSrcTy()->getScalarSizeInBits())) {
    a = widened->getOperand(0);
    b = llvm::ConstantInt::get(a->getType(), fits->getZExtValue());
    is_signed = false;
  }
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

Value* ElementMath::divide(Code code, ir::Type type, Value* a, Value* b) {
  const bool is_division = code == Code::div;
  if (ir::is_float(type)) {
    if (is_division) return b_.CreateFDiv(a, b);
    return b_.CreateFRem(a, b);  // calls fmod for each lane
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
  // The processor must not trap.
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

// By repeated squaring, until every lane's exponent is used up.
Value* ElementMath::integer_power(ir::Type type, Value* x, Value* n) {
  llvm::Type* of = x->getType();
  Value* zero = llvm::Constant::getNullValue(of);
  Value* one = llvm::ConstantInt::get(of, 1);
  Value* is_negative = ir::is_signed(type) ? b_.CreateICmpSLT(n, zero) : nullptr;
  Value* exponent = is_negative ? b_.CreateSelect(is_negative, zero, n) : n;

  llvm::BasicBlock* before = b_.GetInsertBlock();
  auto* head = llvm::BasicBlock::Create(b_.getContext(), "power", b_.GetInsertBlock()->getParent());
  auto* body = llvm::BasicBlock::Create(b_.getContext(), "power.body", b_.GetInsertBlock()->getParent());
  auto* end = llvm::BasicBlock::Create(b_.getContext(), "power.end", b_.GetInsertBlock()->getParent());
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
  // 1 / x^n is 0 unless x is 1 or -1.
  Value* minus_one = llvm::Constant::getAllOnesValue(of);
  Value* sign = b_.CreateSelect(b_.CreateICmpNE(b_.CreateAnd(n, one), zero), minus_one, one);
  Value* inverse =
      b_.CreateSelect(b_.CreateICmpEQ(x, one), one, b_.CreateSelect(b_.CreateICmpEQ(x, minus_one), sign, zero));
  return b_.CreateSelect(is_negative, inverse, result);
}

Value* ElementMath::minimum(Code code, ir::Type type, Value* a, Value* b) {
  const bool is_max = code == Code::max || code == Code::reduce_max;
  if (ir::is_float(type)) {
    // One instruction if only b may be NaN; two more for a.
    Value* picked = b_.CreateSelect(is_max ? b_.CreateFCmpOGT(a, b) : b_.CreateFCmpOLT(a, b), a, b);
    return b_.CreateSelect(b_.CreateFCmpUNO(a, a), a, picked);
  }
  const bool is_signed = ir::is_signed(type);
  const ID id = is_max ? (is_signed ? llvm::Intrinsic::smax : llvm::Intrinsic::umax)
                       : (is_signed ? llvm::Intrinsic::smin : llvm::Intrinsic::umin);
  return b_.CreateBinaryIntrinsic(id, a, b);
}

Value* ElementMath::multiply_add(ir::Type type, Value* a, Value* b, Value* c) {
  if (!ir::is_float(type)) return b_.CreateAdd(b_.CreateMul(a, b), c);
  if (!host_.has_fma) return b_.CreateFAdd(b_.CreateFMul(a, b), c);
  return b_.CreateIntrinsic(llvm::Intrinsic::fma, {a->getType()}, {a, b, c});
}

Value* ElementMath::converted(ir::Type from, ir::Type to, bool to_nearest, Value* x) {
  if (from == to) return x;
  llvm::Type* target = like(element_type(to), x);
  if (to == ir::Type::boolean) {
    Value* zero = llvm::Constant::getNullValue(x->getType());
    return ir::is_float(from) ? b_.CreateFCmpUNE(x, zero) : b_.CreateICmpNE(x, zero);
  }
  if (from == ir::Type::boolean) return ir::is_float(to) ? b_.CreateUIToFP(x, target) : b_.CreateZExt(x, target);
  if (ir::is_float(from)) {
    if (ir::is_float(to)) return b_.CreateFPCast(x, target);
    if (to == ir::Type::u8) return float_to_byte(to_nearest, x);
    return float_to_integer(to, to_nearest ? to_whole(Code::round, x) : x);
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

// Clamped before it is converted: LLVM would expand a saturating conversion lane by lane. Mixing two 1080p images took
// 7 ms instead of 0.6, and computing the coordinates of a resize took as long as everything else.
Value* ElementMath::float_to_integer(ir::Type to, Value* x) {
  const auto bits = static_cast<int>(ir::bits_of(to));
  const bool is_signed = ir::is_signed(to), is_double = x->getType()->getScalarType()->isDoubleTy();
  const double limit = std::ldexp(1.0, is_signed ? bits - 1 : bits);  // the first number that is too large
  const double last = is_double ? std::nextafter(limit, 0.0) : double{std::nextafterf(static_cast<float>(limit), 0.0f)};
  const auto number = [&](double value) { return llvm::ConstantFP::get(x->getType(), value); };
  llvm::Type* target = like(element_type(to), x);
  Value* bounded =
      b_.CreateSelect(b_.CreateFCmpOGT(x, number(is_signed ? -limit : 0)), x, number(is_signed ? -limit : 0));
  bounded = b_.CreateSelect(b_.CreateFCmpOLT(bounded, number(last)), bounded, number(last));
  Value* whole = is_signed ? b_.CreateFPToSI(bounded, target) : b_.CreateFPToUI(bounded, target);
  Value* most = llvm::ConstantInt::get(target, greatest(to));
  whole = b_.CreateSelect(b_.CreateFCmpOGE(x, number(limit)), most, whole);
  return is_signed ? b_.CreateSelect(b_.CreateFCmpUNO(x, x), llvm::Constant::getNullValue(target), whole) : whole;
}

// A number clamped to a byte's range is not negative, so adding the largest number below 0.5 and truncating rounds
// halves away from zero.
Value* ElementMath::float_to_byte(bool to_nearest, Value* x) {
  const auto number = [&](double value) { return llvm::ConstantFP::get(x->getType(), value); };
  x = b_.CreateSelect(b_.CreateFCmpOGT(x, number(0)), x, number(0));  // NaN is 0
  x = b_.CreateSelect(b_.CreateFCmpOLT(x, number(255)), x, number(255));
  if (to_nearest) {
    const bool is_double = x->getType()->getScalarType()->isDoubleTy();
    x = b_.CreateFAdd(x, number(is_double ? std::nextafter(0.5, 0.0) : double{std::nextafterf(0.5f, 0.0f)}));
  }
  return b_.CreateTrunc(b_.CreateFPToSI(x, like(b_.getInt32Ty(), x)), like(b_.getInt8Ty(), x));
}

Value* ElementMath::identity_of(Code reduction, ir::Type type) {
  llvm::Type* element = element_type(type);
  const bool is_max = reduction == Code::reduce_max || reduction == Code::argmax;
  switch (reduction) {
    case Code::reduce_sum:
      return llvm::Constant::getNullValue(element);
    case Code::reduce_product:
      return ir::is_float(type) ? llvm::ConstantFP::get(element, 1.0) : llvm::ConstantInt::get(element, 1);
    default:
      if (ir::is_float(type)) return llvm::ConstantFP::getInfinity(element, is_max);
      return llvm::ConstantInt::get(element, is_max ? static_cast<std::uint64_t>(least(type)) : greatest(type), true);
  }
}

Value* ElementMath::combine(Code reduction, ir::Type type, Value* a, Value* b) {
  switch (reduction) {
    case Code::reduce_sum:
      return binary(Code::add, type, a, b);
    case Code::reduce_product:
      return binary(Code::mul, type, a, b);
    default:
      return minimum(reduction, type, a, b);
  }
}

// Combines the upper half with the lower until one lane is left.
Value* ElementMath::across_lanes(Code reduction, ir::Type type, Value* value) {
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

}  // namespace tessera::compile::cpu
