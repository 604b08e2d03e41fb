// The steps that a random program is made of.
#include "fuzz/generator.hpp"

#include <algorithm>
#include <cmath>

namespace tessera::fuzz {

using ir::Border;
using ir::Code;
using ir::Type;

namespace {

const std::vector<Border> borders = {Border::zero, Border::clamp, Border::reflect, Border::wrap, Border::symmetric};

bool is_number(const Value& value) { return value.type != Type::boolean; }
bool is_firm(const Value& value) { return !value.known.is_loose(); }

}  // namespace

bool Generator::step() {
  if (pool_.size() > 60) return false;
  switch (choices_.below(23)) {
    case 0:
      return false;
    case 1:
      add_leaf();
      break;
    case 2:
      add_load();
      break;
    case 3:
      add_load_like();
      break;
    case 4:
    case 5:
      add_unary();
      break;
    case 6:
    case 7:
    case 8:
    case 9:
      add_binary();
      break;
    case 10:
      add_comparison();
      break;
    case 11:
      add_select();
      break;
    case 12:
      add_fma();
      break;
    case 13:
      add_conversion();
      break;
    case 14:
      add_broadcast();
      break;
    case 15:
      add_reshape();
      break;
    case 16:
      add_transpose();
      break;
    case 17:
      add_slice();
      break;
    case 18:
    case 19:
      add_reduction();
      break;
    case 20:
      add_mma();
      break;
    case 21:
      add_fixed_point();
      break;
    default:
      add_loop();
  }
  return true;
}

// Where each point of the tile is along an axis of the output, as the tile language says it.
Value Generator::output_index(std::size_t axis) {
  Shape shape(tile_.size(), one());
  shape[axis] = tile_[axis];
  const int at = static_cast<int>(axis);
  const ir::Id id = builder_->binary(Code::add, builder_->origin(at), builder_->iota(ids(shape), at));
  return {id, Type::s64, shape, known_integer(Type::s64, 64)};
}

void Generator::add_leaf() {
  const int axis = static_cast<int>(choices_.below(tile_.size()));
  switch (choices_.below(6)) {
    case 0: {
      const Type type = choices_.from(sample_.types);
      const double number = choices_.below(9);
      keep(constant(type, ir::is_float(type) ? number / 2 - 2 : number));
      break;
    }
    case 1:
      if (!scalars_.empty()) {
        const auto number = choices_.below(scalars_.size());
        Value value{builder_->scalar(static_cast<int>(number)), scalars_[number].type, {}, {}};
        value.known = ir::is_float(value.type) ? Known{.bound = 4, .grain = 0.5} : known_integer(value.type, 8);
        keep(value);
      }
      break;
    case 2:
      if (!tile_.empty()) keep(output_index(static_cast<std::size_t>(axis)));
      break;
    case 3: {
      Shape shape(1 + choices_.below(3));
      for (Extent& extent : shape) extent = choices_.from(extents_);
      if (!affords(shape)) break;
      const auto along = choices_.below(shape.size());
      keep({builder_->iota(ids(shape), static_cast<int>(along)), Type::s64, shape,
            known_integer(Type::s64, static_cast<double>(shape[along].most))});
      break;
    }
    case 4: {
      const Extent extent = choices_.from(extents_);
      keep({extent.id, Type::s64, {}, known_integer(Type::s64, static_cast<double>(extent.most))});
      break;
    }
    default:
      if (tile_.empty()) break;
      keep({choices_.one_in(2) ? builder_->block(axis) : builder_->origin(axis),
            Type::s64,
            {},
            known_integer(Type::s64, 64)});
  }
}

// An index along an axis of a buffer that meets those before it.
Value Generator::index_for(std::size_t buffer, std::size_t axis, const Shape& meets) {
  const auto fits = [&](const Value& value) { return meet(value.shape, meets).has_value(); };
  std::optional<Value> index;
  switch (choices_.below(5)) {
    case 0:
      if (!tile_.empty()) index = output_index(std::min(axis, tile_.size() - 1));
      break;
    case 1:
      index = Value{builder_->iota(ids({dims_[buffer][axis]}), 0),
                    Type::s64,
                    {dims_[buffer][axis]},
                    known_integer(Type::s64, 64)};
      break;
    case 2:  // any number, far outside too
      index = pick([&](const Value& value) { return value.type == Type::s64 && fits(value); });
      break;
    default: {  // a number that is often inside
      const auto any = pick([&](const Value& value) { return is_number(value) && is_firm(value) && fits(value); });
      if (!any) break;
      const auto number = converted_to(*any, Type::s64);
      const auto end = constant(Type::s64, static_cast<double>(sample_.dims[buffer][axis] + 3));
      index = integer_binary(Code::rem, *number, end);
    }
  }
  if (!index || !fits(*index)) index = constant(Type::s64, 0);
  if (choices_.one_in(3)) {
    const auto by = constant(Type::s64, static_cast<double>(choices_.below(9)) - 4);
    index = binary(Code::add, *index, by, sum(Type::s64, index->known, by.known));
  }
  return *index;
}

void Generator::add_load() {
  if (buffers_.size() == 1) return;
  const std::size_t buffer = 1 + choices_.below(buffers_.size() - 1);
  Shape shape;
  std::vector<ir::Id> indices;
  std::vector<std::int64_t> steps;
  bool has_steps = false;
  for (std::size_t axis = 0; axis < dims_[buffer].size(); ++axis) {
    const Value index = index_for(buffer, axis, shape);
    indices.push_back(index.id);
    shape = *meet(shape, index.shape);
    const std::int64_t dim = sample_.dims[buffer][axis];
    const std::int64_t group = 2 + choices_.below(2);
    const bool is_grouped = dim > 0 && dim % group == 0 && choices_.one_in(6);
    steps.push_back(is_grouped ? group : 1);
    has_steps = has_steps || is_grouped;
  }
  if (!affords(shape)) return;
  if (!has_steps) steps.clear();
  keep({builder_->load(static_cast<int>(buffer), indices, choices_.from(borders), steps), buffers_[buffer].type, shape,
        known_of(buffers_[buffer].type, sample_.fills[buffer])});
}

// As load_like and load_shifted say it: an input whose axes are those of the output, or of extent 1.
void Generator::add_load_like() {
  if (buffers_.size() == 1) return;
  const std::size_t buffer = 1 + choices_.below(buffers_.size() - 1);
  const std::vector<std::int64_t>& dims = sample_.dims[buffer];
  if (dims.size() > tile_.size()) return;
  const bool is_shifted = choices_.one_in(3);
  std::vector<ir::Id> indices;
  Shape shape;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    const std::size_t aligned = axis + tile_.size() - dims.size();
    const bool is_repeated = buffers_[buffer].dims[axis] == 1;
    if (!is_repeated && dims[axis] != sample_.dims[0][aligned]) return;
    Value index = is_repeated ? constant(Type::s64, 0) : output_index(aligned);
    if (is_shifted) {
      const Value by = constant(Type::s64, static_cast<double>(choices_.below(9)) - 4);
      index = binary(Code::add, index, by, index.known);
    }
    indices.push_back(index.id);
    shape = *meet(shape, index.shape);
    if (!is_repeated) {
      builder_->same_extent({static_cast<int>(buffer), static_cast<int>(axis), static_cast<int>(aligned)});
    }
  }
  if (!affords(shape)) return;
  const Border border = is_shifted ? choices_.from(borders) : Border::zero;
  keep({builder_->load(static_cast<int>(buffer), indices, border), buffers_[buffer].type, shape,
        known_of(buffers_[buffer].type, sample_.fills[buffer])});
}

