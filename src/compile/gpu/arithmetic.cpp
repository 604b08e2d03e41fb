#include "compile/gpu/printer.hpp"
#include "core/text.hpp"

#include <cmath>
#include <limits>

namespace tessera::compile::gpu {

using core::text;
using ir::Code;
using ir::Id;
using ir::Type;

namespace {

std::string_view suffix(Kept kept) {
  switch (kept) {
    case Kept::f32:
      return "f32";
    case Kept::f64:
      return "f64";
    case Kept::s32:
      return "s32";
    case Kept::s64:
      return "s64";
    default:
      return "u32";
  }
}

std::string_view sign_of(Code code) {
  switch (code) {
    case Code::eq:
      return " == ";
    case Code::ne:
      return " != ";
    case Code::lt:
      return " < ";
    case Code::le:
      return " <= ";
    case Code::gt:
      return " > ";
    default:
      return " >= ";
  }
}

// The constant that a float is; null if it is none.
const double* constant_of(const ir::Program& program, Id id) {
  const ir::Op* op = &program[id];
  while (op->code == Code::broadcast) op = &program[op->operands[0]];
  return op->code == Code::constant ? &op->number : nullptr;
}

bool is_known_number(const ir::Program& program, Id id) {
  const double* number = constant_of(program, id);
  return number && !std::isnan(*number);
}

bool is_arithmetic(Code code) {
  return code == Code::add || code == Code::sub || code == Code::mul || code == Code::div || code == Code::fma;
}

// A zero that no compiler knows: there are fewer than 2^31 pieces of work.
std::string hidden_zero(Kept kept, double zero) {
  const char* value =
      kept == Kept::f64 ? "double(uintBitsToFloat(uint(pieces) >> 31))" : "uintBitsToFloat(uint(pieces) >> 31)";
  return std::signbit(zero) ? text("(-", value, ")") : value;
}

// Of booleans: false is less than true.
std::string compared(Code code, const std::string& a, const std::string& b) {
  switch (code) {
    case Code::lt:
      return text("!", a, " && ", b);
    case Code::le:
      return text("!", a, " || ", b);
    case Code::gt:
      return text(a, " && !", b);
    case Code::ge:
      return text(a, " || !", b);
    default:
      return text(a, sign_of(code), b);
  }
}

}  // namespace

std::string Printer::as(Kept to, Id id, const std::string& value) const {
  return kept(id) == to ? value : words_.cast(to, value);
}

std::string Printer::call(std::string_view name, Kept kept, const std::string& a) const {
  if (words_.is_glsl()) return text("t_", name, "_", suffix(kept), "(", a, ")");
  const bool is_cuda_float = target_.dialect == Dialect::cuda && kept == Kept::f32;
  return text(name, is_cuda_float ? "f" : "", "(", a, ")");
}

// Integers wrap around. In C that is so without a sign only.
std::string Printer::wrapping(Kept kept, const std::string& a, std::string_view sign, const std::string& b) const {
  if (words_.is_glsl() || kept == Kept::u32) return text("(", a, " ", sign, " ", b, ")");
  const std::string_view type = words_.wrapping_type(kept);
  return text("((", words_.type(kept), ")((", type, ")(", a, ") ", sign, " (", type, ")(", b, ")))");
}

std::string Printer::elementwise(Id id, const std::vector<std::string>& x) {
  const ir::Op& op = program_[id];
  const Kept to = kept(id);
  if (op.code == Code::convert || op.code == Code::nearest) {
    const std::string value = converted(op, op.operands[0], x[0]);
    return value == x[0] ? value : declare(to, value);
  }
  // A mask wider than a place.
  if (op.code == Code::bit_and && op.type == Type::s64 && to == Kept::s32) {
    for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
      std::int64_t number = 0;
      if (kept(op.operands[side]) == Kept::s32 || !ir::is_constant(program_, op.operands[side], number)) continue;
      return declare(to, text(x[1 - side], " & ", words_.integer(Kept::s32, number & 0x7fffffff)));
    }
  }
  const bool is_comparison = op.code >= Code::eq && op.code <= Code::ge;
  // What the operands are computed in: the wider of them.
  Kept in = to;
  if (is_comparison) {
    in = kept(op.operands[0]);
    if (in == Kept::s32 && kept(op.operands[1]) == Kept::s64) in = Kept::s64;
  }
  // A number that fits 32 bits may come from operands that do not.
  if (op.type == Type::s64 && to == Kept::s32) {
    for (const Id operand : op.operands) in = kept(operand) == Kept::s64 ? Kept::s64 : in;
  }
  const Type type = program_[op.operands[0]].type;
  const auto operand = [&](std::size_t i) {
    // Mesa takes x * 0 and 0 / x for 0 and x + 0 for x, whatever x is, although they are precise.
    if (words_.is_glsl() && is_float(in) && is_arithmetic(op.code)) {
      const double* number = constant_of(program_, op.operands[i]);
      if (number && *number == 0) return hidden_zero(in, *number);
    }
    return as(in, op.operands[i], x[i]);
  };
  std::string value;
  switch (op.code) {
    case Code::select:
      value = text(x[0], " ? ", operand(1), " : ", operand(2));
      break;
    case Code::fma:
      if (is_float(in)) {
        value = text(operand(0), " * ", operand(1), " + ", operand(2));
      } else {
        value = wrapping(in, wrapping(in, operand(0), "*", operand(1)), "+", operand(2));
      }
      break;
    default:
      note_function(op.code, in);
      value = x.size() == 1 ? unary(op, in, operand(0)) : binary(op, type, in, operand(0), operand(1));
  }
  if (op.type == Type::u8) {
    switch (op.code) {
      case Code::neg:
      case Code::bit_not:
      case Code::add:
      case Code::sub:
      case Code::mul:
      case Code::pow:
      case Code::shl:
      case Code::fma:
        value = text("(", value, ") & 255u");
        break;
      default:
        break;
    }
  }
  return declare(to, in == Kept::s64 && to == Kept::s32 ? words_.cast(to, value) : value);
}

