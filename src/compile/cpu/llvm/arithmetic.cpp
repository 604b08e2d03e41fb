#include "compile/cpu/llvm/emitter.hpp"
#include "compile/cpu/llvm/vector_math.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/TargetParser/Triple.h>

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
  // Numbers last, so that neighbours differ by a number only, and have all the rest in common.
  const auto [first, more] = without_number(a.base);
  const auto [second, yet_more] = without_number(b.base);
  Value* sum = is_zero(second) ? first : is_zero(first) ? second : b_.CreateAdd(first, second);
  const std::int64_t number = more + yet_more;
  return {number == 0 ? sum : b_.CreateAdd(sum, i64(number)), stride, false};
}

// A place as a sum of a value and a number.
std::pair<Value*, std::int64_t> Emitter::without_number(Value* place) {
  if (const auto* number = llvm::dyn_cast<llvm::ConstantInt>(place)) return {i64(0), number->getSExtValue()};
  const auto* sum = llvm::dyn_cast<llvm::BinaryOperator>(place);
  if (!sum || sum->getOpcode() != llvm::Instruction::Add) return {place, 0};
  const auto* number = llvm::dyn_cast<llvm::ConstantInt>(sum->getOperand(1));
  return number ? std::pair{sum->getOperand(0), number->getSExtValue()} : std::pair{place, std::int64_t{0}};
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

Emitter::Lanes Emitter::elementwise(ir::Id id, std::span<const Lanes> operands) {
  const ir::Op& op = program_[id];
  const ir::Type type = program_[op.operands[0]].type;
  bool all_uniform = true;
  for (const Lanes& operand : operands) all_uniform &= operand.is_uniform();
  if (op.type == ir::Type::s64 && type == ir::Type::s64 && op.code == Code::add) {
    return add_places(operands[0], operands[1]);
  }
  if (op.type == ir::Type::s64 && type == ir::Type::s64 && !all_uniform) {
    if (op.code == Code::mul) return mul_places(operands[0], operands[1]);
    if (op.code == Code::sub && !operands[0].is_vector && !operands[1].is_vector && operands[0].stride &&
        !operands[1].stride) {
      return {b_.CreateSub(operands[0].base, operands[1].base), operands[0].stride, false};
    }
  }
  if (op.type == ir::Type::s64 && op.code == Code::rem && widths().range(op.operands[0]).low >= 0) {
    if (Value* rest = place_in_group(operands[0], operands[1])) return varying(rest);
  }
  llvm::SmallVector<Value*, 3> values;
  for (const Lanes& operand : operands) values.push_back(all_uniform ? operand.base : vector(operand));
  Value* result = apply(id, {values.data(), values.size()});
  return all_uniform ? uniform(result) : varying(result);
}

// A place that is not negative modulo a small power of two, as the channel that an element of a row has: in bytes, and
// then widened, which a comparison takes back. Null where it is not that.
Value* Emitter::place_in_group(const Lanes& place, const Lanes& size) {
  constexpr std::uint64_t largest = 128;
  const auto* stride = llvm::dyn_cast_or_null<llvm::ConstantInt>(place.stride);
  const auto* number = size.is_uniform() ? llvm::dyn_cast<llvm::ConstantInt>(size.base) : nullptr;
  if (lanes_ == 1 || place.is_vector || !stride || !number || !number->getValue().isPowerOf2() ||
      number->getValue().ugt(largest))
    return nullptr;
  std::vector<llvm::Constant*> steps;
  for (int lane = 0; lane < lanes_; ++lane) {
    const std::int64_t step = lane * stride->getSExtValue() % static_cast<std::int64_t>(largest);
    steps.push_back(b_.getInt8(static_cast<std::uint8_t>(step)));
  }
  Value* first = b_.CreateVectorSplat(static_cast<unsigned>(lanes_), b_.CreateTrunc(place.base, b_.getInt8Ty()));
  Value* places = b_.CreateAdd(first, llvm::ConstantVector::get(steps));
  auto last = static_cast<std::uint8_t>(number->getZExtValue() - 1);
  Value* rest = b_.CreateAnd(places, llvm::ConstantInt::get(places->getType(), last));
  return b_.CreateZExt(rest, like(b_.getInt64Ty(), rest));
}

Value* Emitter::resized(ir::Id id, Value* value, int bits) {
  const auto now = static_cast<int>(value->getType()->getScalarSizeInBits());
  if (!ir::is_integer(program_[id].type) || now == bits) return value;
  llvm::Type* target = like(b_.getIntNTy(static_cast<unsigned>(bits)), value);
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
    return upper_half(x[0], other, product.is_signed);
  }
  if (widths().average(id).a != ir::none) return average(x[0], x[1]);
  if (const auto sum = widths().product_sum(id); !sum.terms.empty()) return product_sum(id, sum, x);

  // Where there are fewer bits than the type has, the numbers tell whether there is a sign.
  ir::Type type = program_[op.operands[0]].type;
  if (ir::is_integer(type) && bits < ir::bits_of(type)) {
    const bool is_signed = widths().range_of_operands(op).is_signed();
    type = is_signed ? ir::Type::s32 : ir::Type::u32;
    if (op.code == Code::shl || op.code == Code::shr) {
      return shifted(op.code, is_signed, x[0], widths().range(op.operands[1]).low);
    }
  }
  switch (op.code) {
    case Code::select:
      return b_.CreateSelect(x[0], x[1], x[2]);
    case Code::fma:
      return multiply_add(op.type, x[0], x[1], x[2]);
    default:
      return x.size() == 1 ? unary(op, x[0]) : binary(op.code, type, x[0], x[1]);
  }
}

