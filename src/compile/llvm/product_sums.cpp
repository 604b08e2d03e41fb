// Sums of products of 16-bit numbers, as filters of u8 have them.
#include "compile/llvm/emitter.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/TargetParser/Triple.h>

namespace tessera::compile {

using ir::Code;
using llvm::Value;
using llvm::Intrinsic::ID;

// Of 16-bit numbers, which the result is too.
Value* Emitter::product_sum(ir::Id id, const Widths::ProductSum& sum, std::span<Value* const> x) {
  llvm::Type* wide = like(b_.getInt32Ty(), x[0]);
  const auto number = [&](std::int64_t of) {
    return llvm::ConstantInt::get(wide, static_cast<std::uint64_t>(of), true);
  };
  const auto factor = [&](const Widths::ProductSum::Term& term) -> Value* {
    if (term.weight == ir::none) return number(term.is_negated ? -term.factor : term.factor);
    Value* weight = resized(term.weight, scalar(term.weight), 32);
    if (term.is_negated) weight = b_.CreateNeg(weight);
    return wide->isVectorTy() ? vector(uniform(weight)) : weight;
  };
  Value* all = number(sum.number);
  for (std::size_t i = 0; i < x.size(); ++i) {
    all = b_.CreateAdd(all, b_.CreateMul(resized(sum.terms[i].value, x[i], 32), factor(sum.terms[i])));
  }
  const bool is_signed = widths().range(id).is_signed();
  Value* result = shifted(Code::shr, is_signed, all, sum.shift);
  if (program_[id].code != Code::shr) {
    result = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, result, number(std::numeric_limits<std::int16_t>::min()));
    result = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, result, number(std::numeric_limits<std::int16_t>::max()));
  }
  return b_.CreateTrunc(result, x[0]->getType());
}

namespace {

// Whether two values are computed alike, from the same memory: nothing is stored between the loads of a sum.
bool is_alike(const Value* a, const Value* b) {
  if (a == b) return true;
  const auto* first = llvm::dyn_cast<llvm::Instruction>(a);
  const auto* second = llvm::dyn_cast<llvm::Instruction>(b);
  if (!first || !second || !first->isSameOperationAs(second)) return false;
  if (llvm::isa<llvm::PHINode>(first) || llvm::isa<llvm::CallBase>(first)) return false;
  return std::ranges::equal(first->operand_values(), second->operand_values(), is_alike);
}

}  // namespace

// What several sums are made of: each value once, and of each sum the term that it is multiplied by, or null.
struct Emitter::SharedTerms {
  using Term = Widths::ProductSum::Term;
  std::vector<Value*> values;
  std::vector<std::vector<const Term*>> terms;  // by sum, by value

  explicit SharedTerms(std::size_t sums) : terms(sums) {}

  void add(std::size_t sum, Value* value, const Term& term) {
    std::vector<const Term*>& of = terms[sum];
    std::size_t at = 0;
    while (at < values.size() && ((at < of.size() && of[at]) || !is_alike(values[at], value))) ++at;
    if (at == values.size()) values.push_back(value);
    of.resize(std::max(of.size(), at + 1));
    of[at] = &term;
  }
  const Term* of(std::size_t sum, std::size_t value) const {
    return value < terms[sum].size() ? terms[sum][value] : nullptr;
  }
};

// The factors of two values, in turns; null: 0.
Value* Emitter::paired_factors(const Widths::ProductSum::Term* a, const Widths::ProductSum::Term* b) {
  const unsigned pairs = host_.vector_bits / 32;
  const auto half = [&](const Widths::ProductSum::Term* term) -> Value* {
    if (!term) return b_.getInt32(0);
    if (term->weight == ir::none) {
      return b_.getInt32(static_cast<std::uint16_t>(term->is_negated ? -term->factor : term->factor));
    }
    Value* weight = resized(term->weight, scalar(term->weight), 32);
    return b_.CreateAnd(term->is_negated ? b_.CreateNeg(weight) : weight, b_.getInt32(0xffff));
  };
  Value* both = b_.CreateOr(half(a), b_.CreateShl(half(b), b_.getInt32(16)));
  return b_.CreateBitCast(b_.CreateVectorSplat(pairs, both), llvm::FixedVectorType::get(b_.getInt16Ty(), 2 * pairs));
}

