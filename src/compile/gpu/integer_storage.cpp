#include <tessera/error.hpp>

#include "compile/gpu/printer.hpp"
#include "core/text.hpp"
#include "ir/known_numbers.hpp"
#include "ir/ranges.hpp"

#include <algorithm>
#include <limits>

namespace tessera::compile::gpu {

using ir::Code;
using ir::Id;
using ir::Op;
using ir::Type;

namespace {

constexpr std::int64_t int32_max = std::numeric_limits<std::int32_t>::max();
constexpr ir::Range all_int32 = {-int32_max - 1, int32_max};
constexpr ir::Range all_int64 = {};
// An index times a larger constant no longer counts as an index.
constexpr std::int64_t largest_factor = 65536;

[[noreturn]] void unsupported(const ir::Program& program, const Target& target, std::string_view type) {
  throw Error(Errc::unsupported,
              core::text("[", program.name, "] needs ", type, ", which ", full_name(target), " does not have"));
}

// What is known about an s64. A value computed from indices alone is an index again: it fits in 32 bits, because no
// buffer that a kernel can use has more elements.
struct Known {
  ir::Range range = all_int64;
  bool is_index = false;
  // A number that came from floats and is stored in 32 bits may stand for one that does not fit, below zero or above
  // it. Then both are at least `far` from zero.
  bool is_far_below = false;
  bool is_far_above = false;
  std::int64_t far = largest_index;

  bool fits() const { return all_int32.contains(range); }
  bool is_far() const { return is_far_below || is_far_above; }
  // How far from zero it is at most, if no axis is longer than longest_axis.
  std::int64_t size() const {
    const std::int64_t known = std::max(range.high, range.low == all_int64.low ? all_int64.high : -range.low);
    return is_index && !range.is_exact() ? std::min(known, longest_axis) : known;
  }
};

// A value from floats. INT64_MIN and INT64_MAX become INT32_MIN and INT32_MAX, so that overflow wraps identically.
Known from_floats(bool is_far_below, bool is_far_above, std::int64_t far) {
  return {all_int32, true, is_far_below, is_far_above, far};
}

// Adds to the interval analysis what makes a value an index, and which values may be far.
class StorageAnalysis {
 public:
  StorageAnalysis(const ir::Program& program, const Target& target)
      : program_(program), target_(target), may_be_carried_(program.ops.size(), !target.has_s64) {
    do analyse();
    while (has_wrong_assumption());
  }

  bool fits(std::size_t id) const { return known_[id].fits(); }
  bool is_far(std::size_t id) const { return known_[id].is_far(); }
  // Whether it is an s64 that a launch computes and that is stored in 32 bits.
  bool is_narrow_number(std::size_t id) const { return is_number_[id] && fits(id); }
  // Whether the op does the same to the stored numbers as to those that they stand for.
  bool is_right(const Op& op) const {
    const auto is_far = [&](Id id) { return of(id).is_far(); };
    if (std::ranges::any_of(op.shape, is_far)) return false;
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      if (is_far(op.operands[i]) && !may_be_far(op, i)) return false;
    }
    return true;
  }

 private:
  const Known& of(Id id) const { return known_[static_cast<std::size_t>(id)]; }
  ir::Range range_of(const Op& op) const { return ir::range_of_op(program_, op, facts_, ranges_); }
  bool may_be_far(const Op& op, std::size_t i) const;
  void analyse();
  bool has_wrong_assumption();
  Known from_far(const Op& op) const;
  Known look(const Op& op) const;
  Known argument(const Op& op) const;
  Known arithmetic(const Op& op) const;
  Known bitwise(const Op& op) const;
  Known converted(const Op& op) const;
  // The operand's number if it is a constant, else `otherwise`.
  std::int64_t constant(Id operand, std::int64_t otherwise) const {
    std::int64_t number = 0;
    return ir::is_constant(program_, operand, number) ? number : otherwise;
  }

