#include "compile/cpu/llvm/range.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace tessera::compile {

using ir::Code;
using ir::Id;
using ir::Op;
using ir::Type;

namespace {

constexpr std::int64_t greatest = std::numeric_limits<std::int64_t>::max();
// Nothing has points so far away that a loop gets there: the sum of two such is not negative.
constexpr std::int64_t farthest = std::int64_t{1} << 60;

// What a type cannot hold wraps around, and can then be anything.
Range fit(std::int64_t low, std::int64_t high, Type type) {
  const Range all = range_of(type);
  return all.contains({low, high}) ? Range{low, high} : all;
}

Range plus(const Range& a, const Range& b, Type type) {
  Range sum;
  const bool is_out =
      __builtin_add_overflow(a.low, b.low, &sum.low) || __builtin_add_overflow(a.high, b.high, &sum.high);
  return is_out ? range_of(type) : fit(sum.low, sum.high, type);
}

Range minus(const Range& a, const Range& b, Type type) {
  Range rest;
  const bool is_out =
      __builtin_sub_overflow(a.low, b.high, &rest.low) || __builtin_sub_overflow(a.high, b.low, &rest.high);
  return is_out ? range_of(type) : fit(rest.low, rest.high, type);
}

Range times(const Range& a, const Range& b, Type type) {
  Range all = {greatest, std::numeric_limits<std::int64_t>::min()};
  for (const std::int64_t x : {a.low, a.high}) {
    for (const std::int64_t y : {b.low, b.high}) {
      std::int64_t product = 0;
      if (__builtin_mul_overflow(x, y, &product)) return range_of(type);
      all = join(all, {product, product});
    }
  }
  return fit(all.low, all.high, type);
}

// Nearer to zero than a, or as near.
Range towards_zero(const Range& a) { return {std::min<std::int64_t>(a.low, 0), std::max<std::int64_t>(a.high, 0)}; }

Range quotient(Code code, const Range& a, const Range& b, Type type) {
  if (b.low <= 0) return range_of(type);
  if (code == Code::rem) {
    if (a.low < 0) return towards_zero(a);
    return {0, std::min(a.high, b.high - 1)};
  }
  return b.low == b.high ? Range{a.low / b.low, a.high / b.low} : towards_zero(a);
}

Range bitwise(Code code, const Range& a, const Range& b, Type type) {
  if (code == Code::bit_and) {
    if (a.low >= 0 && b.low >= 0) return {0, std::min(a.high, b.high)};
    if (a.low >= 0 || b.low >= 0) return {0, a.low >= 0 ? a.high : b.high};
  } else if (a.low >= 0 && b.low >= 0) {
    const auto bits = std::bit_width(static_cast<std::uint64_t>(std::max(a.high, b.high)));
    return {0, static_cast<std::int64_t>((std::uint64_t{1} << bits) - 1)};
  }
  return range_of(type);
}

Range shifted(Code code, const Range& a, const Range& by, Type type) {
  if (by.low != by.high || by.low < 0 || by.low >= ir::bits_of(type)) {
    return code == Code::shr ? towards_zero(a) : range_of(type);
  }
  if (code == Code::shr) return {a.low >> by.low, a.high >> by.low};
  if (by.low >= 63) return range_of(type);
  const std::int64_t factor = std::int64_t{1} << by.low;
  return times(a, {factor, factor}, type);
}

// From an integer or a boolean.
Range saturated(const Range& a, Type type) {
  if (type == Type::boolean) return {0, 1};
  const Range all = range_of(type);
  return {std::clamp(a.low, all.low, all.high), std::clamp(a.high, all.low, all.high)};
}

Range absolute(const Range& a, Type type) {
  if (a.low >= 0) return a;
  if (a.low < -range_of(type).high) return range_of(type);  // the least number stays what it is
  return {a.high < 0 ? -a.high : 0, std::max(-a.low, a.high)};
}

// What a loop counts up to is below its count.
Range counter(const ir::Program& program, const Op& argument, const std::vector<Range>& ranges) {
  const Op& loop = program[program.regions[static_cast<std::size_t>(argument.region)].loop];
  const Range& count = ranges[static_cast<std::size_t>(loop.operands[0])];
  return {0, std::max<std::int64_t>(count.high, 1) - 1};
}

}  // namespace

Range join(const Range& a, const Range& b) { return {std::min(a.low, b.low), std::max(a.high, b.high)}; }

Range range_of(Type type) {
  switch (type) {
    case Type::boolean:
      return {0, 1};
    case Type::u8:
      return {0, std::numeric_limits<std::uint8_t>::max()};
    case Type::s32:
      return {std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()};
    case Type::u32:
      return {0, std::numeric_limits<std::uint32_t>::max()};
    default:
      return {std::numeric_limits<std::int64_t>::min(), greatest};
  }
}

int bits_for(const Range& range) {
  for (const int bits : {8, 16, 32}) {
    const std::int64_t half = std::int64_t{1} << (bits - 1);
    if (range.low >= 0 ? range.high < 2 * half : range.low >= -half && range.high < half) return bits;
  }
  return 64;
}

std::vector<Range> find_ranges(const ir::Program& program) {
  std::vector<Range> ranges(program.ops.size());
  for (std::size_t id = 0; id < program.ops.size(); ++id) {
    const Op& op = program.ops[id];
    const auto of = [&](std::size_t operand) { return ranges[static_cast<std::size_t>(op.operands[operand])]; };
    Range& range = ranges[id];
    range = range_of(op.type);
    if (ir::is_float(op.type)) continue;
    switch (op.code) {
      case Code::constant:
        range = fit(op.integer, op.integer, op.type);
        break;
      case Code::dim:
      case Code::tile_dim:
      case Code::block:
      case Code::argmax:
        range = {0, greatest};
        break;
      case Code::origin:
      case Code::iota:
        range = {0, farthest};
        break;
      case Code::argument:
        if (op.index == 0) range = counter(program, op, ranges);
        break;
      case Code::neg:
        range = minus({0, 0}, of(0), op.type);
        break;
      case Code::abs:
        range = absolute(of(0), op.type);
        break;
      case Code::add:
        range = plus(of(0), of(1), op.type);
        break;
      case Code::sub:
        range = minus(of(0), of(1), op.type);
        break;
      case Code::mul:
        range = times(of(0), of(1), op.type);
        break;
      case Code::fma:
        range = plus(times(of(0), of(1), op.type), of(2), op.type);
        break;
      case Code::div:
      case Code::rem:
        range = quotient(op.code, of(0), of(1), op.type);
        break;
      case Code::min:
        range = {std::min(of(0).low, of(1).low), std::min(of(0).high, of(1).high)};
        break;
      case Code::max:
        range = {std::max(of(0).low, of(1).low), std::max(of(0).high, of(1).high)};
        break;
      case Code::bit_and:
      case Code::bit_or:
      case Code::bit_xor:
        range = bitwise(op.code, of(0), of(1), op.type);
        break;
      case Code::shl:
      case Code::shr:
        range = shifted(op.code, of(0), of(1), op.type);
        break;
      case Code::select:
        range = join(of(1), of(2));
        break;
      case Code::convert:
      case Code::nearest:
        if (!ir::is_float(program[op.operands[0]].type)) range = saturated(of(0), op.type);
        break;
      case Code::broadcast:
      case Code::reshape:
      case Code::transpose:
        range = of(0);
        break;
      case Code::pick:
      case Code::slice:  // outside of the operand: zero
        range = join(of(0), {0, 0});
        break;
      default:
        break;
    }
  }
  return ranges;
}

}  // namespace tessera::compile
