#include <tessera/error.hpp>

#include "compile/gpu/printer.hpp"
#include "core/text.hpp"

#include <algorithm>
#include <limits>

namespace tessera::compile::gpu {

using ir::Code;
using ir::Id;
using ir::Op;
using ir::Type;

namespace {

constexpr std::int64_t greatest_place = std::numeric_limits<std::int32_t>::max();
// A place times more than this is no place any more.
constexpr std::int64_t largest_factor = 65536;

[[noreturn]] void unsupported(const ir::Program& program, const Target& target, std::string_view type) {
  throw Error(Errc::unsupported, core::text("[", program.name, "] needs ", type, ", which ", target.device, " (",
                                            target.dialect == Dialect::gles     ? "gles"
                                            : target.dialect == Dialect::opencl ? "opencl"
                                            : target.dialect == Dialect::cuda   ? "cuda"
                                                                                : "vulkan",
                                            ") does not have"));
}

// What is known of an s64. What is computed from places alone is a place again, and no larger than those are.
struct Range {
  std::int64_t low = least;
  std::int64_t high = greatest;
  bool is_place = false;

  static constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
  static constexpr std::int64_t greatest = std::numeric_limits<std::int64_t>::max();
  bool fits() const { return low >= -greatest_place - 1 && high <= greatest_place; }
};

// Sums and products that stay what they are at the end of the type.
std::int64_t sum(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  return __builtin_add_overflow(a, b, &result) ? (a < 0 ? Range::least : Range::greatest) : result;
}
std::int64_t product(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? ((a < 0) != (b < 0) ? Range::least : Range::greatest) : result;
}
std::int64_t negated(std::int64_t a) { return a == Range::least ? Range::greatest : -a; }

class Ranges {
 public:
  Ranges(const ir::Program& program, const Target& target) : program_(program), target_(target) {
    for (const Op& op : program.ops) known_.push_back(op.type == Type::s64 ? look(op) : Range{});
  }

  bool fits(std::size_t id) const { return known_[id].fits(); }

 private:
  const Range& of(Id id) const { return known_[static_cast<std::size_t>(id)]; }
  // As it comes out, or within the places if its operands are such.
  Range made(const Op& op, std::int64_t low, std::int64_t high, std::size_t first = 0) const {
    const bool are_places = std::all_of(op.operands.begin() + static_cast<std::ptrdiff_t>(first), op.operands.end(),
                                        [&](Id operand) { return of(operand).is_place; });
    if (!are_places) {
      // What may not fit into 64 bits has come round.
      const bool is_lost = low == Range::least || high == Range::greatest;
      return is_lost ? Range{} : Range{low, high, false};
    }
    return {std::max(low, -greatest_place - 1), std::min(high, greatest_place), true};
  }
  Range look(const Op& op) const;
  Range binary(const Op& op) const;
  Range multiplied(const Op& op) const;
  Range converted(const Op& op) const {
    switch (program_[op.operands[0]].type) {
      case Type::boolean:
        return {0, 1, false};
      case Type::u8:
        return {0, 255, false};
      case Type::s32:
        return {-greatest_place - 1, greatest_place, false};
      case Type::u32:
        return {0, std::numeric_limits<std::uint32_t>::max(), false};
      case Type::s64:
        return of(op.operands[0]);
      default:  // without 64-bit integers they can only be places
        return target_.has_s64 ? Range{} : Range{-greatest_place - 1, greatest_place, true};
    }
  }