  const ir::Program& program_;
  const Target& target_;
  const ir::Facts facts_{.extents = {0, int32_max}, .coordinates = {0, int32_max}};
  const ir::RangeOf ranges_ = [this](Id id) {
    return program_[id].type == Type::s64 ? of(id).range : ir::range_of(program_[id].type);
  };
  std::vector<Known> known_;
  std::vector<bool> is_number_;  // known at launch, and computed or a scalar
  // By argument of a loop: whether it is assumed to fit in 32 bits, which holds if it does before the loop and after a
  // step.
  std::vector<bool> may_be_carried_;
};

void StorageAnalysis::analyse() {
  known_.clear();
  is_number_ = ir::known_at_launch(program_);
  for (std::size_t id = 0; id < program_.ops.size(); ++id) {
    const Op& op = program_.ops[id];
    const bool has_far = std::ranges::any_of(op.operands, [&](Id operand) { return of(operand).is_far(); });
    Known known = op.type != Type::s64 ? Known{} : has_far ? from_far(op) : look(op);
    const bool is_leaf = op.operands.empty() && op.code != Code::scalar;
    is_number_[id] = is_number_[id] && op.type == Type::s64 && !is_leaf && !has_far && !known.is_far();
    // Without 64-bit integers a launch refuses such numbers if they do not fit.
    if (is_number_[id] && !target_.has_s64) {
      known = {{std::max(known.range.low, all_int32.low), std::min(known.range.high, all_int32.high)}, true};
    }
    known_.push_back(known);
  }
}

bool StorageAnalysis::has_wrong_assumption() {
  bool is_wrong = false;
  const auto is_narrow = [&](Id id) { return of(id).fits() && !of(id).is_far(); };
  for (const ir::Region& region : program_.regions) {
    for (std::size_t i = 0; i < region.results.size(); ++i) {
      const Id argument = region.arguments[i + 1];
      if (program_[argument].type != Type::s64 || !may_be_carried_[static_cast<std::size_t>(argument)]) continue;
      if (is_narrow(program_[region.loop].operands[i + 1]) && is_narrow(region.results[i])) continue;
      may_be_carried_[static_cast<std::size_t>(argument)] = false;
      is_wrong = true;
    }
  }
  return is_wrong;
}

// Of a loop: its counter, which runs at most INT32_MAX times, or a carried value.
Known StorageAnalysis::argument(const Op& op) const {
  if (op.shape.empty() && op.index == 0) return {{0, int32_max}, true};
  const auto id = static_cast<std::size_t>(&op - program_.ops.data());
  return may_be_carried_[id] ? Known{all_int32, false} : Known{};
}

// The range of a sum, difference and the like; within 32 bits if all operands are indices.
Known StorageAnalysis::arithmetic(const Op& op) const {
  const ir::Range range = range_of(op);
  const bool is_large_product = op.code == Code::mul && std::ranges::any_of(op.operands, [&](Id operand) {
                                  return std::abs(constant(operand, 0)) > largest_factor;
                                });
  if (!is_large_product && std::ranges::all_of(op.operands, [&](Id operand) { return of(operand).is_index; })) {
    return {{std::max(range.low, all_int32.low), std::min(range.high, all_int32.high)}, true};
  }
  // At an end of 64 bits it may have wrapped around.
  const bool is_lost = range.low == all_int64.low || range.high == all_int64.high;
  Known known = is_lost ? Known{} : Known{range, false};
  if (op.code == Code::min) {  // from 0 to an index
    const Known &a = of(op.operands[0]), &b = of(op.operands[1]);
    known.is_index = (a.is_index && b.range.low >= 0) || (b.is_index && a.range.low >= 0);
  }
  return known;
}

Known StorageAnalysis::bitwise(const Op& op) const {
  const Known &a = of(op.operands[0]), &b = of(op.operands[1]);
  const std::int64_t number = constant(op.operands[1], -1);
  switch (op.code) {
    case Code::shr:
      return number < 0 || number > 63 ? Known{} : Known{range_of(op), a.is_index};
    case Code::shl:
      return number < 0 || number > 16 ? Known{} : Known{range_of(op), false};
    case Code::bit_and:
      for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
        const Known& other = of(op.operands[1 - side]);
        if (constant(op.operands[side], -1) >= 0 && other.range.low >= 0) return {range_of(op), other.is_index};
      }
      [[fallthrough]];
    default:
      return a.fits() && b.fits() ? Known{range_of(op), a.is_index && b.is_index} : Known{};
  }
}