// The loops of the functions (functions.hpp), of the numbers that take longest.
void Printer::note_function(Code code, Kept kept) {
  const bool is_long = kept == Kept::f64 || kept == Kept::s64;
  if (code == Code::rem && is_float(kept)) note_loop(is_long ? 265 : 37);  // 16 digits a step, up and down
  if (code == Code::pow && !is_float(kept)) note_loop(is_long ? 16 : 8);
}

std::string Printer::unary(const ir::Op& op, Kept kept, const std::string& x) const {
  const bool is_real = is_float(kept);
  switch (op.code) {
    case Code::neg:
      return is_real ? text("-", x) : wrapping(kept, words_.integer(kept, 0), "-", x);
    case Code::abs:
      if (is_real) return words_.is_glsl() ? text("abs(", x, ")") : call("fabs", kept, x);
      if (kept == Kept::u32) return x;
      return text(x, " < ", words_.integer(kept, 0), " ? ", wrapping(kept, words_.integer(kept, 0), "-", x), " : ", x);
    case Code::bit_not:
      return kept == Kept::boolean ? text("!", x) : text("~", x);
    case Code::sqrt:
      return words_.is_glsl() ? text("sqrt(", x, ")") : call("sqrt", kept, x);
    case Code::rsqrt:
      return text(words_.number(kept, 1), " / ", words_.is_glsl() ? text("sqrt(", x, ")") : call("sqrt", kept, x));
    case Code::floor:
      return words_.is_glsl() ? text("floor(", x, ")") : call("floor", kept, x);
    case Code::ceil:
      return words_.is_glsl() ? text("ceil(", x, ")") : call("ceil", kept, x);
    case Code::round:
      return call("round", kept, x);
    case Code::exp:
      return call("exp", kept, x);
    case Code::log:
      return call("log", kept, x);
    case Code::sin:
      return call("sin", kept, x);
    case Code::cos:
      return call("cos", kept, x);
    case Code::tanh:
      return call("tanh", kept, x);
    default:
      return call("erf", kept, x);
  }
}

