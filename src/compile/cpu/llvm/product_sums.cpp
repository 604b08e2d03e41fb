// Sums of products of 16-bit numbers and of bytes, as in filters of u8.
#include "compile/cpu/llvm/emitter.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/TargetParser/Triple.h>

namespace tessera::compile::cpu {

using RegisterForms = ElementMath::RegisterForms;
using ir::Code;
using llvm::Value;

namespace {

// Whether two values are computed in the same way from the same memory: nothing is stored between the loads of a sum.
bool is_alike(const Value* a, const Value* b) {
  if (a == b) return true;
  const auto* first = llvm::dyn_cast<llvm::Instruction>(a);
  const auto* second = llvm::dyn_cast<llvm::Instruction>(b);
  if (!first || !second || !first->isSameOperationAs(second)) return false;
  const bool is_call = llvm::isa<llvm::CallBase>(first) && !llvm::isa<llvm::MinMaxIntrinsic>(first);
  if (is_call || llvm::isa<llvm::PHINode>(first)) return false;
  return std::ranges::equal(first->operand_values(), second->operand_values(), is_alike);
}

// The memory that a vector was loaded from: `number` elements after an address.
struct Loaded {
  const llvm::GetElementPtrInst* address = nullptr;
  std::int64_t number = 0;

  // inbounds flags do not matter.
  bool is_along_with(const Loaded& other) const {
    return address->getSourceElementType() == other.address->getSourceElementType() &&
           std::ranges::equal(address->operand_values(), other.address->operand_values(), is_alike);
  }
};

std::optional<Loaded> loaded_from(const Value* value) {
  const auto* load = llvm::dyn_cast<llvm::LoadInst>(value);
  const auto* address = load ? llvm::dyn_cast<llvm::GetElementPtrInst>(load->getPointerOperand()) : nullptr;
  if (!address) return std::nullopt;
  const auto* number = llvm::dyn_cast<llvm::ConstantInt>(address->getOperand(1));
  const auto* start = number ? llvm::dyn_cast<llvm::GetElementPtrInst>(address->getPointerOperand()) : nullptr;
  return start ? Loaded{start, number->getSExtValue()} : Loaded{address, 0};
}

// The values that were loaded from neighbouring elements, an odd number of them, in order; and the others. The row is
// empty if there are too few of the former, or too many of the latter.
struct Row {
  std::vector<std::size_t> row, others;

  explicit Row(std::span<Value* const> values) {
    constexpr std::size_t least = 3, most_others = 1;
    std::vector<std::pair<std::int64_t, std::size_t>> found;
    std::optional<Loaded> like;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::optional<Loaded> one = loaded_from(values[i]);
      if (one && (!like || like->is_along_with(*one))) {
        like = one;
        found.emplace_back(one->number, i);
      } else {
        others.push_back(i);
      }
    }
    std::ranges::sort(found);
    bool is_row = found.size() >= least && found.size() % 2 == 1 && others.size() <= most_others;
    for (std::size_t i = 0; i < found.size(); ++i) {
      is_row = is_row && found[i].first == found[0].first + static_cast<std::int64_t>(i);
      row.push_back(found[i].second);
    }
    if (!is_row) row.clear();
  }
};

}  // namespace

// Several sums of products of the same values. Each sum has a factor for each value, or null for 0. Factors have twice
// as many bits as values.
//
// x86 has an instruction for two products and their sum, for numbers side by side. If a sum is over neighbours in
// memory, they are side by side already: the pairs that begin at an element belong to the results at even indices, and
// with other factors to those at odd ones. Otherwise the lower and upper halves of each 128 bits of two registers are
// interleaved; moving them further would take three times as long. Sums at several points share values, as neighbouring
// rows of a blur share six of seven: those are interleaved once for all sums.
struct Emitter::PairedSums {
  RegisterForms multiply;
  bool are_bytes = false;       // multiplied by factors from -128 to 127
  bool can_be_in_a_row = true;  // the results may come apart, at even and odd indices
  std::vector<Value*> values;
  std::vector<std::vector<Value*>> factors;  // by sum, by value

