#include "compile/cpu/llvm/widths.hpp"

#include "ir/rules.hpp"

#include <algorithm>
#include <utility>

namespace tessera::compile::cpu {

using ir::Code;
using ir::Id;
using ir::Op;
using ir::Type;

namespace {

constexpr int half_bits = 16;  // the narrowest arithmetic, apart from u8 itself
constexpr Range half_word = {0, 65535};
constexpr Range signed_half_word = {-32768, 32767};
// The sum of two products of such a factor and a number from -128 to 127 always fits in 16 bits.
constexpr Range small_factor = {0, 127};

bool moves_points(Code code) {
  return code == Code::broadcast || code == Code::reshape || code == Code::transpose || code == Code::slice ||
         code == Code::pick;
}

bool is_conversion(Code code) { return code == Code::convert || code == Code::nearest; }

}  // namespace

Widths::Widths(const ir::Program& program, const std::vector<bool>& is_live, const std::vector<bool>& is_materialised,
               bool multiplies_bytes)
    : ranges(ir::find_ranges(program)),
      bits(program.ops.size()),
      program_(program),
      is_materialised_(is_materialised),
      multiplies_bytes_(multiplies_bytes) {
  // Users come after their operands.
  std::vector<int> required(program.ops.size());
  required[static_cast<std::size_t>(program.body().ops.back())] = ir::bits_of(program.buffers.front().type);
  for (std::size_t id = program.ops.size(); id-- > 0;) {
    if (!is_live[id] || required[id] == 0) continue;
    bits[id] = computed_bits(static_cast<Id>(id), required[id]);
    require_of_operands(static_cast<Id>(id), required);
  }
  for (std::size_t id = 0; id < program.ops.size(); ++id) {
    if (bits[id] != 0 && passes_on(static_cast<Id>(id))) {
      bits[id] = bits[static_cast<std::size_t>(program.ops[id].operands[0])];
    }
  }
}

bool Widths::is_narrow(Id id) const {
  const Op& op = program_[id];
  return !op.shape.empty() && ir::is_integer(op.type) && op.type != Type::s64;
}

bool Widths::passes_on(Id id) const {
  const Op& op = program_[id];
  if (moves_points(op.code)) return true;
  return is_conversion(op.code) && is_narrow(id) && is_narrow(op.operands[0]) &&
         range_of(op.type).contains(range(op.operands[0]));
}

Range Widths::range_of_operands(const Op& op) const {
  Range all = range(op.operands[0]);
  for (const Id operand : op.operands) all = join(all, range(operand));
  return all;
}

// Enough bits for the whole range.
int Widths::whole(Id id) const {
  return std::min(ir::bits_of(program_[id].type), std::max(half_bits, bits_for(range(id))));
}

bool Widths::is_shift_by_constant(const Op& op) const {
  std::int64_t amount = 0;
  return (op.code == Code::shl || op.code == Code::shr) && ir::is_constant(program_, op.operands[1], amount) &&
         amount >= 0 && amount < ir::bits_of(op.type);
}

// Whether the lower bits of the result depend on the lower bits of the operands alone.
bool Widths::keeps_lower_bits(const Op& op) const {
  switch (op.code) {
    case Code::neg:
    case Code::bit_not:
    case Code::add:
    case Code::sub:
    case Code::mul:
    case Code::fma:
    case Code::bit_and:
    case Code::bit_or:
    case Code::bit_xor:
    case Code::select:
      return true;
    case Code::shl:
      return is_shift_by_constant(op);
    default:
      return false;
  }
}

Widths::HighProduct Widths::high_product(Id id) const {
  const Op& op = program_[id];
  if (op.code != Code::shr || !is_narrow(id) || !is_shift_by_constant(op)) return {};
  const std::int64_t shift = range(op.operands[1]).low;
  const Id inner = op.operands[0];
  const Op& product = program_[inner];
  // A product of u8 wraps around.
  const bool is_plain =
      product.code == Code::mul && op.type != Type::u8 && !is_materialised_[static_cast<std::size_t>(inner)];
  if (!is_plain || shift < 1 || shift > half_bits) return {};
  const Id a = product.operands[0], b = product.operands[1];
  const auto are_in = [&](const Range& all) { return all.contains(range(a)) && all.contains(range(b)); };
  if (!range(inner).is_signed()) {
    for (std::size_t side = 0; side < 2; ++side) {
      const Id factor = product.operands[side];
      std::int64_t constant = 0;
      if (ir::is_constant(program_, product.operands[1 - side], constant) && constant > 0 &&
          constant <= half_word.high >> (half_bits - shift) && is_narrow(factor) && half_word.contains(range(factor))) {
        return {.a = factor, .constant = constant << (half_bits - shift)};
      }
    }
    if (shift == half_bits && are_in(half_word)) return {.a = a, .b = b};
  }
  if (shift == half_bits && are_in(signed_half_word)) return {.a = a, .b = b, .is_signed = true};
  return {};
}

Widths::Average Widths::average(Id id) const {
  const Op& op = program_[id];
  const auto is_sum = [&](Id of) {
    return program_[of].code == Code::add && !is_materialised_[static_cast<std::size_t>(of)];
  };
  const auto is_one = [&](Id of) { return range(of) == Range{1, 1}; };
  if (op.code != Code::shr || !is_narrow(id) || !is_one(op.operands[1]) || !is_sum(op.operands[0])) return {};
  const Op& outer = program_[op.operands[0]];
  if (!is_one(outer.operands[1]) || !is_sum(outer.operands[0])) return {};
  const Op& inner = program_[outer.operands[0]];
  const Id a = inner.operands[0], b = inner.operands[1];
  // A sum of u8 wraps around.
  const bool fits = op.type != Type::u8 && half_word.contains(range(a)) && half_word.contains(range(b));
  return fits && is_narrow(a) && is_narrow(b) ? Average{a, b} : Average{};
}

// The value below a clamp to the range of 16 bits: packing to 16 bits saturates anyway.
Id Widths::without_bounds(Id id) const {
  for (const auto& [code, bound] : {std::pair{Code::min, signed_half_word.high}, {Code::max, signed_half_word.low}}) {
    const Op& op = program_[id];
    std::int64_t number = 0;
    if (op.code != code || !ir::is_constant(program_, op.operands[1], number) || number != bound) continue;
    if (is_materialised_[static_cast<std::size_t>(op.operands[0])]) break;
    id = op.operands[0];
  }
  return id;
}

// Adds the terms of a value, or subtracts them; false if it has another form.
bool Widths::add_to(ProductSum& sum, Id id, bool is_negated) const {
  constexpr std::size_t most_terms = 256;
  const Op& op = program_[id];
  std::int64_t number = 0;
  if (ir::is_constant(program_, id, number)) {
    sum.number += is_negated ? -number : number;
    return true;
  }
  const bool is_plain = is_narrow(id) && !is_materialised_[static_cast<std::size_t>(id)];
  if (is_plain && (op.code == Code::add || op.code == Code::sub)) {
    const bool is_other_negated = is_negated != (op.code == Code::sub);
    return add_to(sum, op.operands[0], is_negated) && add_to(sum, op.operands[1], is_other_negated);
  }
  ProductSum::Term term{.value = id, .is_negated = is_negated};
  for (std::size_t side = 0; side < 2 && is_plain && op.code == Code::mul; ++side) {
    const Id other = op.operands[1 - side];
    if (ir::is_constant(program_, other, number)) {
      term = {.value = op.operands[side], .factor = number, .is_negated = is_negated};
    } else if (program_[other].shape.empty()) {
      term = {.value = op.operands[side], .weight = other, .is_negated = is_negated};
    }
  }
  sum.terms.push_back(term);
  Range factor = term.weight != ir::none ? range(term.weight) : Range{term.factor, term.factor};
  if (is_negated) factor = {-factor.high, -factor.low};
  return is_narrow(term.value) && signed_half_word.contains(range(term.value)) && signed_half_word.contains(factor) &&
         sum.terms.size() <= most_terms;
}

Widths::ProductSum Widths::product_sum(Id id) const {
  const Op& op = program_[without_bounds(id)];
  if (op.code != Code::shr || !is_narrow(id) || !is_shift_by_constant(op)) return {};
  if (!half_word.contains(range(id)) && !signed_half_word.contains(range(id))) return {};
  const Range& inner = range(op.operands[0]);
  const bool needs_32 = !half_word.contains(inner) && !signed_half_word.contains(inner);
  if (!needs_32 || !range_of(Type::s32).contains(inner)) return {};  // nothing has wrapped around
  ProductSum sum;
  sum.shift = range(op.operands[1]).low;
  if (!add_to(sum, op.operands[0], false) || sum.terms.size() < 2) return {};
  return sum;
}

Id Widths::without_conversions(Id id) const {
  while (is_conversion(program_[id].code) && passes_on(id) && !is_materialised_[static_cast<std::size_t>(id)]) {
    id = program_[id].operands[0];
  }
  return id;
}

// Adds the terms of a value, multiplied by a factor; false if it has another form.
bool Widths::add_to(ByteSum& sum, Id id, const ByteSum::Term& factor) const {
  constexpr int most_ops = 1024;  // a long chain is visited from each of its links
  if (++sum.ops > most_ops) return false;
  const bool is_single = factor.weight == ir::none && factor.factor == 1 && factor.offset == 0;
  std::int64_t number = 0;
  if (ir::is_constant(program_, id, number)) {
    sum.number += number * factor.factor;
    return factor.weight == ir::none;
  }
  id = without_conversions(id);
  const Op& op = program_[id];
  if (op.type == Type::u8) {
    sum.terms.push_back({id, factor.weight, factor.factor, factor.offset});
    return op.shape == program_[sum.root].shape;
  }
  if (!is_narrow(id) || (is_materialised_[static_cast<std::size_t>(id)] && id != sum.root)) return false;
  const Id a = op.operands[0], b = op.operands.size() > 1 ? op.operands[1] : ir::none;
  switch (op.code) {
    case Code::add:
      return add_to(sum, a, factor) && add_to(sum, b, factor);
    case Code::sub:
      if (!ir::is_constant(program_, b, number)) return false;
      if (program_[without_conversions(a)].type == Type::u8) {
        ByteSum::Term moved = factor;
        moved.offset -= number;
        return add_to(sum, a, moved);
      }
      sum.number -= number * factor.factor;
      return factor.weight == ir::none && add_to(sum, a, factor);
    case Code::bit_and:
      return is_single && ir::is_constant(program_, b, number) && number == half_word.high && add_to(sum, a, factor);
    case Code::mul:
      for (const auto& [value, other] : {std::pair{a, b}, {b, a}}) {
        if (!is_single || !program_[other].shape.empty() || !small_factor.contains(range(other))) continue;
        const bool is_number = ir::is_constant(program_, other, number);
        return add_to(sum, value, is_number ? ByteSum::Term{.factor = number} : ByteSum::Term{.weight = other});
      }
      return false;
    default:
      return false;
  }
}

Widths::ByteSum Widths::byte_sum(Id id) const {
  constexpr std::size_t least_terms = 3;
  const Code code = program_[id].code;
  const bool is_sum = code == Code::add || code == Code::sub || code == Code::bit_and;
  if (!multiplies_bytes_ || !is_sum || !is_narrow(id) || bits[static_cast<std::size_t>(id)] != half_bits) return {};
  ByteSum sum;
  sum.root = id;
  if (!add_to(sum, id, {}) || sum.terms.size() < least_terms) return {};
  return sum;
}

std::vector<Id> Widths::operands_of(Id id) const {
  if (const HighProduct product = high_product(id); product.a != ir::none) {
    return product.b == ir::none ? std::vector{product.a} : std::vector{product.a, product.b};
  }
  if (const Average of = average(id); of.a != ir::none) return {of.a, of.b};
  if (const ProductSum sum = product_sum(id); !sum.terms.empty()) {
    std::vector<Id> values;
    values.reserve(sum.terms.size());
    for (const ProductSum::Term& term : sum.terms) values.push_back(term.value);
    return values;
  }
  if (const ByteSum sum = byte_sum(id); !sum.terms.empty()) {
    std::vector<Id> values;
    values.reserve(sum.terms.size());
    for (const ByteSum::Term& term : sum.terms) values.push_back(term.value);
    return values;
  }
  return program_[id].operands;
}

int Widths::computed_bits(Id id, int required) const {
  const Op& op = program_[id];
  const int most = ir::bits_of(op.type);
  if (ir::is_comparison(op.code)) {
    const Type type = program_[op.operands[0]].type;
    if (op.shape.empty() || !ir::is_integer(type) || type == Type::s64) return ir::bits_of(type);
    return std::min(ir::bits_of(type), std::max(half_bits, bits_for(range_of_operands(op))));
  }
  if (!is_narrow(id)) return most;
  const auto at_least = [&](int wanted) { return std::min(most, std::max(half_bits, wanted)); };
  if (keeps_lower_bits(op)) return at_least(std::min(bits_for(range(id)), required));
  switch (op.code) {
    case Code::shr:
      if (high_product(id).a != ir::none) return half_bits;
      if (const Average of = average(id); of.a != ir::none) return bits_for(join(range(of.a), range(of.b)));
      if (!product_sum(id).terms.empty()) return half_bits;
      return is_shift_by_constant(op) ? whole(op.operands[0]) : most;
    case Code::min:
    case Code::max:
      if (!product_sum(id).terms.empty()) return half_bits;
      return at_least(bits_for(range_of_operands(op)));
    case Code::abs:
      return at_least(bits_for(join(range(id), range(op.operands[0]))));
    case Code::div:
    case Code::rem:
      return range(op.operands[1]).low > 0 ? at_least(bits_for(range_of_operands(op))) : most;
    case Code::convert:
    case Code::nearest:
      if (program_[op.operands[0]].type == Type::boolean) return at_least(half_bits);
      return is_narrow(op.operands[0]) ? whole(op.operands[0]) : most;
    default:
      return most;
  }
}

void Widths::require_of_operands(Id id, std::vector<int>& required) const {
  const Op& op = program_[id];
  const auto require = [&](Id of, int wanted) {
    int& now = required[static_cast<std::size_t>(of)];
    now = std::max(now, wanted);
  };
  for (const Id extent : op.shape) require(extent, ir::bits_of(Type::s64));
  if (op.code == Code::loop) {
    for (const Id result : program_.regions[static_cast<std::size_t>(op.index)].results) require(result, whole(result));
  }
  if (const HighProduct product = high_product(id); product.a != ir::none) {
    require(product.a, half_bits);
    if (product.b != ir::none) require(product.b, half_bits);
    return;
  }
  if (const Average of = average(id); of.a != ir::none) {
    require(of.a, half_bits);
    return require(of.b, half_bits);
  }
  if (const ProductSum sum = product_sum(id); !sum.terms.empty()) {
    for (const ProductSum::Term& term : sum.terms) {
      require(term.value, half_bits);
      if (term.weight != ir::none) require(term.weight, whole(term.weight));
    }
    return;
  }
  if (const ByteSum sum = byte_sum(id); !sum.terms.empty()) {
    for (const ByteSum::Term& term : sum.terms) {
      require(term.value, ir::bits_of(Type::u8));
      if (term.weight != ir::none) require(term.weight, whole(term.weight));
    }
    return;
  }
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const Id operand = op.operands[i];
    const bool is_operand_narrow = ir::is_integer(program_[operand].type);
    if (i == 0 && passes_on(id)) {
      require(operand, required[static_cast<std::size_t>(id)]);
    } else if (is_operand_narrow && is_narrow(id) && keeps_lower_bits(op)) {
      require(operand, bits[static_cast<std::size_t>(id)]);
    } else {
      require(operand, whole(operand));
    }
  }
}

}  // namespace tessera::compile::cpu