std::string Printer::binary(const ir::Op& op, Type type, Kept kept, const std::string& a, const std::string& b) const {
  const bool is_real = is_float(kept);
  const auto function = [&](std::string_view name) {
    return text("t_", name, "_", suffix(kept), "(", a, ", ", b, ")");
  };
  switch (op.code) {
    case Code::add:
      return is_real ? text(a, " + ", b) : wrapping(kept, a, "+", b);
    case Code::sub:
      return is_real ? text(a, " - ", b) : wrapping(kept, a, "-", b);
    case Code::mul:
      return is_real ? text(a, " * ", b) : wrapping(kept, a, "*", b);
    case Code::div:
      return is_real ? text(a, " / ", b) : function("div");
    case Code::rem:
      return is_real && !words_.is_glsl() ? call("fmod", kept, text(a, ", ", b)) : function("rem");
    case Code::min:
    case Code::max: {
      const char* sign = op.code == Code::min ? " < " : " > ";
      // With a number one comparison is enough: with NaN it is false, and then the other operand is taken.
      if (is_real && is_known_number(program_, op.operands[1])) {
        return text(a, op.code == Code::min ? " >= " : " <= ", b, " ? ", b, " : ", a);
      }
      if (is_real && is_known_number(program_, op.operands[0])) return text(a, sign, b, " ? ", a, " : ", b);
      return is_real ? text("(", a, sign, b, " || ", a, " != ", a, ") ? ", a, " : ", b)
                     : text(a, sign, b, " ? ", a, " : ", b);
    }
    case Code::pow:
      // Mesa takes the sign of an exponent that was widened from 32 bits for plus.
      if (kept == Kept::s64 && words_.is_glsl()) {
        return call("pow", kept, text(a, ", ", b, " + int64_t(uint(pieces) >> 31)"));
      }
      return is_real && !words_.is_glsl() ? call("pow", kept, text(a, ", ", b)) : function("pow");
    case Code::bit_and:
      return kept == Kept::boolean ? text(a, " && ", b) : text(a, " & ", b);
    case Code::bit_or:
      return kept == Kept::boolean ? text(a, " || ", b) : text(a, " | ", b);
    case Code::bit_xor:
      return kept == Kept::boolean ? text(a, " != ", b) : text(a, " ^ ", b);
    case Code::shl:
    case Code::shr: {
      // By the amount mod the width of the type. A place by 32 and more leaves its sign.
      const int last = ir::bits_of(type) - 1;
      const bool is_place = type == Type::s64 && kept == Kept::s32;
      const std::string masked = text("int(", b, ") & ", last);
      std::string amount = words_.is_glsl() ? masked : text("(int)(", b, ") & ", last);
      if (is_place) amount = text("min(", amount, ", 31)");
      if (op.code == Code::shr) return text(a, " >> (", amount, ")");
      if (words_.is_glsl() || kept == Kept::u32) return text(a, " << (", amount, ")");
      return text("(", words_.type(kept), ")((", words_.wrapping_type(kept), ")(", a, ") << (", amount, "))");
    }
    default:
      return kept == Kept::boolean ? compared(op.code, a, b) : text(a, sign_of(op.code), b);
  }
}

