#include "ir/ranges.hpp"

#include "ir/rules.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tessera::ir {

namespace {

constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t greatest = std::numeric_limits<std::int64_t>::max();

// Twice as wide as any type: no sum or product of two numbers overflows.
__extension__ typedef __int128 Wide;  // NOLINT(modernize-use-using): -Wpedantic takes it only so

// A value that may not fit its type wraps around, and can then be anything.
Range wrapped(Wide low, Wide high, Type type) {
  const Range all = range_of(type);
  if (low < all.low || high > all.high) return all;
  return {static_cast<std::int64_t>(low), static_cast<std::int64_t>(high)};
}

// The range of a function that is monotonic in both operands.
template <class F>
Range from_corners(const Range& a, const Range& b, Type type, F&& f) {
  const auto [low, high] = std::minmax({f(Wide{a.low}, Wide{b.low}), f(Wide{a.low}, Wide{b.high}),
                                        f(Wide{a.high}, Wide{b.low}), f(Wide{a.high}, Wide{b.high})});
  return wrapped(low, high, type);
}

Range sum(const Range& a, const Range& b, Type type) {
  return wrapped(Wide{a.low} + b.low, Wide{a.high} + b.high, type);
}

Range difference(const Range& a, const Range& b, Type type) {
  return wrapped(Wide{a.low} - b.high, Wide{a.high} - b.low, type);
}

Range product(const Range& a, const Range& b, Type type) {
  return from_corners(a, b, type, [](Wide x, Wide y) { return x * y; });
}

// From any number of the range to zero.
Range towards_zero(const Range& a) { return {std::min<std::int64_t>(a.low, 0), std::max<std::int64_t>(a.high, 0)}; }

// How far from zero the numbers of a range can be.
Wide magnitude(const Range& a) { return std::max(Wide{a.high}, -Wide{a.low}); }

Range quotient(const Range& a, const Range& b, Type type) {
  if (b.low > 0) return from_corners(a, b, type, [](Wide x, Wide y) { return x / y; });
  if (b == Range{0, 0}) return {0, 0};
  return wrapped(a.low >= 0 && b.low >= 0 ? 0 : -magnitude(a), magnitude(a), type);
}

Range remainder(const Range& a, const Range& b, Type type) {
  if (b == Range{0, 0}) return {0, 0};
  if (a.is_exact() && b.is_exact()) {
    const auto rest = static_cast<std::int64_t>(Wide{a.low} % b.low);
    return {rest, rest};
  }
  const Wide most = magnitude(b) - 1;
  return wrapped(a.low < 0 ? std::max(Wide{a.low}, -most) : 0, a.high > 0 ? std::min(Wide{a.high}, most) : 0, type);
}

Range bitwise(Code code, const Range& a, const Range& b) {
  if (code == Code::bit_and && (a.low >= 0 || b.low >= 0)) {
    return {0, a.low < 0 ? b.high : b.low < 0 ? a.high : std::min(a.high, b.high)};
  }
  // As many bits as the longest of the four numbers has; a negative number has those of its complement.
  const auto bits_of_number = [](std::int64_t number) {
    return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(number < 0 ? ~number : number)));
  };
  const int bits =
      std::max({bits_of_number(a.low), bits_of_number(a.high), bits_of_number(b.low), bits_of_number(b.high)});
  const auto ones = static_cast<std::int64_t>((std::uint64_t{1} << bits) - 1);
  return {a.low < 0 || b.low < 0 ? ~ones : 0, ones};
}

Range shifted(Code code, const Range& a, const Range& by, Type type) {
  if (by.low < 0 || by.high >= bits_of(type)) return code == Code::shr ? towards_zero(a) : range_of(type);
  if (code == Code::shr) return from_corners(a, by, type, [](Wide x, Wide y) { return x >> y; });
  return from_corners(a, by, type, [](Wide x, Wide y) { return x * (Wide{1} << y); });
}

Range absolute(const Range& a, Type type) {
  if (a.low >= 0) return a;
  return wrapped(a.high < 0 ? -Wide{a.high} : 0, magnitude(a), type);  // of the least number: itself
}

Range inverted(const Range& a, Type type) {
  if (is_signed(type)) return {~a.high, ~a.low};
  const std::int64_t ones = range_of(type).high;
  return {ones - a.high, ones - a.low};
}