  const ir::Program& program_;
  const Target& target_;
  std::vector<Range> known_;
};

Range Ranges::multiplied(const Op& op) const {
  const Range &a = of(op.operands[0]), &b = of(op.operands[1]);
  const std::int64_t corners[] = {product(a.low, b.low), product(a.low, b.high), product(a.high, b.low),
                                  product(a.high, b.high)};
  const auto [low, high] = std::minmax_element(std::begin(corners), std::end(corners));
  std::int64_t number = 0;
  for (const Id operand : op.operands) {
    const bool is_large = ir::is_constant(program_, operand, number) && std::abs(number) > largest_factor;
    if (is_large) return *low == Range::least || *high == Range::greatest ? Range{} : Range{*low, *high, false};
  }
  return made(op, *low, *high);
}

Range Ranges::binary(const Op& op) const {
  const Range &a = of(op.operands[0]), &b = of(op.operands[1]);
  std::int64_t number = 0;
  const bool by_number = ir::is_constant(program_, op.operands[1], number);
  switch (op.code) {
    case Code::add:
      return made(op, sum(a.low, b.low), sum(a.high, b.high));
    case Code::sub:
      return made(op, sum(a.low, negated(b.high)), sum(a.high, negated(b.low)));
    case Code::mul:
      return multiplied(op);
    case Code::min: {
      Range least = made(op, std::min(a.low, b.low), std::min(a.high, b.high));
      if ((a.is_place && b.low >= 0) || (b.is_place && a.low >= 0)) least.is_place = true;  // from 0 to a place
      return least;
    }
    case Code::max:
      return made(op, std::max(a.low, b.low), std::max(a.high, b.high));
    case Code::div: {
      const std::int64_t size = std::max(a.high, negated(a.low));
      return made(op, a.low >= 0 && b.low >= 0 ? 0 : negated(size), size);
    }
    case Code::rem: {
      const std::int64_t size = std::max(a.high, negated(a.low));
      return made(op, a.low >= 0 ? 0 : negated(size), size);
    }
    case Code::bit_and:
      for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
        const Range& other = of(op.operands[1 - side]);
        if (ir::is_constant(program_, op.operands[side], number) && number >= 0 && other.low >= 0) {
          return {0, std::min(number, other.high), other.is_place};
        }
      }
      return a.fits() && b.fits() ? Range{-greatest_place - 1, greatest_place, a.is_place && b.is_place} : Range{};
    case Code::bit_or:
    case Code::bit_xor:
      return a.fits() && b.fits() ? Range{-greatest_place - 1, greatest_place, a.is_place && b.is_place} : Range{};
    case Code::shr:
      if (!by_number || number < 0 || number > 63) return {};
      return {a.low >> number, a.high >> number, a.is_place};
    case Code::shl:
      if (!by_number || number < 0 || number > 16) return {};
      return {product(a.low, std::int64_t{1} << number), product(a.high, std::int64_t{1} << number), false};
    default:
      return {};
  }
}

Range Ranges::look(const Op& op) const {
  switch (op.code) {
    case Code::constant:
      return {op.integer, op.integer, op.integer >= -greatest_place - 1 && op.integer <= greatest_place};
    case Code::dim:
    case Code::tile_dim:
    case Code::origin:
    case Code::block:
    case Code::iota:
    case Code::argmax:
      return {0, greatest_place, true};
    case Code::argument:  // a loop's counter
      return op.shape.empty() && op.index == 0 ? Range{0, greatest_place, true} : Range{};
    case Code::neg: {
      const Range& a = of(op.operands[0]);
      return made(op, negated(a.high), negated(a.low));
    }
    case Code::abs: {
      const Range& a = of(op.operands[0]);
      return made(op, 0, std::max(a.high, negated(a.low)));
    }
    case Code::bit_not: {
      const Range& a = of(op.operands[0]);
      return {~a.high, ~a.low, a.is_place};
    }
    case Code::select: {
      const Range &a = of(op.operands[1]), &b = of(op.operands[2]);
      return {std::min(a.low, b.low), std::max(a.high, b.high), a.is_place && b.is_place};
    }
    case Code::convert:
    case Code::nearest:
      return converted(op);
    case Code::broadcast:
    case Code::reshape:
    case Code::transpose:
      return of(op.operands[0]);
    case Code::slice:
    case Code::pick: {  // or zero
      const Range& a = of(op.operands[0]);
      return {std::min<std::int64_t>(a.low, 0), std::max<std::int64_t>(a.high, 0), a.is_place};
    }
    default:
      return op.operands.size() == 2 ? binary(op) : Range{};
  }
}

}  // namespace

std::vector<Kept> kept_as(const ir::Program& program, const std::vector<bool>& is_live, const Target& target) {
  const Ranges ranges(program, target);
  std::vector<Kept> result;
  for (std::size_t id = 0; id < program.ops.size(); ++id) {
    const Op& op = program.ops[id];
    switch (op.type) {
      case Type::f32:
        result.push_back(Kept::f32);
        break;
      case Type::f64:
        if (is_live[id] && !target.has_f64) unsupported(program, target, "f64");
        result.push_back(Kept::f64);
        break;
      case Type::s32:
        result.push_back(Kept::s32);
        break;
      case Type::s64: {
        const bool is_place = ranges.fits(id);
        const bool is_value = op.code != Code::loop && op.code != Code::store && op.code != Code::constant;
        // What a loop carries is computed whether or not somebody asks for it.
        const bool is_carried =
            op.code == Code::argument &&
            is_live[static_cast<std::size_t>(program.regions[static_cast<std::size_t>(op.region)].loop)];
        if ((is_live[id] || is_carried) && is_value && !is_place && !target.has_s64)
          unsupported(program, target, "s64");
        result.push_back(is_place ? Kept::s32 : Kept::s64);
        break;
      }
      case Type::boolean:
        result.push_back(Kept::boolean);
        break;
      default:
        result.push_back(Kept::u32);
    }
  }
  return result;
}

}  // namespace tessera::compile::gpu