  PairedSums(const RegisterForms& instruction, bool of_bytes, std::size_t sums)
      : multiply(instruction), are_bytes(of_bytes), factors(sums) {}

  void add(std::size_t sum, Value* value, Value* factor) {
    std::vector<Value*>& of = factors[sum];
    std::size_t at = 0;
    while (at < values.size() && ((at < of.size() && of[at]) || !is_alike(values[at], value))) ++at;
    if (at == values.size()) values.push_back(value);
    of.resize(std::max(of.size(), at + 1));
    of[at] = factor;
  }
  Value* factor(std::size_t sum, std::size_t value) const {
    return value < factors[sum].size() ? factors[sum][value] : nullptr;
  }
  bool is_in_a_row() const { return can_be_in_a_row && factors.size() == 1 && !Row(values).row.empty(); }
};

// For each sum, the results for the lanes of a register from `first` on: those at even and odd indices, or those of the
// lower and upper halves of each 128 bits. The sums start with `number`, so that one instruction multiplies and adds
// for each pair.
std::vector<std::array<Value*, 2>> Emitter::paired_halves(const PairedSums& sums, unsigned first, Value* number) {
  const unsigned bits = sums.are_bytes ? 8 : 16, fit = host_.vector_bits / bits, lane = 128 / bits;
  auto* type = llvm::FixedVectorType::get(b_.getIntNTy(bits), fit);
  Value* begin = b_.CreateVectorSplat(fit / 2, number);
  std::vector<std::array<Value*, 2>> halves(sums.factors.size(), {begin, begin});
  const auto part = [&](std::size_t of) {
    Value* value = b_.CreateShuffleVector(sums.values[of], llvm::createSequentialMask(first, fit, 0));
    return sums.are_bytes ? b_.CreateXor(value, llvm::ConstantInt::get(type, 128)) : value;
  };
  const auto add = [&](Value*& to, Value* pairs, Value* a, Value* b) {
    if (!a && !b) return;
    Value* zero = b_.getIntN(2 * bits, 0);
    Value* both = b_.CreateOr(a ? a : zero, b_.CreateShl(b ? b : zero, b_.getIntN(2 * bits, bits)));
    Value* factors = b_.CreateBitCast(b_.CreateVectorSplat(fit / 2, both), type);
    if (host_.has_vnni && !sums.are_bytes) {
      const auto as_sums = [&](Value* value) { return b_.CreateBitCast(value, to->getType()); };
      to = b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_vpdpwssd_512, {}, {to, as_sums(pairs), as_sums(factors)});
      return;
    }
    Value* products =
        math_.instruction(sums.multiply, sums.are_bytes ? factors : pairs, sums.are_bytes ? pairs : factors);
    to = b_.CreateAdd(to, products);
  };
  if (sums.is_in_a_row()) {
    const Row all(sums.values);
    for (std::size_t i = 0; i < all.row.size(); i += 2) {
      const auto factor = [&](std::size_t of) { return of < all.row.size() ? sums.factor(0, all.row[of]) : nullptr; };
      Value* pairs = part(all.row[i]);
      add(halves[0][0], pairs, factor(i), factor(i + 1));
      add(halves[0][1], pairs, i > 0 ? factor(i - 1) : nullptr, factor(i));
    }
    for (std::size_t other : all.others) {
      Value* pairs = part(other);
      add(halves[0][0], pairs, sums.factor(0, other), nullptr);
      add(halves[0][1], pairs, nullptr, sums.factor(0, other));
    }
    return halves;
  }
  for (std::size_t i = 0; i < sums.values.size(); i += 2) {
    const bool is_alone = i + 1 == sums.values.size();
    Value* a = part(i);
    Value* b = is_alone ? a : part(i + 1);
    for (unsigned half = 0; half < 2; ++half) {
      llvm::SmallVector<int, 64> turns;
      for (unsigned at = 0; at < fit; ++at) {
        turns.push_back(static_cast<int>(at / lane * lane + at % lane / 2 + half * (lane / 2) + at % 2 * fit));
      }
      Value* pairs = b_.CreateShuffleVector(a, b, turns);
      for (std::size_t s = 0; s < halves.size(); ++s) {
        add(halves[s][half], pairs, sums.factor(s, i), is_alone ? nullptr : sums.factor(s, i + 1));
      }
    }
  }
  return halves;
}

