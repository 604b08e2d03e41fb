#include "compile/cpu/llvm/vector_math.hpp"

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>
#include <string>

// The polynomials are minimax polynomials (Remez algorithm) for the error that matters where they are used. Products
// that must be exact have a constant with trailing zero bits, so that they are exact with and without fused
// multiply-add.
//
// To round to an integer, 2^23 or 2^52 is added, which leaves the integer in the low bits: rounding instructions are
// missing before SSE4.1, and LLVM would call functions instead.

namespace tessera::compile::cpu {

namespace {

using llvm::Value;

constexpr double infinity = std::numeric_limits<double>::infinity();

// The parameters of a floating-point type.
struct Format {
  unsigned mantissa;        // bits of it
  std::uint64_t bias;       // of the exponent
  std::uint64_t half_root;  // the bits of sqrt(1/2)
  double whole;             // from here to twice as much, all numbers are integers
  double smallest;          // normal number
  double widen;             // times this, every subnormal number is normal
  double widen_log2;
};
constexpr Format f32_format = {23, 127, 0x3f3504f3, 0x1p23, 0x1p-126, 0x1p24, 24};
constexpr Format f64_format = {52, 1023, 0x3fe6a09e667f3bcd, 0x1p52, 0x1p-1022, 0x1p54, 54};

struct Emitter;

// A value whose arithmetic emits instructions.
struct Real {
  const Emitter* emitter;
  Value* value;
};

// A number as the sum of two; the second is less than an ulp of the first.
struct Pair {
  Real high;
  Real low;
};

llvm::Type* with_lanes_of(llvm::Type* model, llvm::Type* scalar) {
  if (auto* vector = llvm::dyn_cast<llvm::VectorType>(model)) {
    return llvm::VectorType::get(scalar, vector->getElementCount());
  }
  return scalar;
}

struct Emitter {
  Emitter(llvm::IRBuilderBase& builder, bool fused, llvm::Type* real)
      : ir(builder),
        has_fma(fused),
        type(real),
        bits_type(with_lanes_of(real, builder.getIntNTy(real->getScalarSizeInBits()))),
        is_f32(real->getScalarType()->isFloatTy()),
        format(is_f32 ? f32_format : f64_format) {}

  // The same with double.
  Emitter wide() const { return {ir, has_fma, with_lanes_of(type, ir.getDoubleTy())}; }

  Real real(Value* value) const { return {this, value}; }
  Real number(double constant) const { return real(llvm::ConstantFP::get(type, constant)); }
  Value* word(std::uint64_t constant) const { return llvm::ConstantInt::get(bits_type, constant); }
  Value* bits(Real x) const { return ir.CreateBitCast(x.value, bits_type); }
  Real from_bits(Value* word) const { return real(ir.CreateBitCast(word, type)); }
  Real call(llvm::Intrinsic::ID id, std::initializer_list<Value*> arguments) const {
    return real(ir.CreateIntrinsic(id, {type}, arguments));
  }