// Two products and their sum are one instruction of x86, of numbers side by side. They are put there, and the results
// packed, within each 128 bits of a register: so the lanes are in order again at the end, and none has gone further,
// which would take three times as long. Sums at several points have values in common, as neighbouring rows of a blur
// have six of seven: those are put side by side once for all of them.
std::optional<Emitter::Values> Emitter::paired_product_sums(ir::Id id, const std::vector<Values>& operands) {
  const Widths::ProductSum sum = widths().product_sum(id);
  const unsigned fit = host_.vector_bits / 16;
  const bool is_signed = widths().range(id).is_signed();
  const bool is_baseline = host_.level == VectorLevel::baseline;
  if (sum.terms.empty() || static_cast<unsigned>(lanes_) % fit != 0 || (is_baseline && !is_signed) ||
      !llvm::Triple(module_.getTargetTriple()).isX86())
    return std::nullopt;
  constexpr RegisterForms multiply = {llvm::Intrinsic::x86_sse2_pmadd_wd, llvm::Intrinsic::x86_avx2_pmadd_wd,
                                      llvm::Intrinsic::x86_avx512_pmaddw_d_512};
  constexpr RegisterForms signed_pack = {llvm::Intrinsic::x86_sse2_packssdw_128, llvm::Intrinsic::x86_avx2_packssdw,
                                         llvm::Intrinsic::x86_avx512_packssdw_512};
  constexpr RegisterForms unsigned_pack = {llvm::Intrinsic::x86_sse41_packusdw, llvm::Intrinsic::x86_avx2_packusdw,
                                           llvm::Intrinsic::x86_avx512_packusdw_512};
  const auto instruction = [&](const RegisterForms& forms, Value* a, Value* b) {
    const ID code = host_.vector_bits == 512 ? forms.of_512 : host_.vector_bits == 256 ? forms.of_256 : forms.of_128;
    return b_.CreateIntrinsic(code, {}, {a, b});
  };
  // The lower or upper numbers of each 128 bits of two registers, in turns.
  const auto in_turns = [&](Value* a, Value* b, unsigned half) {
    llvm::SmallVector<int, 32> from;
    for (unsigned lane = 0; lane < fit; lane += 8) {
      for (unsigned i = 0; i < 4; ++i) {
        const auto at = static_cast<int>(lane + 4 * half + i);
        from.push_back(at);
        from.push_back(at + static_cast<int>(fit));
      }
    }
    return b_.CreateShuffleVector(a, b, from);
  };

  const std::size_t sums = operands[0].size();
  SharedTerms shared(sums);
  for (std::size_t s = 0; s < sums; ++s) {
    for (std::size_t i = 0; i < sum.terms.size(); ++i) {
      shared.add(s, resized(sum.terms[i].value, vector(operands[i][s]), 16), sum.terms[i]);
    }
  }
  // The number is the other half of a last pair, if there is one and it fits.
  const bool is_odd = shared.values.size() % 2 == 1;
  const bool is_paired = is_odd && sum.number >= std::numeric_limits<std::int16_t>::min() &&
                         sum.number <= std::numeric_limits<std::int16_t>::max();
  const Widths::ProductSum::Term number{.factor = sum.number};
  std::vector<llvm::SmallVector<Value*, 4>> results(sums);
  for (unsigned first = 0; first < static_cast<unsigned>(lanes_); first += fit) {
    const auto part = [&](std::size_t of) {
      if (of == shared.values.size())
        return static_cast<Value*>(llvm::ConstantInt::get(llvm::FixedVectorType::get(b_.getInt16Ty(), fit), 1));
      return b_.CreateShuffleVector(shared.values[of], llvm::createSequentialMask(first, fit, 0));
    };
    std::vector<std::array<Value*, 2>> halves(sums);
    for (std::size_t i = 0; i < shared.values.size(); i += 2) {
      Value *a = part(i), *b = part(i + 1);
      const bool is_alone = i + 1 == shared.values.size();
      for (unsigned half = 0; half < 2; ++half) {
        Value* both = in_turns(a, b, half);
        for (std::size_t s = 0; s < sums; ++s) {
          const auto* other = is_alone ? (is_paired ? &number : nullptr) : shared.of(s, i + 1);
          if (!shared.of(s, i) && !other) continue;
          Value* products = instruction(multiply, both, paired_factors(shared.of(s, i), other));
          halves[s][half] = halves[s][half] ? b_.CreateAdd(halves[s][half], products) : products;
        }
      }
    }
    for (std::size_t s = 0; s < sums; ++s) {
      for (Value*& half : halves[s]) {
        llvm::Type* wide = half->getType();
        if (!is_paired && sum.number != 0) {
          half = b_.CreateAdd(half, llvm::ConstantInt::get(wide, static_cast<std::uint64_t>(sum.number), true));
        }
        half = shifted(Code::shr, is_signed, half, sum.shift);
      }
      results[s].push_back(instruction(is_signed ? signed_pack : unsigned_pack, halves[s][0], halves[s][1]));
    }
  }
  Values packed;
  for (const auto& parts : results) packed.push_back(varying(llvm::concatenateVectors(b_, parts)));
  return packed;
}

}  // namespace tessera::compile