// --- 16 bits

// Computed in 32 bits, of which the lower 16 are the result.
Value* Emitter::factor_of(const Widths::ProductSum::Term& term) {
  if (term.weight == ir::none) {
    return b_.getInt32(static_cast<std::uint32_t>(term.is_negated ? -term.factor : term.factor));
  }
  Value* weight = resized(term.weight, scalar(term.weight), 32);
  return term.is_negated ? b_.CreateNeg(weight) : weight;
}

// For 16-bit values and results.
Value* Emitter::product_sum(ir::Id id, const Widths::ProductSum& sum, std::span<Value* const> x) {
  llvm::Type* wide = math_.like(b_.getInt32Ty(), x[0]);
  const auto number = [&](std::int64_t of) {
    return llvm::ConstantInt::get(wide, static_cast<std::uint64_t>(of), true);
  };
  Value* all = number(sum.number);
  for (std::size_t i = 0; i < x.size(); ++i) {
    Value* factor = factor_of(sum.terms[i]);
    if (wide->isVectorTy()) factor = vector(uniform(factor));
    all = b_.CreateAdd(all, b_.CreateMul(resized(sum.terms[i].value, x[i], 32), factor));
  }
  const bool is_signed = widths().range(id).is_signed();
  Value* result = math_.shifted(Code::shr, is_signed, all, sum.shift);
  if (program_[id].code != Code::shr) {
    result = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, result, number(std::numeric_limits<std::int16_t>::min()));
    result = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, result, number(std::numeric_limits<std::int16_t>::max()));
  }
  return b_.CreateTrunc(result, x[0]->getType());
}

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
  const std::size_t points = operands[0].size();
  PairedSums sums(multiply, false, points);
  sums.can_be_in_a_row = program_[id].code == Code::shr;  // no clamping, which packing would do
  for (std::size_t p = 0; p < points; ++p) {
    for (std::size_t i = 0; i < sum.terms.size(); ++i) {
      Value* factor = b_.CreateAnd(factor_of(sum.terms[i]), b_.getInt32(0xffff));
      sums.add(p, resized(sum.terms[i].value, vector(operands[i][p]), 16), factor);
    }
  }
  // The constant completes the last pair, if that has one value and the constant fits.
  const bool is_in_a_row = sums.is_in_a_row();
  const bool is_paired = !is_in_a_row && sums.values.size() % 2 == 1 &&
                         sum.number >= std::numeric_limits<std::int16_t>::min() &&
                         sum.number <= std::numeric_limits<std::int16_t>::max();
  if (is_paired) {
    auto* type = llvm::FixedVectorType::get(b_.getInt16Ty(), static_cast<unsigned>(lanes_));
    for (std::size_t p = 0; p < points; ++p) {
      sums.add(p, llvm::ConstantInt::get(type, 1), b_.getInt32(static_cast<std::uint16_t>(sum.number)));
    }
  }
  // Combines the results at even and odd indices, of 32 bits in two registers, to 16 bits in one.
  const auto taken_together = [&](Value* even, Value* odd) {
    auto* type = llvm::FixedVectorType::get(b_.getInt16Ty(), fit);
    even = math_.shifted(Code::shr, is_signed, even, sum.shift);
    odd = sum.shift <= 16 ? math_.shifted(Code::shl, false, odd, 16 - sum.shift)
                          : math_.shifted(Code::shr, is_signed, odd, sum.shift - 16);
    llvm::SmallVector<int, 32> turns;
    for (unsigned i = 0; i < fit; ++i) turns.push_back(static_cast<int>(i + i % 2 * fit));
    return b_.CreateShuffleVector(b_.CreateBitCast(even, type), b_.CreateBitCast(odd, type), turns);
  };
  std::vector<llvm::SmallVector<Value*, 4>> results(points);
  for (unsigned first = 0; first < static_cast<unsigned>(lanes_); first += fit) {
    std::vector<std::array<Value*, 2>> halves =
        paired_halves(sums, first, b_.getInt32(is_paired ? 0 : static_cast<std::uint32_t>(sum.number)));
    for (std::size_t p = 0; p < points; ++p) {
      if (is_in_a_row) {
        results[p].push_back(taken_together(halves[p][0], halves[p][1]));
        continue;
      }
      for (Value*& half : halves[p]) half = math_.shifted(Code::shr, is_signed, half, sum.shift);
      results[p].push_back(math_.instruction(is_signed ? signed_pack : unsigned_pack, halves[p][0], halves[p][1]));
    }
  }
  Values packed;
  for (const auto& parts : results) packed.push_back(varying(llvm::concatenateVectors(b_, parts)));
  return packed;
}

