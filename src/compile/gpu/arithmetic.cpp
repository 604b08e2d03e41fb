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

std::string_view suffix(NumberKind kind) {
  switch (kind) {
    case NumberKind::f32:
      return "f32";
    case NumberKind::f64:
      return "f64";
    case NumberKind::s32:
      return "s32";
    case NumberKind::s64:
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

// The value of a float constant; null if it is not one.
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

// A zero that compilers cannot fold: there are fewer than 2^31 pieces of work.
std::string hidden_zero(NumberKind kind, double zero) {
  const char* value =
      kind == NumberKind::f64 ? "double(uintBitsToFloat(uint(pieces) >> 31))" : "uintBitsToFloat(uint(pieces) >> 31)";
  return std::signbit(zero) ? text("(-", value, ")") : value;
}

// For booleans: false is less than true.
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

std::string Printer::as(NumberKind to, Id id, const std::string& value) const {
  if (kind(id) == to) return value;
  return kind(id) == NumberKind::s32 && to == NumberKind::s64 ? syntax_.widened(value) : syntax_.cast(to, value);
}

std::string Printer::call(std::string_view name, NumberKind kind, const std::string& a) const {
  if (syntax_.is_glsl()) return text("t_", name, "_", suffix(kind), "(", a, ")");
  const bool is_cuda_float = target_.dialect == Dialect::cuda && kind == NumberKind::f32;
  return text(name, is_cuda_float ? "f" : "", "(", a, ")");
}

// Integers wrap around. In C only unsigned ones do.
std::string Printer::wrapping(NumberKind kind, const std::string& a, std::string_view sign,
                              const std::string& b) const {
  if (syntax_.is_glsl() || kind == NumberKind::u32) return text("(", a, " ", sign, " ", b, ")");
  const std::string_view type = syntax_.wrapping_type(kind);
  return text("((", syntax_.type(kind), ")((", type, ")(", a, ") ", sign, " (", type, ")(", b, ")))");
}

std::string Printer::elementwise(Id id, const std::vector<std::string>& x) {
  const ir::Op& op = program_[id];
  const NumberKind to = kind(id);
  if (op.code == Code::convert || op.code == Code::nearest) {
    const std::string value = converted(op, op.operands[0], x[0]);
    return value == x[0] ? value : declare(to, value);
  }
  // A mask of more than 32 bits.
  if (op.code == Code::bit_and && op.type == Type::s64 && to == NumberKind::s32) {
    for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
      std::int64_t number = 0;
      if (kind(op.operands[side]) == NumberKind::s32 || !ir::is_constant(program_, op.operands[side], number)) continue;
      return declare(to, text(x[1 - side], " & ", syntax_.integer(NumberKind::s32, number & 0x7fffffff)));
    }
  }
  const bool is_comparison = op.code >= Code::eq && op.code <= Code::ge;
  // The operands are converted to the wider of their kinds.
  NumberKind in = to;
  if (is_comparison) {
    in = kind(op.operands[0]);
    if (in == NumberKind::s32 && kind(op.operands[1]) == NumberKind::s64) in = NumberKind::s64;
  }
  // A result that fits in 32 bits may have operands that do not.
  if (op.type == Type::s64 && to == NumberKind::s32) {
    for (const Id operand : op.operands) in = kind(operand) == NumberKind::s64 ? NumberKind::s64 : in;
  }
  const Type type = program_[op.operands[0]].type;
  const auto operand = [&](std::size_t i) {
    // Mesa folds x * 0 and 0 / x to 0 and x + 0 to x, whatever x is, although they are precise.
    if (syntax_.is_glsl() && is_float(in) && is_arithmetic(op.code)) {
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
  return declare(to, in == NumberKind::s64 && to == NumberKind::s32 ? syntax_.cast(to, value) : value);
}

// Notes the loops inside functions (functions.hpp), for the arguments that take longest.
void Printer::note_function(Code code, NumberKind kind) {
  const bool is_long = kind == NumberKind::f64 || kind == NumberKind::s64;
  if (code == Code::rem && is_float(kind)) note_loop(is_long ? 265 : 37);  // 16 digits a step, up and down
  if (code == Code::pow && !is_float(kind)) note_loop(is_long ? 16 : 8);
}

std::string Printer::unary(const ir::Op& op, NumberKind kind, const std::string& x) const {
  const bool is_real = is_float(kind);
  switch (op.code) {
    case Code::neg:
      return is_real ? text("-", x) : wrapping(kind, syntax_.integer(kind, 0), "-", x);
    case Code::abs:
      if (is_real) return syntax_.is_glsl() ? text("abs(", x, ")") : call("fabs", kind, x);
      if (kind == NumberKind::u32) return x;
      return text(x, " < ", syntax_.integer(kind, 0), " ? ", wrapping(kind, syntax_.integer(kind, 0), "-", x), " : ",
                  x);
    case Code::bit_not:
      return kind == NumberKind::boolean ? text("!", x) : text("~", x);
    case Code::sqrt:
      return syntax_.is_glsl() ? text("sqrt(", x, ")") : call("sqrt", kind, x);
    case Code::rsqrt:
      return text(syntax_.number(kind, 1), " / ", syntax_.is_glsl() ? text("sqrt(", x, ")") : call("sqrt", kind, x));
    case Code::floor:
      return syntax_.is_glsl() ? text("floor(", x, ")") : call("floor", kind, x);
    case Code::ceil:
      return syntax_.is_glsl() ? text("ceil(", x, ")") : call("ceil", kind, x);
    case Code::round:
      return call("round", kind, x);
    case Code::exp:
      return call("exp", kind, x);
    case Code::log:
      return call("log", kind, x);
    case Code::sin:
      return call("sin", kind, x);
    case Code::cos:
      return call("cos", kind, x);
    case Code::tanh:
      return call("tanh", kind, x);
    default:
      return call("erf", kind, x);
  }
}

std::string Printer::binary(const ir::Op& op, Type type, NumberKind kind, const std::string& a,
                            const std::string& b) const {
  const bool is_real = is_float(kind);
  const auto function = [&](std::string_view name) {
    return text("t_", name, "_", suffix(kind), "(", a, ", ", b, ")");
  };
  switch (op.code) {
    case Code::add:
      return is_real ? text(a, " + ", b) : wrapping(kind, a, "+", b);
    case Code::sub:
      return is_real ? text(a, " - ", b) : wrapping(kind, a, "-", b);
    case Code::mul:
      return is_real ? text(a, " * ", b) : wrapping(kind, a, "*", b);
    case Code::div:
      return is_real ? text(a, " / ", b) : function("div");
    case Code::rem:
      return is_real && !syntax_.is_glsl() ? call("fmod", kind, text(a, ", ", b)) : function("rem");
    case Code::min:
    case Code::max: {
      const char* sign = op.code == Code::min ? " < " : " > ";
      // One comparison is enough with a constant: with NaN it is false, which selects the other operand.
      if (is_real && is_known_number(program_, op.operands[1])) {
        return text(a, op.code == Code::min ? " >= " : " <= ", b, " ? ", b, " : ", a);
      }
      if (is_real && is_known_number(program_, op.operands[0])) return text(a, sign, b, " ? ", a, " : ", b);
      return is_real ? text("(", a, sign, b, " || ", a, " != ", a, ") ? ", a, " : ", b)
                     : text(a, sign, b, " ? ", a, " : ", b);
    }
    case Code::pow:
      // Mesa assumes that an exponent that was widened from 32 bits is positive.
      if (kind == NumberKind::s64 && syntax_.is_glsl()) {
        return call("pow", kind, text(a, ", ", b, " + int64_t(uint(pieces) >> 31)"));
      }
      return is_real && !syntax_.is_glsl() ? call("pow", kind, text(a, ", ", b)) : function("pow");
    case Code::bit_and:
      return kind == NumberKind::boolean ? text(a, " && ", b) : text(a, " & ", b);
    case Code::bit_or:
      return kind == NumberKind::boolean ? text(a, " || ", b) : text(a, " | ", b);
    case Code::bit_xor:
      return kind == NumberKind::boolean ? text(a, " != ", b) : text(a, " ^ ", b);
    case Code::shl:
    case Code::shr: {
      // By the amount modulo the width of the type. Shifting an index by 32 or more leaves its sign.
      const int last = ir::bits_of(type) - 1;
      const bool is_index = type == Type::s64 && kind == NumberKind::s32;
      const std::string masked = text("int(", b, ") & ", last);
      std::string amount = syntax_.is_glsl() ? masked : text("(int)(", b, ") & ", last);
      if (is_index) amount = text("min(", amount, ", 31)");
      if (op.code == Code::shr) return text(a, " >> (", amount, ")");
      if (syntax_.is_glsl() || kind == NumberKind::u32) return text(a, " << (", amount, ")");
      return text("(", syntax_.type(kind), ")((", syntax_.wrapping_type(kind), ")(", a, ") << (", amount, "))");
    }
    default:
      return kind == NumberKind::boolean ? compared(op.code, a, b) : text(a, sign_of(op.code), b);
  }
}

std::string Printer::converted(const ir::Op& op, Id operand, const std::string& given) const {
  const Type to = op.type, from = program_[operand].type;
  const NumberKind result = kind(static_cast<Id>(&op - program_.ops.data()));
  const NumberKind from_kind = kind(operand);
  if (to == from) {
    if (op.code == Code::nearest && is_float(result)) return given;
    return as(result, operand, given);
  }
  if (to == Type::boolean) {
    return text(given, " != ", is_float(from_kind) ? syntax_.number(from_kind, 0) : syntax_.integer(from_kind, 0));
  }
  if (from == Type::boolean) {
    const auto number = [&](int n) {
      return is_float(result) ? syntax_.number(result, n) : syntax_.integer(result, n);
    };
    return text(given, " ? ", number(1), " : ", number(0));
  }
  if (ir::is_float(to)) {
    // Mesa drops the conversion of an integer to float and back, although it rounds.
    const bool is_rounded = from != Type::u8 && (from_kind == NumberKind::s64 || result == NumberKind::f32);
    const std::string value = syntax_.cast(result, given);
    return syntax_.is_glsl() && is_rounded && !ir::is_float(from) ? text(value, " + ", hidden_zero(result, 0)) : value;
  }

  // The range of the result; for an index that of 32 bits.
  struct Limits {
    std::int64_t least;
    std::int64_t greatest;
  };
  const auto limits = [](Type type, NumberKind kind) -> Limits {
    if (type == Type::u8) return {0, 255};
    if (type == Type::u32) return {0, std::numeric_limits<std::uint32_t>::max()};
    if (kind == NumberKind::s32)
      return {std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()};
    return {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()};
  };
  const Limits range = limits(to, result);
  if (ir::is_float(from)) {
    const std::string x = op.code == Code::nearest ? call("round", from_kind, given) : given;
    const double end = std::ldexp(1.0, to == Type::u8 ? 8 : to == Type::u32 ? 32 : to == Type::s32 ? 31 : 63);
    const double least = range.least == 0 ? -1.0 : -end;
    const auto cut = [&](double from_here, double down_to, const Limits& ends, const std::string& inside) {
      return text(x, " >= ", syntax_.number(from_kind, from_here), " ? ", syntax_.integer(result, ends.greatest), " : ",
                  x, " <= ", syntax_.number(from_kind, down_to), " ? ", syntax_.integer(result, ends.least), " : ",
                  inside);
    };
    std::string value = syntax_.cast(result, x);
    if (to == Type::s64 && result == NumberKind::s32) {
      const auto far = static_cast<double>(largest_index), beyond = std::ldexp(1.0, 63);
      value = cut(beyond, -beyond, range, cut(far, -far, {-largest_index, largest_index}, value));
    } else {
      value = cut(end, least, range, value);
    }
    return text("(", x, " != ", x, ") ? ", syntax_.integer(result, 0), " : ", value);
  }
  const Limits given_range = limits(from, from_kind);
  std::string value = given;
  if (range.least > given_range.least) {
    const std::string least = syntax_.integer(from_kind, range.least);
    value = text("(", value, " < ", least, " ? ", least, " : ", value, ")");
  }
  if (range.greatest < given_range.greatest) {
    const std::string greatest = syntax_.integer(from_kind, range.greatest);
    value = text("(", value, " > ", greatest, " ? ", greatest, " : ", value, ")");
  }
  if (result == NumberKind::s64 && from_kind == NumberKind::s32) return syntax_.widened(given);
  return result == from_kind ? value : syntax_.cast(result, value);
}

std::string Printer::combined(Code code, NumberKind kind, Type type, const std::string& a, const std::string& b) const {
  switch (code) {
    case Code::reduce_sum:
    case Code::reduce_product: {
      const char* sign = code == Code::reduce_sum ? "+" : "*";
      if (is_float(kind)) return text(a, " ", sign, " ", b);
      const std::string value = wrapping(kind, a, sign, b);
      return type == Type::u8 ? text(value, " & 255u") : value;
    }
    default: {
      const char* sign = code == Code::reduce_max ? " > " : " < ";
      return is_float(kind) ? text("(", a, sign, b, " || ", a, " != ", a, ") ? ", a, " : ", b)
                            : text(a, sign, b, " ? ", a, " : ", b);
    }
  }
}

std::string Printer::identity(const ir::Op& reduction, NumberKind kind) const {
  const Type type = program_[reduction.operands[0]].type;
  const auto number = [&](int n) { return is_float(kind) ? syntax_.number(kind, n) : syntax_.integer(kind, n); };
  if (reduction.code == Code::reduce_sum) return number(0);
  if (reduction.code == Code::reduce_product) return number(1);
  const bool is_greatest = reduction.code == Code::reduce_min;
  const double infinity = std::numeric_limits<double>::infinity();
  if (is_float(kind)) return syntax_.number(kind, is_greatest ? infinity : -infinity);
  if (kind == NumberKind::u32) {
    return syntax_.integer(kind, !is_greatest ? 0 : type == Type::u8 ? 255 : std::numeric_limits<std::uint32_t>::max());
  }
  // The same for an index that is an s64: it is only visible if there are no elements.
  if (kind == NumberKind::s32) {
    using Limits = std::numeric_limits<std::int32_t>;
    return syntax_.integer(kind, is_greatest ? Limits::max() : Limits::min());
  }
  using Limits = std::numeric_limits<std::int64_t>;
  return syntax_.integer(kind, is_greatest ? Limits::max() : Limits::min());
}

// Whether a replaces b, which came before it: NaN is the greatest.
std::string Printer::is_greater(NumberKind kind, const std::string& a, const std::string& b) const {
  if (!is_float(kind)) return text(a, " > ", b);
  return text(a, " > ", b, " || (", a, " != ", a, " && ", b, " == ", b, ")");
}

}  // namespace tessera::compile::gpu
