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
  throw Error(Errc::unsupported,
              core::text("[", program.name, "] needs ", type, ", which ", full_name(target), " does not have"));
}

// What is known of an s64. What is computed from places alone is a place again, and no larger than those are.
struct Range {
  std::int64_t low = least;
  std::int64_t high = greatest;
  bool is_place = false;
  // What came from floats and is kept in 32 bits may stand for a number that does not fit, above zero or below it. Then
  // both of them are at least `far` from it.
  bool is_far_below = false;
  bool is_far_above = false;
  std::int64_t far = farthest_place;

  static constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
  static constexpr std::int64_t greatest = std::numeric_limits<std::int64_t>::max();
  bool fits() const { return low >= -greatest_place - 1 && high <= greatest_place; }
  bool is_far() const { return is_far_below || is_far_above; }
  // How far from zero it is at most, where no axis is longer than longest_axis.
  std::int64_t size() const {
    const std::int64_t known = std::max(high, low == least ? greatest : -low);
    return is_place && low != high ? std::min(known, longest_axis) : known;
  }
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

// What came from floats: its ends are those of 32 bits, so that it comes round where the s64 does.
Range from_floats(bool is_far_below, bool is_far_above, std::int64_t far) {
  return {-greatest_place - 1, greatest_place, true, is_far_below, is_far_above, far};
}

class Ranges {
 public:
  Ranges(const ir::Program& program, const Target& target) : program_(program), target_(target) {
    for (const Op& op : program.ops) {
      const bool has_far = std::ranges::any_of(op.operands, [&](Id operand) { return of(operand).is_far(); });
      known_.push_back(op.type != Type::s64 ? Range{} : has_far ? from_far(op) : look(op));
    }
  }

  bool fits(std::size_t id) const { return known_[id].fits(); }
  // Whether the op does the same with what stands for other numbers as with those.
  bool is_right(const Op& op) const {
    const auto is_far = [&](Id id) { return of(id).is_far(); };
    if (std::ranges::any_of(op.shape, is_far)) return false;
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      if (is_far(op.operands[i]) && !may_be_far(op, i)) return false;
    }
    return true;
  }

 private:
  bool may_be_far(const Op& op, std::size_t i) const;
  Range from_far(const Op& op) const;
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
      default:
        return target_.has_s64 ? Range{} : from_floats(true, true, farthest_place);
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

bool Ranges::may_be_far(const Op& op, std::size_t i) const {
  const Range& given = of(op.operands[i]);
  switch (op.code) {
    case Code::neg:
    case Code::abs:
    case Code::add:
    case Code::sub:
    case Code::broadcast:
    case Code::reshape:
    case Code::transpose:
    case Code::select:
      return true;  // from_far says what comes of it
    case Code::min:
    case Code::max:
    case Code::eq:
    case Code::ne:
    case Code::lt:
    case Code::le:
    case Code::gt:
    case Code::ge: {
      const Range& other = of(op.operands[1 - i]);
      return !other.is_far() && other.size() < given.far;
    }
    case Code::convert:
    case Code::nearest:
      return op.type == Type::s64 || op.type == Type::u8 || op.type == Type::boolean;
    case Code::loop:
      return i == 0 && !given.is_far_above;
    case Code::slice:
      return i == 0;
    case Code::load:
    case Code::pick: {
      if (op.code == Code::pick && i == 0) return true;
      const std::size_t indices = op.operands.size() - ir::indices_of(op).size();
      const bool is_near_or_end = op.border == ir::Border::zero || op.border == ir::Border::clamp;
      return i >= indices && is_near_or_end && (op.list.empty() || op.list[i - indices] == 1);
    }
    default:
      return false;
  }
}

// Of an s64 with operands that may be far.
Range Ranges::from_far(const Op& op) const {
  const Range& a = of(op.operands[0]);
  switch (op.code) {
    case Code::neg:
    case Code::abs:
      return from_floats(true, true, a.far);
    case Code::add:
    case Code::sub: {
      const Range& b = of(op.operands[1]);
      const std::int64_t far = std::min(a.far, b.far) - (a.is_far() ? b : a).size();
      return (a.is_far() && b.is_far()) || far <= longest_axis ? Range{} : from_floats(true, true, far);
    }
    case Code::min:
    case Code::max: {
      Range result = binary(op);
      const Range& b = of(op.operands[1]);
      result.is_far_below = op.code == Code::min && (a.is_far_below || b.is_far_below);
      result.is_far_above = op.code == Code::max && (a.is_far_above || b.is_far_above);
      result.far = std::min(a.far, b.far);
      return result;
    }
    case Code::select: {
      const Range &b = of(op.operands[1]), &c = of(op.operands[2]);
      return from_floats(b.is_far_below || c.is_far_below, b.is_far_above || c.is_far_above, std::min(b.far, c.far));
    }
    default:
      return a.is_far() ? a : look(op);
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

std::string full_name(const Target& target) {
  constexpr const char* backends[] = {"vulkan", "gles", "opencl", "cuda"};
  return core::text(target.device, " (", backends[static_cast<int>(target.dialect)], ")");
}

bool has_far_places(const ir::Program& program, const Target& target) {
  return !target.has_s64 && std::ranges::any_of(program.ops, [&](const Op& op) {
    const bool is_conversion = op.code == Code::convert || op.code == Code::nearest;
    return is_conversion && op.type == Type::s64 && ir::is_float(program[op.operands[0]].type);
  });
}

std::vector<Kept> kept_as(const ir::Program& program, const std::vector<bool>& is_live, const Target& target) {
  const Ranges ranges(program, target);
  std::vector<Kept> result;
  for (std::size_t id = 0; id < program.ops.size(); ++id) {
    const Op& op = program.ops[id];
    if (is_live[id] && !ranges.is_right(op)) unsupported(program, target, "s64");
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