void Generator::add_unary() {
  static const std::vector<Code> of_floats = {Code::neg,   Code::abs,  Code::sqrt, Code::floor, Code::ceil,
                                              Code::round, Code::exp,  Code::log,  Code::rsqrt, Code::sin,
                                              Code::cos,   Code::tanh, Code::erf};
  const auto a = pick([](const Value&) { return true; });
  if (!a || !affords(a->shape)) return;
  if (ir::is_float(a->type)) {
    if (const auto value = float_unary(choices_.from(of_floats), *a)) keep(*value);
    return;
  }
  if (a->type == Type::boolean) {
    keep(unary(Code::bit_not, *a, a->known));
    return;
  }
  const Code code = choices_.from(std::vector<Code>{Code::neg, Code::abs, Code::bit_not});
  keep(unary(code, *a, known_integer(a->type, ir::is_signed(a->type) ? a->known.bound + 1 : greatest(a->type))));
}

void Generator::add_binary() {
  static const std::vector<Code> of_floats = {Code::add, Code::sub, Code::mul, Code::div,
                                              Code::min, Code::max, Code::rem, Code::pow};
  static const std::vector<Code> of_integers = {Code::add,     Code::sub, Code::mul, Code::div,     Code::min,
                                                Code::max,     Code::rem, Code::pow, Code::bit_and, Code::bit_or,
                                                Code::bit_xor, Code::shl, Code::shr};
  static const std::vector<Code> of_booleans = {Code::bit_and, Code::bit_or, Code::bit_xor};
  const auto a = pick([](const Value&) { return true; });
  if (!a) return;
  const Value b = operand_like(*a, true);
  if (!affords(*meet(a->shape, b.shape))) return;
  const bool is_swapped = choices_.one_in(2);
  const Value& left = is_swapped ? b : *a;
  const Value& right = is_swapped ? *a : b;
  std::optional<Value> value;
  if (ir::is_float(a->type)) {
    value = float_binary(choices_.from(of_floats), left, right);
  } else {
    value = integer_binary(choices_.from(a->type == Type::boolean ? of_booleans : of_integers), left, right);
  }
  if (value) keep(*value);
}

