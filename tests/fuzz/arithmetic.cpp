// Operations on values of which something is known.
#include "fuzz/generator.hpp"

#include <algorithm>
#include <cmath>

namespace tessera::fuzz {

using ir::Code;
using ir::Type;
using Kind = Known::Kind;

Value Generator::constant(Type type, double number) {
  Value value{.id = ir::none, .type = type, .shape = {}, .known = {}};
  if (ir::is_float(type)) {
    value.id = builder_->number(type, number);
    value.known = {.bound = std::fabs(number), .grain = 0.5};
  } else {
    value.id = builder_->integer(type, static_cast<std::int64_t>(number));
    value.known = known_integer(type, std::fabs(number));
  }
  return value;
}

Value Generator::binary(Code code, const Value& a, const Value& b, const Known& known) {
  return {builder_->binary(code, a.id, b.id), ir::is_comparison(code) ? Type::boolean : a.type, *meet(a.shape, b.shape),
          known};
}

Value Generator::unary(Code code, const Value& a, const Known& known) {
  return {builder_->unary(code, a.id), a.type, a.shape, known};
}

// Between -most and most; NaN stays.
Value Generator::clamped(const Value& a, double most) {
  Known known = a.known;
  known.bound = std::min(known.bound, most);
  known.may_be_infinite = false;
  known.is_product = false;
  known.is_zero_sign_sure = false;
  const Value above = binary(Code::max, a, constant(a.type, -most), known);
  return binary(Code::min, above, constant(a.type, most), known);
}

Value Generator::positive(const Value& a) {
  Known known = a.known;
  known.is_product = false;
  known.is_zero_sign_sure = true;
  const Value half = constant(a.type, 0.5);
  return binary(Code::add, unary(Code::abs, a, known), half, sum(a.type, known, half.known));
}

Value Generator::sum_of(Code code, Value a, Value b) {
  if (ir::is_float(a.type) && is_loosened_by_sum(a.known, b.known)) {
    a = tame(a);
    b = tame(b);
  }
  return binary(code, a, b, sum(a.type, a.known, b.known));
}

std::optional<Value> Generator::integer_binary(Code code, const Value& a, const Value& b) {
  const Known any = known_integer(a.type, greatest(a.type));
  switch (code) {
    case Code::add:
    case Code::sub:
      return binary(code, a, b, sum(a.type, a.known, b.known));
    case Code::mul:
      return binary(code, a, b, product(a.type, a.known, b.known));
    case Code::rem:
      return binary(code, a, b, known_integer(a.type, std::min(a.known.bound, b.known.bound)));
    case Code::min:
    case Code::max:
      return binary(code, a, b, either(a.known, b.known));
    default:
      return binary(code, a, b, any);
  }
}

std::optional<Value> Generator::float_quotient(Value a, Value b) {
  if (!a.known.is_loose() && !b.known.is_loose()) {
    Known known = b.known;
    known.is_zero_sign_sure = true;
    if (!b.known.is_zero_sign_sure) b = unary(Code::abs, b, known);
    return binary(Code::div, a, b, quotient(a.type, a.known, b.known));
  }
  a = tame(a);
  b = positive(tame(b));
  // The divisor is at least 1/2.
  Known known{.kind = Kind::loose, .bound = 2 * a.known.bound};
  known.error = 2 * a.known.error + 4 * a.known.bound * b.known.error + 4 * epsilon(a.type) * known.bound;
  known.may_be_nan = a.known.may_be_nan || b.known.may_be_nan;
  known.is_zero_sign_sure = false;
  return binary(Code::div, a, b, known);
}

// Of 1/2 … 9/2 to the power of -3 … 3. pow(NaN, 0) and pow(1, NaN) are numbers: 0 and 1 must then be exact.
std::optional<Value> Generator::float_power(Value a, Value b) {
  const bool is_in_doubt = (a.known.may_be_nan && b.known.is_loose()) || (b.known.may_be_nan && a.known.is_loose());
  if (is_in_doubt) return std::nullopt;
  a = positive(clamped(a, 4));
  b = clamped(b, 3);
  Known known{.kind = Kind::loose, .bound = 92};
  known.error = 62 * a.known.error + 140 * b.known.error + 32 * epsilon(a.type) * known.bound;
  known.may_be_nan = a.known.may_be_nan || b.known.may_be_nan;
  return binary(Code::pow, a, b, known);
}

std::optional<Value> Generator::float_binary(Code code, Value a, Value b) {
  const bool is_loose = a.known.is_loose() || b.known.is_loose();
  switch (code) {
    case Code::add:
    case Code::sub:
      return sum_of(code, a, b);
    case Code::mul:
      if (is_loose) {
        a = tame(a);
        b = tame(b);
      }
      return binary(code, a, b, product(a.type, a.known, b.known));
    case Code::div:
      return float_quotient(a, b);
    case Code::rem: {
      if (is_loose) return std::nullopt;
      Known known = either(a.known, b.known);
      known.bound = a.known.bound;
      known.kind = Kind::fixed;
      known.may_be_nan = true;
      known.is_product = false;
      return binary(code, a, b, known);
    }
    case Code::min:
    case Code::max: {
      if (is_loose) {
        a = tame(a);
        b = tame(b);
      }
      Known known = either(a.known, b.known);
      known.is_product = false;
      known.is_zero_sign_sure = false;
      return binary(code, a, b, known);
    }
    case Code::pow:
      return float_power(a, b);
    default:
      return std::nullopt;
  }
}

std::optional<Value> Generator::float_unary(Code code, const Value& a) {
  Known same = a.known;
  switch (code) {
    case Code::neg:
      return unary(code, a, same);
    case Code::abs:
      same.is_product = false;
      same.is_zero_sign_sure = true;
      return unary(code, a, same);
    case Code::floor:
    case Code::ceil:
    case Code::round:
      if (a.known.is_loose()) return std::nullopt;
      return unary(code, a, rounded(a.type, same));
    case Code::sqrt:
      if (!a.known.is_loose()) {
        same.kind = Kind::fixed;
        same.may_be_nan = true;
        same.is_product = false;
        same.bound = std::sqrt(same.bound);
        return unary(code, a, same);
      }
      break;
    default:
      break;
  }
  const Value inside = tame(a);
  const Value above = positive(inside);
  switch (code) {
    case Code::exp: {
      const Value small = clamped(inside, 4);
      return unary(code, small, function(a.type, small.known, 55, 55));
    }
    case Code::sin:
    case Code::cos: {
      const Value small = clamped(inside, 4);
      return unary(code, small, function(a.type, small.known, 1, 1));
    }
    case Code::tanh:
    case Code::erf:
      return unary(code, inside, function(a.type, inside.known, 1.2, 1));
    case Code::log:
      return unary(code, above, function(a.type, above.known, 2, 16));
    case Code::sqrt:
      return unary(code, above, function(a.type, above.known, 0.8, std::sqrt(above.known.bound)));
    default:  // rsqrt
      return unary(code, above, function(a.type, above.known, 1.5, 1.5));
  }
}

std::optional<Value> Generator::converted_to(const Value& a, Type type, Code code) {
  if (a.type == type) return a;
  if (a.known.is_loose() && !ir::is_float(type)) return std::nullopt;
  // Whether NaN is "not zero" is nobody's business.
  if (type == Type::boolean && (a.known.may_be_nan || code == Code::nearest)) return std::nullopt;
  return Value{builder_->convert(code, type, a.id), type, a.shape, converted(a.type, type, a.known)};
}

Value Generator::broadcast_to(const Value& a, const Shape& shape) {
  return {builder_->broadcast(a.id, ids(shape)), a.type, shape, a.known};
}

std::optional<Value> Generator::reduced(Code code, Value a, std::size_t axis) {
  const auto count = static_cast<double>(a.shape[axis].most);
  const bool is_float = ir::is_float(a.type);
  if (code == Code::argmax && a.known.is_loose()) return std::nullopt;
  Known known = a.known;
  if (code == Code::reduce_sum) {
    if (is_float && summed(a.type, a.known, count).is_loose()) a = tame(a);
    known = summed(a.type, a.known, count);
  } else if (code == Code::reduce_product) {
    if (is_float) a = clamped(a, 1);
    known = is_float ? Known{.kind = Kind::loose, .bound = 1} : known_integer(a.type, greatest(a.type));
    known.error = is_float ? count * (a.known.error + 2 * epsilon(a.type)) : 0;
    known.may_be_nan = a.known.may_be_nan;
    known.is_zero_sign_sure = false;
  } else if (code == Code::argmax) {
    known = known_integer(Type::s64, count);
  } else {
    known.is_zero_sign_sure = false;
    known.is_product = false;
    if (count == 0) known.may_be_infinite = true;
    if (count == 0 && !is_float) known = known_integer(a.type, greatest(a.type));
  }
  Shape shape = a.shape;
  shape[axis] = one();
  const Type type = code == Code::argmax ? Type::s64 : a.type;
  return Value{builder_->reduce(code, a.id, static_cast<int>(axis)), type, shape, known};
}

}  // namespace tessera::fuzz