bool StorageAnalysis::may_be_far(const Op& op, std::size_t i) const {
  const Known& given = of(op.operands[i]);
  switch (op.code) {
    case Code::neg:
    case Code::abs:
    case Code::add:
    case Code::sub:
    case Code::broadcast:
    case Code::reshape:
    case Code::transpose:
    case Code::select:
      return true;  // from_far decides about the result
    case Code::min:
    case Code::max:
    case Code::eq:
    case Code::ne:
    case Code::lt:
    case Code::le:
    case Code::gt:
    case Code::ge: {
      const Known& other = of(op.operands[1 - i]);
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

// An s64 with operands that may be far.
Known StorageAnalysis::from_far(const Op& op) const {
  const Known& a = of(op.operands[0]);
  switch (op.code) {
    case Code::neg:
    case Code::abs:
      return from_floats(true, true, a.far);
    case Code::add:
    case Code::sub: {
      const Known& b = of(op.operands[1]);
      const std::int64_t far = std::min(a.far, b.far) - (a.is_far() ? b : a).size();
      return (a.is_far() && b.is_far()) || far <= longest_axis ? Known{} : from_floats(true, true, far);
    }
    case Code::min:
    case Code::max: {
      Known result = arithmetic(op);
      const Known& b = of(op.operands[1]);
      result.is_far_below = op.code == Code::min && (a.is_far_below || b.is_far_below);
      result.is_far_above = op.code == Code::max && (a.is_far_above || b.is_far_above);
      result.far = std::min(a.far, b.far);
      return result;
    }
    case Code::select: {
      const Known &b = of(op.operands[1]), &c = of(op.operands[2]);
      return from_floats(b.is_far_below || c.is_far_below, b.is_far_above || c.is_far_above, std::min(b.far, c.far));
    }
    default:
      return a.is_far() ? a : look(op);
  }
}

Known StorageAnalysis::converted(const Op& op) const {
  const Type from = program_[op.operands[0]].type;
  if (from == Type::s64) return of(op.operands[0]);
  if (ir::is_float(from)) return target_.has_s64 ? Known{} : from_floats(true, true, largest_index);
  return {range_of(op), false};
}

Known StorageAnalysis::look(const Op& op) const {
  switch (op.code) {
    case Code::constant:
      return {{op.integer, op.integer}, all_int32.contains({op.integer, op.integer})};
    case Code::dim:
    case Code::tile_dim:
    case Code::origin:
    case Code::block:
    case Code::iota:
    case Code::argmax:
      return {range_of(op), true};
    case Code::argument:
      return argument(op);
    case Code::result: {
      const ir::Region& body = program_.regions[static_cast<std::size_t>(program_[op.operands[0]].index)];
      return of(body.arguments[static_cast<std::size_t>(op.index) + 1]);
    }
    case Code::neg:
    case Code::abs:
    case Code::add:
    case Code::sub:
    case Code::mul:
    case Code::div:
    case Code::rem:
    case Code::min:
    case Code::max:
      return arithmetic(op);
    case Code::bit_and:
    case Code::bit_or:
    case Code::bit_xor:
    case Code::shl:
    case Code::shr:
      return bitwise(op);
    case Code::select:
      return {range_of(op), of(op.operands[1]).is_index && of(op.operands[2]).is_index};
    case Code::convert:
    case Code::nearest:
      return converted(op);
    case Code::broadcast:
    case Code::reshape:
    case Code::transpose:
      return of(op.operands[0]);
    case Code::bit_not:
    case Code::slice:
    case Code::pick:
      return {range_of(op), of(op.operands[0]).is_index};
    default:
      return {};
  }
}

}  // namespace

std::string full_name(const Target& target) {
  constexpr const char* backends[] = {"vulkan", "gles", "opencl", "cuda"};
  return core::text(target.device, " (", backends[static_cast<int>(target.dialect)], ")");
}

bool has_clamped_indices(const ir::Program& program, const Target& target) {
  return !target.has_s64 && std::ranges::any_of(program.ops, [&](const Op& op) {
    const bool is_conversion = op.code == Code::convert || op.code == Code::nearest;
    return is_conversion && op.type == Type::s64 && ir::is_float(program[op.operands[0]].type);
  });
}

std::vector<Id> narrow_numbers(const ir::Program& program, const std::vector<bool>& is_live, const Target& target) {
  const StorageAnalysis analysis(program, target);
  std::vector<Id> found;
  for (std::size_t id = 0; id < program.ops.size(); ++id) {
    if (is_live[id] && analysis.is_narrow_number(id)) found.push_back(static_cast<Id>(id));
  }
  return found;
}

std::vector<Id> computed_from_scalars(const ir::Program& program, const std::vector<bool>& is_live,
                                      const Target& target) {
  std::vector<Id> found;
  if (target.has_s64) return found;
  const StorageAnalysis analysis(program, target);
  std::vector<bool> is_computed(program.ops.size());
  for (std::size_t id = 0; id < program.ops.size(); ++id) {
    const Op& op = program.ops[id];
    if (op.type != Type::s64) continue;
    const auto follows = [&](Id operand) { return is_computed[static_cast<std::size_t>(operand)]; };
    const bool counts = op.code == Code::argument && op.index == 0;
    // Numbers from floats are clamped instead.
    is_computed[id] =
        !analysis.is_far(id) &&
        (op.code == Code::scalar || std::ranges::any_of(op.operands, follows) ||
         (counts && follows(program[program.regions[static_cast<std::size_t>(op.region)].loop].operands[0])));
    const bool is_value = op.code != Code::loop && op.code != Code::store;
    if (is_computed[id] && is_live[id] && is_value) found.push_back(static_cast<Id>(id));
  }
  return found;
}

std::vector<NumberKind> number_kinds(const ir::Program& program, const std::vector<bool>& is_live,
                                     const Target& target) {
  const StorageAnalysis analysis(program, target);
  std::vector<NumberKind> result;
  for (std::size_t id = 0; id < program.ops.size(); ++id) {
    const Op& op = program.ops[id];
    if (is_live[id] && !analysis.is_right(op)) unsupported(program, target, "s64");
    switch (op.type) {
      case Type::f32:
        result.push_back(NumberKind::f32);
        break;
      case Type::f64:
        if (is_live[id] && !target.has_f64) unsupported(program, target, "f64");
        result.push_back(NumberKind::f64);
        break;
      case Type::s32:
        result.push_back(NumberKind::s32);
        break;
      case Type::s64: {
        const bool fits = analysis.fits(id);
        const bool is_value = op.code != Code::loop && op.code != Code::store && op.code != Code::constant;
        // A loop computes what it carries, whether or not anything uses it.
        const bool is_carried =
            op.code == Code::argument &&
            is_live[static_cast<std::size_t>(program.regions[static_cast<std::size_t>(op.region)].loop)];
        if ((is_live[id] || is_carried) && is_value && !fits && !target.has_s64) unsupported(program, target, "s64");
        result.push_back(fits ? NumberKind::s32 : NumberKind::s64);
        break;
      }
      case Type::boolean:
        result.push_back(NumberKind::boolean);
        break;
      default:
        result.push_back(NumberKind::u32);
    }
  }
  return result;
}

}  // namespace tessera::compile::gpu