std::string Printer::converted(const ir::Op& op, Id operand, const std::string& given) const {
  const Type to = op.type, from = program_[operand].type;
  const Kept result = kept(static_cast<Id>(&op - program_.ops.data()));
  const Kept kept_from = kept(operand);
  if (to == from) {
    if (op.code == Code::nearest && is_float(result)) return given;
    return as(result, operand, given);
  }
  if (to == Type::boolean) {
    return text(given, " != ", is_float(kept_from) ? words_.number(kept_from, 0) : words_.integer(kept_from, 0));
  }
  if (from == Type::boolean) {
    const auto number = [&](int n) { return is_float(result) ? words_.number(result, n) : words_.integer(result, n); };
    return text(given, " ? ", number(1), " : ", number(0));
  }
  if (ir::is_float(to)) {
    // Mesa takes an integer that becomes a float and then an integer again for itself, although it was rounded.
    const bool is_rounded = from != Type::u8 && (kept_from == Kept::s64 || result == Kept::f32);
    const std::string value = words_.cast(result, given);
    return words_.is_glsl() && is_rounded && !ir::is_float(from) ? text(value, " + ", hidden_zero(result, 0)) : value;
  }

  // The least and greatest of the result; of a place those of 32 bits.
  struct Limits {
    std::int64_t least;
    std::int64_t greatest;
  };
  const auto limits = [](Type type, Kept kept) -> Limits {
    if (type == Type::u8) return {0, 255};
    if (type == Type::u32) return {0, std::numeric_limits<std::uint32_t>::max()};
    if (kept == Kept::s32) return {std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()};
    return {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()};
  };
  const Limits range = limits(to, result);
  if (ir::is_float(from)) {
    const std::string x = op.code == Code::nearest ? call("round", kept_from, given) : given;
    const double end = std::ldexp(1.0, to == Type::u8 ? 8 : to == Type::u32 ? 32 : to == Type::s32 ? 31 : 63);
    const double least = range.least == 0 ? -1.0 : -end;
    const auto cut = [&](double from_here, double down_to, const Limits& ends, const std::string& inside) {
      return text(x, " >= ", words_.number(kept_from, from_here), " ? ", words_.integer(result, ends.greatest), " : ",
                  x, " <= ", words_.number(kept_from, down_to), " ? ", words_.integer(result, ends.least), " : ",
                  inside);
    };
    std::string value = words_.cast(result, x);
    if (to == Type::s64 && result == Kept::s32) {
      const auto far = static_cast<double>(farthest_place), beyond = std::ldexp(1.0, 63);
      value = cut(beyond, -beyond, range, cut(far, -far, {-farthest_place, farthest_place}, value));
    } else {
      value = cut(end, least, range, value);
    }
    return text("(", x, " != ", x, ") ? ", words_.integer(result, 0), " : ", value);
  }
  const Limits given_range = limits(from, kept_from);
  std::string value = given;
  if (range.least > given_range.least) {
    const std::string least = words_.integer(kept_from, range.least);
    value = text("(", value, " < ", least, " ? ", least, " : ", value, ")");
  }
  if (range.greatest < given_range.greatest) {
    const std::string greatest = words_.integer(kept_from, range.greatest);
    value = text("(", value, " > ", greatest, " ? ", greatest, " : ", value, ")");
  }
  return result == kept_from ? value : words_.cast(result, value);
}

std::string Printer::combined(Code code, Kept kept, Type type, const std::string& a, const std::string& b) const {
  switch (code) {
    case Code::reduce_sum:
    case Code::reduce_product: {
      const char* sign = code == Code::reduce_sum ? "+" : "*";
      if (is_float(kept)) return text(a, " ", sign, " ", b);
      const std::string value = wrapping(kept, a, sign, b);
      return type == Type::u8 ? text(value, " & 255u") : value;
    }
    default: {
      const char* sign = code == Code::reduce_max ? " > " : " < ";
      return is_float(kept) ? text("(", a, sign, b, " || ", a, " != ", a, ") ? ", a, " : ", b)
                            : text(a, sign, b, " ? ", a, " : ", b);
    }
  }
}

std::string Printer::identity(const ir::Op& reduction, Kept kept) const {
  const Type type = program_[reduction.operands[0]].type;
  const auto number = [&](int n) { return is_float(kept) ? words_.number(kept, n) : words_.integer(kept, n); };
  if (reduction.code == Code::reduce_sum) return number(0);
  if (reduction.code == Code::reduce_product) return number(1);
  const bool is_greatest = reduction.code == Code::reduce_min;
  const double infinity = std::numeric_limits<double>::infinity();
  if (is_float(kept)) return words_.number(kept, is_greatest ? infinity : -infinity);
  if (kept == Kept::u32) {
    return words_.integer(kept, !is_greatest ? 0 : type == Type::u8 ? 255 : std::numeric_limits<std::uint32_t>::max());
  }
  // Of a place that is an s64 too: nobody sees it unless there are no elements.
  if (kept == Kept::s32) {
    using Limits = std::numeric_limits<std::int32_t>;
    return words_.integer(kept, is_greatest ? Limits::max() : Limits::min());
  }
  using Limits = std::numeric_limits<std::int64_t>;
  return words_.integer(kept, is_greatest ? Limits::max() : Limits::min());
}

// Whether a takes the place of b, which came before it: NaN is the greatest.
std::string Printer::is_greater(Kept kept, const std::string& a, const std::string& b) const {
  if (!is_float(kept)) return text(a, " > ", b);
  return text(a, " > ", b, " || (", a, " != ", a, " && ", b, " == ", b, ")");
}

}  // namespace tessera::compile::gpu