Range compared(Code code, const Range& a, const Range& b) {
  const auto answer = [](bool is_true, bool is_false) { return Range{is_true ? 1 : 0, is_false ? 0 : 1}; };
  switch (code) {
    case Code::lt:
      return answer(a.high < b.low, a.low >= b.high);
    case Code::le:
      return answer(a.high <= b.low, a.low > b.high);
    case Code::gt:
      return answer(a.low > b.high, a.high <= b.low);
    case Code::ge:
      return answer(a.low >= b.high, a.high < b.low);
    default: {
      const bool are_apart = a.high < b.low || a.low > b.high;
      const bool are_equal = a.is_exact() && a == b;
      return code == Code::eq ? answer(are_equal, are_apart) : answer(are_apart, are_equal);
    }
  }
}

Range saturated(const Range& a, Type type) {
  if (type == Type::boolean) return a == Range{0, 0} ? a : Range{a.low > 0 || a.high < 0 ? 1 : 0, 1};
  const Range all = range_of(type);
  return {std::clamp(a.low, all.low, all.high), std::clamp(a.high, all.low, all.high)};
}

// Of an axis or a loop of so many elements: the index of one of them.
Range index_below(const Range& count) { return {0, std::max<std::int64_t>(count.high, 1) - 1}; }

class OpRange {
 public:
  OpRange(const Program& program, const Op& op, const Facts& facts, const RangeOf& of)
      : program_(program), op_(op), facts_(facts), of_(of) {}

  Range find() const {
    if (is_float(op_.type)) return range_of(op_.type);
    if (op_.operands.empty()) return leaf();
    if (is_binary(op_.code)) return binary(operand(0), operand(1));
    return other();
  }

 private:
  Range operand(std::size_t number) const { return of_(op_.operands[number]); }
  Range leaf() const;
  Range dim(int buffer, int axis) const;
  Range binary(const Range& a, const Range& b) const;
  Range other() const;
  Range converted() const;
  Range from_float(const Op& from) const;

  const Program& program_;
  const Op& op_;
  const Facts& facts_;
  const RangeOf& of_;
};

Range OpRange::dim(int buffer, int axis) const {
  const std::int64_t known = program_.buffers[static_cast<std::size_t>(buffer)].dims[static_cast<std::size_t>(axis)];
  if (known >= 0) return {known, known};
  if (!facts_.dims) return facts_.extents;
  std::size_t first = 0;
  for (int i = 0; i < buffer; ++i) first += program_.buffers[static_cast<std::size_t>(i)].dims.size();
  const std::int64_t extent = facts_.dims[first + static_cast<std::size_t>(axis)];
  return {extent, extent};
}

Range OpRange::leaf() const {
  const auto axis = static_cast<std::size_t>(op_.axis);
  switch (op_.code) {
    case Code::constant:
      return wrapped(op_.integer, op_.integer, op_.type);
    case Code::scalar: {
      if (!facts_.scalars) return range_of(op_.type);
      const auto value = static_cast<std::int64_t>(facts_.scalars[op_.index]);
      return wrapped(value, value, op_.type);
    }
    case Code::dim:
      return dim(op_.index, op_.axis);
    case Code::tile_dim:
      if (facts_.tile.empty()) return facts_.extents;
      return facts_.tile[axis] == 0 ? dim(0, op_.axis) : Range{facts_.tile[axis], facts_.tile[axis]};
    case Code::block:
      return facts_.dims ? index_below(dim(0, op_.axis)) : facts_.extents;
    case Code::origin:
      return facts_.dims ? index_below(dim(0, op_.axis)) : facts_.coordinates;
    case Code::iota:
      return facts_.dims ? index_below(of_(op_.shape[axis])) : facts_.coordinates;
    case Code::argument:
      if (op_.index != 0) return range_of(op_.type);
      return index_below(of_(program_[program_.regions[static_cast<std::size_t>(op_.region)].loop].operands[0]));
    default:
      return range_of(op_.type);
  }
}