// A chain of what filters on u8 are made of: numbers whose ranges are narrow for a while.
void Generator::add_fixed_point() {
  const Type type = choices_.one_in(2) ? Type::s32 : Type::u32;
  const auto narrow = [&]() -> std::optional<Value> {
    const auto any = pick([](const Value& value) { return is_number(value) && is_firm(value); });
    const auto byte = any ? converted_to(*any, Type::u8) : std::nullopt;
    return byte ? converted_to(*byte, type) : std::nullopt;
  };
  std::optional<Value> value = narrow();
  if (!value) return;
  const auto with = [&](Code code, const Value& b) { value = integer_binary(code, *value, b); };
  const auto number = [&](std::uint32_t below, double more) { return constant(type, choices_.below(below) + more); };
  for (std::uint32_t left = 1 + choices_.below(8); left > 0; --left) {
    const std::optional<Value> other = narrow();
    if (!other || !meet(value->shape, other->shape) || !affords(*meet(value->shape, other->shape))) return;
    switch (choices_.below(11)) {
      case 0:
        with(Code::add, *other);
        break;
      case 1:
        with(Code::mul, number(300, 1));
        break;
      case 2:
        with(Code::shr, number(20, 0));
        break;
      case 3:
        with(Code::sub, *other);
        break;
      case 4:
        with(Code::shl, number(12, 0));
        break;
      case 5:
        with(Code::bit_and, constant(type, choices_.from(std::vector<double>{255, 4095, 65535, 131071})));
        break;
      case 6:  // the rounded mean
        with(Code::add, *other);
        with(Code::add, constant(type, 1));
        with(Code::shr, constant(type, 1));
        break;
      case 7:  // the upper half of a product
        with(Code::mul, number(65536, 1));
        with(Code::shr, number(10, 7));
        break;
      case 8:
        with(choices_.one_in(2) ? Code::min : Code::max, number(70000, 0));
        break;
      case 9:
        value = unary(choices_.one_in(2) ? Code::abs : Code::neg, *value, known_integer(type, greatest(type)));
        break;
      default:
        with(choices_.one_in(2) ? Code::div : Code::rem, number(20, 1));
    }
  }
  keep(*value);
}

void Generator::add_comparison() {
  const auto a = pick(is_firm);
  if (!a) return;
  const Value b = operand_like(*a, false);
  if (!affords(*meet(a->shape, b.shape))) return;
  static const std::vector<Code> codes = {Code::lt, Code::eq, Code::ne, Code::le, Code::gt, Code::ge};
  keep(binary(choices_.from(codes), *a, b, known_integer(Type::boolean, 1)));
}

void Generator::add_select() {
  const auto condition = pick([](const Value& value) { return value.type == Type::boolean; });
  if (!condition) return add_comparison();
  const auto yes = pick([&](const Value& value) { return meet(value.shape, condition->shape).has_value(); });
  if (!yes) return;
  const Shape both = *meet(yes->shape, condition->shape);
  Value no = operand_like(*yes, true);
  const auto shape = meet(both, no.shape);
  if (!shape || !affords(*shape)) return;
  Known known = either(yes->known, no.known);
  keep({builder_->select(condition->id, yes->id, no.id), yes->type, *shape, known});
}

void Generator::add_fma() {
  auto a = pick(is_number);
  if (!a) return;
  Value b = operand_like(*a, true);
  Value c = operand_like(*a, true);
  const auto shape = meet(*meet(a->shape, b.shape), c.shape);
  if (!shape || !affords(*shape)) return;
  if (ir::is_float(a->type)) {
    const auto is_exact = [](const Value& value) { return value.known.kind == Known::Kind::exact; };
    if (!is_exact(*a) || !is_exact(b) || !is_exact(c)) {
      a = tame(*a);
      b = tame(b);
      c = tame(c);
    }
  }
  const Known known = ir::is_float(a->type) ? fused(a->type, a->known, b.known, c.known)
                                            : sum(a->type, product(a->type, a->known, b.known), c.known);
  keep({builder_->fma(a->id, b.id, c.id), a->type, *shape, known});
}

void Generator::add_conversion() {
  const auto a = pick([](const Value&) { return true; });
  if (!a || !affords(a->shape)) return;
  const Type type = choices_.one_in(8) ? Type::boolean : choices_.from(sample_.types);
  if (const auto value = converted_to(*a, type, choices_.one_in(2) ? Code::nearest : Code::convert)) keep(*value);
}

}  // namespace tessera::fuzz