Value* Emitter::instruction(const RegisterForms& forms, Value* a, Value* b) {
  const ID id = host_.vector_bits == 512 ? forms.of_512 : host_.vector_bits == 256 ? forms.of_256 : forms.of_128;
  return b_.CreateIntrinsic(id, {}, {a, b});
}

// What x86 has an instruction for, which LLVM finds in the plain form only now and then, or after a long search: in
// vectors of as many bits as a register. Null where there is none.
Value* Emitter::in_registers(const RegisterForms& forms, Value* a, Value* b) {
  const auto* type = llvm::dyn_cast<llvm::FixedVectorType>(a->getType());
  const unsigned fit = host_.vector_bits / a->getType()->getScalarSizeInBits();
  if (!type || type->getNumElements() % fit != 0 || !llvm::Triple(module_.getTargetTriple()).isX86()) return nullptr;
  llvm::SmallVector<Value*, 8> parts;
  for (unsigned first = 0; first < type->getNumElements(); first += fit) {
    const auto part = [&](Value* of) { return b_.CreateShuffleVector(of, llvm::createSequentialMask(first, fit, 0)); };
    parts.push_back(instruction(forms, part(a), part(b)));
  }
  return llvm::concatenateVectors(b_, parts);
}

// The upper half of a product of 16-bit numbers.
Value* Emitter::upper_half(Value* a, Value* b, bool is_signed) {
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

// (a + b + 1) >> 1, which fits where a and b fit.
Value* Emitter::average(Value* a, Value* b) {
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

// By an amount that may be more than the bits there are.
Value* Emitter::shifted(Code code, bool is_signed, Value* a, std::int64_t amount) {
  const auto last = static_cast<std::int64_t>(a->getType()->getScalarSizeInBits()) - 1;
  if (amount > last && (code == Code::shl || !is_signed)) return llvm::Constant::getNullValue(a->getType());
  Value* by = llvm::ConstantInt::get(a->getType(), static_cast<std::uint64_t>(std::min(amount, last)));
  if (code == Code::shl) return b_.CreateShl(a, by);
  return is_signed ? b_.CreateAShr(a, by) : b_.CreateLShr(a, by);
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
    case Code::ceil:
    case Code::round:
      return to_whole(op.code, x);
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

Value* Emitter::to_whole(Code code, Value* x) {
  // Before SSE4.1 LLVM would call a function for each lane.
  const bool has_instruction = host_.level != VectorLevel::baseline || !llvm::Triple(module_.getTargetTriple()).isX86();
  const VectorMath by_hand(b_, host_.has_fma);
  switch (code) {
    case Code::floor:
      return has_instruction ? b_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, x) : by_hand.floor(x);
    case Code::ceil:
      return has_instruction ? b_.CreateUnaryIntrinsic(llvm::Intrinsic::ceil, x) : by_hand.ceil(x);
    default:
      return has_instruction ? b_.CreateUnaryIntrinsic(llvm::Intrinsic::round, x) : by_hand.round(x);
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
  bool is_signed = ir::is_signed(type);
  // What was widened, with a number that fits: as it was. LLVM would widen the rest of it too.
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

// A conversion, whatever bits its operand is in.
Value* Emitter::converted_narrow(ir::Id id, Value* x) {
  const ir::Op& op = program_[id];
  const ir::Id operand = op.operands[0];
  const ir::Type from = program_[operand].type;
  const Range& range = widths().range(operand);
  const int bits = widths().bits[static_cast<std::size_t>(id)];
  if (widths().passes_on(id)) return x;
  if (from == ir::Type::boolean && ir::is_integer(op.type)) {
    return b_.CreateZExt(x, like(b_.getIntNTy(static_cast<unsigned>(bits)), x));
  }
  if (!widths().is_narrow(operand) || op.type == ir::Type::boolean) {
    return converted(from, op.type, op.code == Code::nearest, x);
  }
  if (ir::is_float(op.type)) {
    // Signed is quicker where it gives the same.
    llvm::Type* target = like(element_type(op.type), x);
    const bool is_small = range.high <= std::numeric_limits<std::int32_t>::max();
    if (is_small) x = resized(operand, x, std::max(32, static_cast<int>(x->getType()->getScalarSizeInBits())));
    return range.is_signed() || is_small ? b_.CreateSIToFP(x, target) : b_.CreateUIToFP(x, target);
  }
  if (op.type == ir::Type::s64) return resized(operand, x, 64);
  // Only what can happen has to be kept from happening.
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

// Bounded before it is converted: LLVM takes a conversion that saturates apart, lane by lane. Mixing two images of
// 1080p took 7 ms instead of 0.6, finding the places of a resized one as long as all the rest.
Value* Emitter::float_to_integer(ir::Type to, Value* x) {
  const auto bits = static_cast<int>(ir::bits_of(to));
  const bool is_signed = ir::is_signed(to), is_double = x->getType()->getScalarType()->isDoubleTy();
  const double limit = std::ldexp(1.0, is_signed ? bits - 1 : bits);  // the first that is too large
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

// What is between a byte's bounds has no sign, so that the least number below 0.5 and cutting off round half away from
// zero.
Value* Emitter::float_to_byte(bool to_nearest, Value* x) {
  const auto number = [&](double value) { return llvm::ConstantFP::get(x->getType(), value); };
  x = b_.CreateSelect(b_.CreateFCmpOGT(x, number(0)), x, number(0));  // NaN is 0
  x = b_.CreateSelect(b_.CreateFCmpOLT(x, number(255)), x, number(255));
  if (to_nearest) {
    const bool is_double = x->getType()->getScalarType()->isDoubleTy();
    x = b_.CreateFAdd(x, number(is_double ? std::nextafter(0.5, 0.0) : double{std::nextafterf(0.5f, 0.0f)}));
  }
  return b_.CreateTrunc(b_.CreateFPToSI(x, like(b_.getInt32Ty(), x)), like(b_.getInt8Ty(), x));
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