// --- bytes

bool Emitter::multiplies_bytes() const {
  return host_.level != VectorLevel::baseline && llvm::Triple(module_.getTargetTriple()).isX86();
}

// Computed in 16 bits.
Value* Emitter::factor_of(const Widths::ByteSum::Term& term) {
  if (term.weight == ir::none) return b_.getInt16(static_cast<std::uint16_t>(term.factor));
  return resized(term.weight, scalar(term.weight), 16);
}

// Computes the lower 16 bits.
Value* Emitter::byte_sum(const Widths::ByteSum& sum, std::span<Value* const> x) {
  llvm::Type* half = math_.like(b_.getInt16Ty(), x[0]);
  Value* all = llvm::ConstantInt::get(half, static_cast<std::uint16_t>(sum.number));
  for (std::size_t i = 0; i < x.size(); ++i) {
    Value* factor = factor_of(sum.terms[i]);
    if (half->isVectorTy()) factor = vector(uniform(factor));
    Value* value = resized(sum.terms[i].value, x[i], 16);
    value = b_.CreateAdd(value, llvm::ConstantInt::get(half, static_cast<std::uint16_t>(sum.terms[i].offset)));
    all = b_.CreateAdd(all, b_.CreateMul(value, factor));
  }
  return all;
}

std::optional<Emitter::Values> Emitter::paired_byte_sums(ir::Id id, const std::vector<Values>& operands) {
  const Widths::ByteSum sum = widths().byte_sum(id);
  const unsigned fit = host_.vector_bits / 8;
  if (sum.terms.empty() || static_cast<unsigned>(lanes_) != fit || !multiplies_bytes()) return std::nullopt;
  constexpr RegisterForms multiply = {llvm::Intrinsic::x86_ssse3_pmadd_ub_sw_128, llvm::Intrinsic::x86_avx2_pmadd_ub_sw,
                                      llvm::Intrinsic::x86_avx512_pmaddubs_w_512};
  const std::size_t points = operands[0].size();
  PairedSums sums(multiply, true, points);
  Value* number = b_.getInt16(static_cast<std::uint16_t>(sum.number));
  for (std::size_t i = 0; i < sum.terms.size(); ++i) {
    Value* factor = factor_of(sum.terms[i]);
    for (std::size_t p = 0; p < points; ++p) {
      sums.add(p, resized(sum.terms[i].value, vector(operands[i][p]), 8), factor);
    }
    const auto more = static_cast<std::uint16_t>(sum.terms[i].offset + 128);
    if (more != 0) number = b_.CreateAdd(number, b_.CreateMul(factor, b_.getInt16(more)));
  }
  constexpr unsigned lane = 16;  // bytes in 128 bits
  llvm::SmallVector<int, 64> order;
  for (unsigned i = 0; i < fit; ++i) {
    const unsigned half = sums.is_in_a_row() ? i % 2 : i % lane / (lane / 2);
    const unsigned at = sums.is_in_a_row() ? i / 2 : i / lane * (lane / 2) + i % (lane / 2);
    order.push_back(static_cast<int>(at + half * (fit / 2)));
  }
  Values results;
  for (const std::array<Value*, 2>& halves : paired_halves(sums, 0, number)) {
    results.push_back(varying(b_.CreateShuffleVector(halves[0], halves[1], order)));
  }
  return results;
}

}  // namespace tessera::compile::cpu