Range OpRange::binary(const Range& a, const Range& b) const {
  const Type type = op_.type;
  switch (op_.code) {
    case Code::add:
      return sum(a, b, type);
    case Code::sub:
      return difference(a, b, type);
    case Code::mul:
      return product(a, b, type);
    case Code::div:
      return quotient(a, b, type);
    case Code::rem:
      return remainder(a, b, type);
    case Code::min:
      return {std::min(a.low, b.low), std::min(a.high, b.high)};
    case Code::max:
      return {std::max(a.low, b.low), std::max(a.high, b.high)};
    case Code::pow:
      return range_of(type);
    case Code::bit_and:
    case Code::bit_or:
    case Code::bit_xor:
      return bitwise(op_.code, a, b);
    case Code::shl:
    case Code::shr:
      return shifted(op_.code, a, b, type);
    default:
      return is_float(program_[op_.operands[0]].type) ? range_of(type) : compared(op_.code, a, b);
  }
}

// The number that a float constant, or a scalar of a launch, is converted to.
Range OpRange::from_float(const Op& from) const {
  const Range all = range_of(op_.type);
  const bool is_scalar = from.code == Code::scalar && facts_.scalars;
  if (op_.type == Type::boolean || (from.code != Code::constant && !is_scalar)) return all;
  const double number = is_scalar ? std::bit_cast<double>(facts_.scalars[from.index]) : from.number;
  constexpr double end = 9223372036854775808.0;  // the greatest s64 + 1
  if (std::isnan(number)) return {0, 0};
  if (std::abs(number) >= end) return all;
  const auto whole = static_cast<std::int64_t>(op_.code == Code::nearest ? std::round(number) : number);
  return saturated({whole, whole}, op_.type);
}

Range OpRange::converted() const {
  const Op& from = program_[op_.operands[0]];
  return is_float(from.type) ? from_float(from) : saturated(operand(0), op_.type);
}

Range OpRange::other() const {
  switch (op_.code) {
    case Code::neg:
      return difference({0, 0}, operand(0), op_.type);
    case Code::abs:
      return absolute(operand(0), op_.type);
    case Code::bit_not:
      return inverted(operand(0), op_.type);
    case Code::fma:
      return sum(product(operand(0), operand(1), op_.type), operand(2), op_.type);
    case Code::select: {
      const Range condition = operand(0);
      if (condition.is_exact()) return operand(condition.low != 0 ? 1 : 2);
      return join(operand(1), operand(2));
    }
    case Code::convert:
    case Code::nearest:
      return converted();
    case Code::broadcast:
    case Code::reshape:
    case Code::transpose:
      return operand(0);
    case Code::pick:
    case Code::slice:  // outside of the operand: zero
      return join(operand(0), {0, 0});
    case Code::argmax:
      return facts_.extents;
    default:
      return range_of(op_.type);
  }
}

}  // namespace

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
      return {least, greatest};
  }
}

Range join(const Range& a, const Range& b) { return {std::min(a.low, b.low), std::max(a.high, b.high)}; }

int bits_for(const Range& range) {
  for (const int bits : {8, 16, 32}) {
    const std::int64_t half = std::int64_t{1} << (bits - 1);
    if (range.low >= 0 ? range.high < 2 * half : range.low >= -half && range.high < half) return bits;
  }
  return 64;
}

Range range_of_op(const Program& program, const Op& op, const Facts& facts, const RangeOf& of) {
  return OpRange(program, op, facts, of).find();
}

std::vector<Range> find_ranges(const Program& program, const Facts& facts) {
  std::vector<Range> ranges(program.ops.size());
  const RangeOf of = [&](Id id) { return ranges[static_cast<std::size_t>(id)]; };
  for (std::size_t id = 0; id < program.ops.size(); ++id) ranges[id] = range_of_op(program, program.ops[id], facts, of);
  return ranges;
}

Range find_range(const Program& program, Id id, const Facts& facts) {
  const Op& op = program[id];
  if (!op.shape.empty()) return range_of(op.type);
  return range_of_op(program, op, facts, [&](Id operand) { return find_range(program, operand, facts); });
}

bool may_be_negative(const Program& program, Id extent) {
  // A longer axis would need more memory than there is. Adding to it cannot overflow.
  constexpr Range axis = {0, std::int64_t{1} << 48};
  return find_range(program, extent, {.extents = axis, .coordinates = axis}).low < 0;
}

}  // namespace tessera::ir