  llvm::IRBuilderBase& ir;
  bool has_fma;
  llvm::Type* type;
  llvm::Type* bits_type;
  bool is_f32;
  const Format& format;
};

Real operator+(Real a, Real b) { return a.emitter->real(a.emitter->ir.CreateFAdd(a.value, b.value)); }
Real operator-(Real a, Real b) { return a.emitter->real(a.emitter->ir.CreateFSub(a.value, b.value)); }
Real operator*(Real a, Real b) { return a.emitter->real(a.emitter->ir.CreateFMul(a.value, b.value)); }
Real operator/(Real a, Real b) { return a.emitter->real(a.emitter->ir.CreateFDiv(a.value, b.value)); }
Real operator-(Real a) { return a.emitter->real(a.emitter->ir.CreateFNeg(a.value)); }
Real operator+(Real a, double b) { return a + a.emitter->number(b); }
Real operator-(Real a, double b) { return a - a.emitter->number(b); }
Real operator*(Real a, double b) { return a * a.emitter->number(b); }
Real operator-(double a, Real b) { return b.emitter->number(a) - b; }
Real operator/(double a, Real b) { return b.emitter->number(a) / b; }

// Comparisons are false for NaN.
Value* operator<(Real a, Real b) { return a.emitter->ir.CreateFCmpOLT(a.value, b.value); }
Value* operator<(Real a, double b) { return a < a.emitter->number(b); }
Value* operator>(Real a, double b) { return a.emitter->number(b) < a; }
Value* operator>=(Real a, double b) { return a.emitter->ir.CreateFCmpOGE(a.value, a.emitter->number(b).value); }
Value* operator==(Real a, Real b) { return a.emitter->ir.CreateFCmpOEQ(a.value, b.value); }
Value* operator==(Real a, double b) { return a == a.emitter->number(b); }

Real select(Value* condition, Real a, Real b) {
  return a.emitter->real(a.emitter->ir.CreateSelect(condition, a.value, b.value));
}
Real select(Value* condition, double a, Real b) { return select(condition, b.emitter->number(a), b); }

// NaN stays NaN.
Real at_most(Real x, double limit) { return select(x > limit, limit, x); }
Real at_least(Real x, double limit) { return select(x < limit, limit, x); }

Real abs(Real x) { return x.emitter->call(llvm::Intrinsic::fabs, {x.value}); }
Real copy_sign(Real x, Real sign) { return x.emitter->call(llvm::Intrinsic::copysign, {x.value, sign.value}); }

Real fma(Real a, Real b, Real c) {
  return a.emitter->has_fma ? a.emitter->call(llvm::Intrinsic::fma, {a.value, b.value, c.value}) : a * b + c;
}
Real fma(Real a, double b, Real c) { return fma(a, a.emitter->number(b), c); }
Real fma(Real a, Real b, double c) { return fma(a, b, a.emitter->number(c)); }
Real fma(Real a, double b, double c) { return fma(a, a.emitter->number(b), a.emitter->number(c)); }

// The first coefficient is that of x^0.
Real polynomial(Real x, std::initializer_list<double> coefficients) {
  const double* next = coefficients.end() - 1;
  Real sum = x.emitter->number(*next);
  while (next != coefficients.begin()) sum = fma(sum, x, *--next);
  return sum;
}

// a + b exactly.
Pair exact_sum(Real a, Real b) {
  const Real sum = a + b;
  const Real b_part = sum - a;
  return {sum, (a - (sum - b_part)) + (b - b_part)};
}

// The same, shorter, where |a| >= |b| or a is 0.
Pair exact_sum_ordered(Real a, Real b) {
  const Real sum = a + b;
  return {sum, b - (sum - a)};
}

// a in halves whose products are exact; |a| < 2^995.
Pair halves(Real a) {
  const Real wide = a * (0x1p27 + 1);
  const Real high = wide - (wide - a);
  return {high, a - high};
}

// a * b exactly; of double.
Pair exact_product(Real a, Real b) {
  const Real product = a * b;
  if (a.emitter->has_fma) return {product, fma(a, b, -product)};
  const Pair x = halves(a);
  const Pair y = halves(b);
  return {product, ((x.high * y.high - product) + x.high * y.low + x.low * y.high) + x.low * y.low};
}

Real extend(const Emitter& wide, Real x) { return wide.real(wide.ir.CreateFPExt(x.value, wide.type)); }
Real shrink(const Emitter& narrow, Real x) { return narrow.real(narrow.ir.CreateFPTrunc(x.value, narrow.type)); }

// ---- floor, ceil, round

// The integer nearest to a, halves to even; for 0 <= a < 2^23 or 2^52.
Real nearest_whole(Real a) {
  const double whole = a.emitter->format.whole;
  return (a + whole) - whole;
}

// Integers and NaN stay as they are; so does the sign, also of zeros.
Real unless_whole(Real x, Real result) { return select(abs(x) < x.emitter->format.whole, copy_sign(result, x), x); }

Real one_if(const Emitter& e, Value* condition) { return select(condition, 1, e.number(0)); }

Real floor_of(Real x) {
  const Real nearest = copy_sign(nearest_whole(abs(x)), x);
  return unless_whole(x, nearest - one_if(*x.emitter, x < nearest));
}

Real ceil_of(Real x) {
  const Real nearest = copy_sign(nearest_whole(abs(x)), x);
  return unless_whole(x, nearest + one_if(*x.emitter, nearest < x));
}

Real round_of(Real x) {  // halves away from zero
  const Real nearest = nearest_whole(abs(x));
  return unless_whole(x, nearest + one_if(*x.emitter, abs(x) - nearest == 0.5));
}

// ---- exp

// exp(x + low), for x between the limits of exp below.
//
// x = 2 n ln 2 + r, |r| <= ln 2: half the exponent, so that 2^n is a normal number even where the result is subnormal
// or just finite, and e^r * 2^n * 2^n rounds once.
Real exp_in_range(Real x, const Real* low = nullptr) {
  const Emitter& e = *x.emitter;
  const double shift = e.format.whole * 1.5 + static_cast<double>(e.format.bias);
  const Real shifted = fma(x, 0.72134752044448170, shift);
  const Real n = shifted - shift;
  Real r = fma(n, e.is_f32 ? -1.38671875 : -2 * 6.93147180369123816490e-01, x);
  r = fma(n, e.is_f32 ? 4.2438888010938e-4 : -2 * 1.90821492927058770002e-10, r);
  if (low) r = r + *low;
  const Real q = e.is_f32 ? polynomial(r, {1, 0.50000034648, 0.1666661416, 0.04166126778, 0.008336102498,
                                           0.0014104479208, 0.00019611692998})
                          : polynomial(r, {1, 0.4999999999999992819, 0.1666666666666693602, 0.04166666666670201098,
                                           0.008333333333270060922, 0.001388888888358497328, 0.0001984126989268146382,
                                           0.00002480159082629295732, 2.755730067907155732e-6, 2.755615880461097199e-7,
                                           2.505502999978853282e-8, 2.106227254252728516e-9, 1.593570989828235785e-10});
  const Real power = e.from_bits(e.ir.CreateShl(e.bits(shifted), e.word(e.format.mantissa)));
  return fma(q, r, 1) * power * power;
}

// Beyond these limits the result is 0 or infinite.
Real clamp_for_exp(Real x) {
  return x.emitter->is_f32 ? at_least(at_most(x, 89), -104.5) : at_least(at_most(x, 710), -746);
}

// ---- log

// x = m * 2^exponent, m from sqrt(1/2) to sqrt(2), for positive finite x.
struct Split {
  Real m;
  Real exponent;
};

Split split(Real x) {
  const Emitter& e = *x.emitter;
  Value* const is_subnormal = x < e.format.smallest;
  x = select(is_subnormal, x * e.format.widen, x);
  Value* const fraction_mask = e.word((std::uint64_t{1} << e.format.mantissa) - 1);
  const std::uint64_t one = e.format.bias << e.format.mantissa;
  Value* const moved = e.ir.CreateAdd(e.bits(x), e.word(one - e.format.half_root));
  const Real m = e.from_bits(e.ir.CreateAdd(e.ir.CreateAnd(moved, fraction_mask), e.word(e.format.half_root)));
  Value* const biased = e.ir.CreateLShr(moved, e.word(e.format.mantissa));
  const double bias = e.format.whole + static_cast<double>(e.format.bias);
  const Real whole = e.from_bits(e.ir.CreateOr(biased, e.bits(e.number(e.format.whole))));
  return {m, whole - select(is_subnormal, bias + e.format.widen_log2, e.number(bias))};
}

Real log_f32(Real x) {
  const auto [m, exponent] = split(x);
  const Real f = m - 1;
  const Real square = f * f;
  const Real p = polynomial(f, {0.33333312608, -0.25000009616, 0.20002118469, -0.16667994835, 0.1421955499,
                                -0.12405608388, 0.11888164334, -0.11675537853, 0.067464956024});
  Real low = fma(exponent, -2.12194440054690583e-4, square * f * p);
  low = fma(square, -0.5, low);
  return fma(exponent, 0.693359375, f + low);
}

Real log_f64(Real x) {
  const auto [m, exponent] = split(x);
  const Real f = m - 1;
  const Real s = f / (f + 2);
  const Real z = s * s;
  const Real p =
      z * polynomial(z, {0.6666666666666734475, 0.3999999999941423114, 0.2857142874249478361, 0.2222219856138384405,
                         0.1818356498074989403, 0.1531403276410146068, 0.1479613788530955016});
  const Real half_square = f * f * 0.5;
  const Real low = fma(s, half_square + p, exponent * 1.90821492927058770002e-10);
  return exponent * 6.93147180369123816490e-01 - ((half_square - low) - f);
}

// ---- sin and cos

struct Angle {
  Real r;           // between -pi/4 and pi/4
  Real low;         // to be added to r
  Value* quadrant;  // its lowest two bits count
};

constexpr double largest_angle = 0x1p45;

// x minus a multiple of pi/2, which is given as three doubles: enough for every double up to 2^45.
Angle reduce(Real x) {
  constexpr double shift = 0x1.8p52;
  const Real shifted = fma(x, 0.63661977236758134308, shift);
  const Real k = shifted - shift;
  const Pair first = exact_product(k, x.emitter->number(0x1.921fb54442d18p+0));
  const Pair second = exact_product(k, x.emitter->number(0x1.1a62633145c07p-54));
  const Pair a = exact_sum(x - first.high, -first.low);
  const Pair b = exact_sum(a.high, -second.high);
  const Real rest = (a.low + b.low) - fma(k, -0x1.f1976b7ed8fbcp-110, second.low);
  const Pair r = exact_sum_ordered(b.high, rest);
  Value* const is_small = k == 0;  // keeps the sign of zero
  return {select(is_small, x, r.high), select(is_small, 0, r.low), x.emitter->bits(shifted)};
}

// The same for float, whose r needs only a double.
Angle reduce(const Emitter& narrow, Real x) {
  constexpr double shift = 0x1.8p52;
  const Real shifted = fma(x, 0.63661977236758134308, shift);
  const Real k = shifted - shift;
  const Pair first = exact_product(k, x.emitter->number(0x1.921fb54442d18p+0));
  const Real r = fma(k, -0x1.1a62633145c07p-54, (x - first.high) - first.low);
  Value* const quadrant = narrow.ir.CreateTrunc(x.emitter->bits(shifted), narrow.bits_type);
  return {shrink(narrow, r), narrow.number(0), quadrant};
}

Real sin_of(const Angle& angle) {
  const auto& [r, low, quadrant] = angle;
  const Real z = r * r;
  if (r.emitter->is_f32) return fma(r * z, polynomial(z, {-0.16666654909, 0.0083321758515, -0.0001951697811}), r);
  const Real cube = z * r;
  const Real p = polynomial(z, {0.008333333333322419731, -0.0001984126982981284019, 2.755731369370861103e-6,
                                -2.505075840203303747e-8, 1.589681263491256801e-10});
  return r - ((z * (low * 0.5 - cube * p) - low) - cube * -0.1666666666666663205);
}

Real cos_of(const Angle& angle) {
  const auto& [r, low, quadrant] = angle;
  const Real z = r * r;
  if (r.emitter->is_f32) {
    return fma(z * z, polynomial(z, {0.041666646807, -0.0013887364478, 2.4438090305e-5}), fma(z, -0.5, 1));
  }
  const Real p = polynomial(z, {0.04166666666666659952, -0.00138888888888741315, 0.00002480158728948713919,
                                -2.755731435382396083e-7, 2.087572348361356877e-9, -1.135965907516795087e-11});
  const Real half = z * 0.5;
  const Real w = 1 - half;
  return w + (((1 - w) - half) + (z * z * p - r * low));
}

// sin(x + quarters * pi / 2).
Real sin_plus(Real x, unsigned quarters) {
  const Emitter& e = *x.emitter;
  const Emitter wide = e.wide();
  const Angle angle = e.is_f32 ? reduce(e, extend(wide, x)) : reduce(x);
  Value* const quadrant = e.ir.CreateAdd(angle.quadrant, e.word(quarters));
  Value* const is_odd = e.ir.CreateICmpNE(e.ir.CreateAnd(quadrant, e.word(1)), e.word(0));
  Value* const sign = e.ir.CreateShl(e.ir.CreateAnd(quadrant, e.word(2)), e.word(e.is_f32 ? 30 : 62));
  const Real result = select(is_odd, cos_of(angle), sin_of(angle));
  return e.from_bits(e.ir.CreateXor(e.bits(result), sign));
}

// Calls the C library for each lane. In a separate block, since it hardly ever happens.
llvm::Function* by_library(const Emitter& e, const std::string& function) {
  llvm::IRBuilderBase& ir = e.ir;
  llvm::Module& module = *ir.GetInsertBlock()->getModule();
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(e.type);
  const unsigned lanes = vector ? vector->getNumElements() : 1;
  const std::string name = function + (e.is_f32 ? "_f32_" : "_f64_") + std::to_string(lanes);
  if (llvm::Function* made = module.getFunction(name)) return made;
  const llvm::IRBuilderBase::InsertPointGuard guard(ir);
  const auto pure = [](llvm::Function* of) {
    of->setDoesNotAccessMemory();
    of->setDoesNotThrow();
    of->setWillReturn();
    return of;
  };
  auto* of_one = llvm::FunctionType::get(ir.getDoubleTy(), {ir.getDoubleTy()}, false);
  llvm::FunctionCallee library = module.getOrInsertFunction(function, of_one);
  pure(llvm::cast<llvm::Function>(library.getCallee()));
  auto* of_all = llvm::FunctionType::get(e.type, {e.type}, false);
  llvm::Function* made = pure(llvm::Function::Create(of_all, llvm::Function::InternalLinkage, name, module));
  made->addFnAttr(llvm::Attribute::NoInline);
  made->addFnAttr(llvm::Attribute::Cold);

  const auto apply = [&](Value* x) {
    Value* result = ir.CreateCall(library, {ir.CreateFPCast(x, ir.getDoubleTy())});
    return ir.CreateFPCast(result, e.type->getScalarType());
  };
  auto* entry = llvm::BasicBlock::Create(ir.getContext(), "", made);
  ir.SetInsertPoint(entry);
  if (!vector) {
    ir.CreateRet(apply(made->getArg(0)));
    return made;
  }
  auto* each = llvm::BasicBlock::Create(ir.getContext(), "", made);
  auto* done = llvm::BasicBlock::Create(ir.getContext(), "", made);
  ir.CreateBr(each);
  ir.SetInsertPoint(each);
  llvm::PHINode* lane = ir.CreatePHI(ir.getInt32Ty(), 2);
  llvm::PHINode* results = ir.CreatePHI(e.type, 2);
  Value* more = ir.CreateInsertElement(results, apply(ir.CreateExtractElement(made->getArg(0), lane)), lane);
  Value* next = ir.CreateAdd(lane, ir.getInt32(1));
  lane->addIncoming(ir.getInt32(0), entry);
  lane->addIncoming(next, each);
  results->addIncoming(made->getArg(0), entry);
  results->addIncoming(more, each);
  ir.CreateCondBr(ir.CreateICmpULT(next, ir.getInt32(lanes)), each, done);
  ir.SetInsertPoint(done);
  ir.CreateRet(more);
  return made;
}

// The result, except for angles that need more digits of pi.
Real unless_large(Real x, Real result, const std::string& function) {
  const Emitter& e = *x.emitter;
  llvm::IRBuilderBase& ir = e.ir;
  Value* const is_large = abs(x) >= largest_angle;
  Value* const is_any_large = e.type->isVectorTy() ? ir.CreateOrReduce(is_large) : is_large;
  llvm::BasicBlock* before = ir.GetInsertBlock();
  auto* rare = llvm::BasicBlock::Create(ir.getContext(), "large", before->getParent());
  auto* end = llvm::BasicBlock::Create(ir.getContext(), "large.end", before->getParent());
  ir.CreateCondBr(is_any_large, rare, end, llvm::MDBuilder(ir.getContext()).createBranchWeights(1, 1 << 20));
  ir.SetInsertPoint(rare);
  Value* by_call = ir.CreateCall(by_library(e, function), {x.value});
  Value* mixed = ir.CreateSelect(is_large, by_call, result.value);
  ir.CreateBr(end);
  ir.SetInsertPoint(end);
  llvm::PHINode* all = ir.CreatePHI(e.type, 2);
  all->addIncoming(result.value, before);
  all->addIncoming(mixed, rare);
  return e.real(all);
}

// ---- tanh, erf

Real tanh_of(Real x) {
  const Emitter& e = *x.emitter;
  const Real a = at_most(abs(x), e.is_f32 ? 10 : 20);  // 1 from there on
  const Real z = a * a;
  const Real above = exp_in_range(a * 2) + 1;
  Value* const is_small = a < 0.625;
  if (e.is_f32) {
    const Real p = polynomial(z, {-0.33333281943, 0.13331442241, -0.053739719218, 0.020639101652, -0.0057050034918});
    return copy_sign(select(is_small, fma(a * z, p, a), 1 - 2 / above), x);
  }
  const Real p = polynomial(z, {-1.61468768441708447952e3, -9.92877231001918586564e1, -9.64399179425052238628e-1});
  const Real q = polynomial(z, {4.84406305325125486048e3, 2.23548839060100448583e3, 1.12811678491632931402e2, 1});
  const Real quotient = select(is_small, a * z * p, e.number(-2)) / select(is_small, q, above);
  return copy_sign(select(is_small, a, e.number(1)) + quotient, x);
}

// Near 0 a polynomial; further out 1 - exp(-p), where p approximates the logarithm of 1 - erf.
Real erf_of(Real x) {
  const Emitter& e = *x.emitter;
  const Real a = at_most(abs(x), e.is_f32 ? 4 : 6);  // 1 from there on
  const Real z = a * a;
  const Real near = e.is_f32 ? polynomial(z, {0.1283791664, -0.37612631593, 0.11283663822, -0.026857698485,
                                              0.0051969399702, -0.00080975965966, 8.1847306538e-5})
                             : polynomial(z, {0.1283791670955125737, -0.3761263890318374756, 0.1128379167095485602,
                                              -0.02686617064507268704, 0.005223977624779223963, -0.00085483269786618966,
                                              0.0001205533103433076952, -0.00001492559345155800419,
                                              1.64609720083775524e-6, -1.635001731449995862e-7, 1.4657830292045962e-8,
                                              -1.136548613975554106e-9, 5.944974326881130958e-11});
  const Real far =
      e.is_f32
          ? polynomial(a, {-0.00017468673103, 1.1295149431, 0.63334687732, 0.10828012524, -0.025119453158,
                           0.0041710738368, -0.00043446506446, 2.1095281267e-5})
          : polynomial(a, {1.796534377592944954e-7, 1.12837732892168865, 0.6366284905644538421, 0.1027472472115797342,
                           -0.01907814476407296558, -0.0002805054466635033491, 0.001769020301133387729,
                           -0.0006411905129767753994, 0.00004483521829133173238, 0.00007035934801533852638,
                           -0.00004503404810730418832, 0.00001651273289193933521, -4.326699706705389264e-6,
                           8.504993141798871895e-7, -1.256925644888587784e-7, 1.36252048042641997e-8,
                           -1.025575380161863362e-9, 4.795387520694791359e-11, -1.049464192241770276e-12});
  Value* const is_near = a < (e.is_f32 ? 0.921875 : 1.0);
  return copy_sign(select(is_near, fma(a, near, a), 1 - exp_in_range(-far)), x);
}

// ---- pow

// x^y of positive finite floats, in double.
Real pow_f32(Real x, Real y) {
  const Emitter& narrow = *x.emitter;
  const Emitter wide = narrow.wide();
  const auto [m, exponent] = split(extend(wide, x));
  const Real s = (m - 1) / (m + 1);
  const Real log2 = fma(s,
                        polynomial(s * s, {2.885390081777831879, 0.9617966941259163493, 0.5770779399253195122,
                                           0.4122094449951915689, 0.3198990596720516271, 0.2829831672069381976}),
                        exponent);
  const Real power = at_least(at_most(log2 * extend(wide, y), 200), -200);
  constexpr double shift = 0x1.8p52 + 1023;
  const Real shifted = power + shift;
  const Real r = power - (shifted - shift);
  const Real q =
      polynomial(r, {1, 0.6931471807048526854, 0.2402265106701187335, 0.05550410365079705274, 0.009618038057025342174,
                     0.001333393557853587819, 0.0001546678250922616028, 0.00001519608999363653882});
  const Real scale = wide.from_bits(wide.ir.CreateShl(wide.bits(shifted), wide.word(52)));
  return shrink(narrow, q * scale);
}

// log(x) of a positive finite double to about 66 bits: 2 s + 2/3 s^3 + ..., s = (m - 1) / (m + 1), of which the first
// two terms are pairs.
Pair log_pair(Real x) {
  const Emitter& e = *x.emitter;
  const auto [m, exponent] = split(x);
  const Pair above = exact_sum(m, e.number(1));
  const Real f = m - 1;
  const Real inverse = 1 / above.high;
  const Real s = f * inverse;
  const Pair back = exact_product(s, above.high);
  const Real s_low = (((f - back.high) - back.low) - s * above.low) * inverse;

  const Pair square = exact_product(s, s);
  const Real square_low = fma(s * 2, s_low, square.low);
  const Pair cube = exact_product(s, square.high);
  const Real cube_low = cube.low + fma(s, square_low, s_low * square.high);
  const Pair third = exact_product(cube.high, e.number(0x1.5555555555555p-1));
  const Real third_low = third.low + fma(cube.high, 0x1.5555555555555p-55, cube_low * 0x1.5555555555555p-1);
  const Real tail = cube.high * square.high *
                    polynomial(square.high, {0.3999999999999997749, 0.2857142857144511202, 0.2222222221753627362,
                                             0.1818181887034687015, 0.153845568683031287, 0.1333631753876514698,
                                             0.1167481580188156414, 0.1198903762704103706});

  const Pair a = exact_sum(exponent * 6.93147180369123816490e-01, s * 2);
  const Pair b = exact_sum(a.high, third.high);
  const Real low = fma(exponent, 1.90821492927058770002e-10, fma(s_low, 2, third_low)) + tail;
  return exact_sum_ordered(b.high, (a.low + b.low) + low);
}

Real pow_f64(Real x, Real y) {
  const Pair log = log_pair(x);
  const Pair product = exact_product(log.high, y);
  const Real high = clamp_for_exp(product.high);
  const Real low = select(high == product.high, fma(log.low, y, product.low), x.emitter->number(0));
  return exp_in_range(high, &low);
}

Value* is_whole(Real a) {  // of a >= 0
  const double whole = a.emitter->format.whole;
  return a.emitter->ir.CreateOr(a >= whole, (a + whole) - whole == a);
}

Real pow_of(Real x, Real y) {
  const Emitter& e = *x.emitter;
  const Real size = abs(x);
  const Real exponent = abs(y);
  const Real bounded = at_least(at_most(y, 0x1p65), -0x1p65);  // larger exponents change nothing, and could overflow
  Real result = e.is_f32 ? pow_f32(size, bounded) : pow_f64(size, bounded);

  // 0 and infinity to the power of y are 0 or infinity.
  Value* const is_zero = size == 0;
  Value* const is_edge = e.ir.CreateOr(is_zero, size == infinity);
  Value* const to_zero = e.ir.CreateXor(is_zero, y < 0);
  result = select(is_edge, select(to_zero, 0, e.number(infinity)), result);

  Value* const y_whole = is_whole(exponent);
  Value* const y_odd = e.ir.CreateAnd(y_whole, e.ir.CreateNot(is_whole(exponent * 0.5)));
  Value* const is_root = e.ir.CreateAnd(e.ir.CreateAnd(x < 0, size < infinity), e.ir.CreateNot(y_whole));
  result = select(is_root, std::numeric_limits<double>::quiet_NaN(), result);
  result = select(y_odd, copy_sign(result, x), result);

  // NaN gives NaN, except here.
  result = select(e.ir.CreateFCmpUNO(x.value, y.value), std::numeric_limits<double>::quiet_NaN(), result);
  return select(e.ir.CreateOr(y == 0, x == 1), 1, result);
}

// Emits without fast-math flags, which would undo the care taken here.
template <class F>
Value* emit(llvm::IRBuilderBase& builder, bool has_fma, Value* x, F&& function) {
  const llvm::IRBuilderBase::FastMathFlagGuard guard(builder);
  builder.clearFastMathFlags();
  const Emitter emitter(builder, has_fma, x->getType());
  return function(emitter.real(x)).value;
}

}  // namespace

Value* VectorMath::floor(Value* x) const { return emit(builder_, has_fma_, x, floor_of); }

Value* VectorMath::ceil(Value* x) const { return emit(builder_, has_fma_, x, ceil_of); }

Value* VectorMath::round(Value* x) const { return emit(builder_, has_fma_, x, round_of); }

Value* VectorMath::exp(Value* x) const {
  return emit(builder_, has_fma_, x, [](Real r) { return exp_in_range(clamp_for_exp(r)); });
}

Value* VectorMath::log(Value* x) const {
  return emit(builder_, has_fma_, x, [](Real r) {
    const Real result = r.emitter->is_f32 ? log_f32(r) : log_f64(r);
    const Real nan = r.emitter->number(std::numeric_limits<double>::quiet_NaN());
    const Real edge = select(r == 0, -infinity, select(r == infinity, infinity, nan));
    return select(r.emitter->ir.CreateAnd(r > 0, r < infinity), result, edge);
  });
}

Value* VectorMath::sin(Value* x) const {
  return emit(builder_, has_fma_, x,
              [](Real r) { return unless_large(r, select(r == 0, r, sin_plus(r, 0)), "library_sin"); });
}

Value* VectorMath::cos(Value* x) const {
  return emit(builder_, has_fma_, x, [](Real r) { return unless_large(r, sin_plus(r, 1), "library_cos"); });
}

Value* VectorMath::tanh(Value* x) const { return emit(builder_, has_fma_, x, tanh_of); }

Value* VectorMath::erf(Value* x) const { return emit(builder_, has_fma_, x, erf_of); }

Value* VectorMath::pow(Value* x, Value* y) const {
  return emit(builder_, has_fma_, x, [y](Real r) { return pow_of(r, r.emitter->real(y)); });
}

Value* VectorMath::rsqrt(Value* x) const {
  return emit(builder_, has_fma_, x, [](Real r) { return 1 / r.emitter->call(llvm::Intrinsic::sqrt, {r.value}); });
}

}  // namespace tessera::compile::cpu
