#include "ir/rules.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"

#include <algorithm>

namespace tessera::ir {

using core::text;

void fail(const Program& program, std::string_view what) {
  throw Error(Errc::invalid_kernel, text("[", program.name, "] ", what));
}

namespace {

// The operator or function that the user wrote: "+", "exp".
std::string_view word(Code code) {
  switch (code) {
    case Code::neg:
    case Code::sub:
      return "-";
    case Code::add:
      return "+";
    case Code::mul:
      return "*";
    case Code::div:
      return "/";
    case Code::rem:
      return "%";
    case Code::bit_not:
      return "~";
    case Code::bit_and:
      return "&";
    case Code::bit_or:
      return "|";
    case Code::bit_xor:
      return "^";
    case Code::shl:
      return "<<";
    case Code::shr:
      return ">>";
    case Code::eq:
      return "==";
    case Code::ne:
      return "!=";
    case Code::lt:
      return "<";
    case Code::le:
      return "<=";
    case Code::gt:
      return ">";
    case Code::ge:
      return ">=";
    default:
      return to_string(code);
  }
}

bool is_function(Code code) { return word(code) == to_string(code); }

// "f32 + s32", "fma(f32, f32, s32)".
std::string call_text(const Program& program, Code code, std::span<const Id> operands) {
  if (!is_function(code) && operands.size() == 2)
    return text(to_string(program[operands[0]].type), " ", word(code), " ", to_string(program[operands[1]].type));
  std::string list;
  for (const Id operand : operands) {
    if (!list.empty()) list += ", ";
    list += to_string(program[operand].type);
  }
  return is_function(code) ? text(word(code), "(", list, ")") : text(word(code), list);
}

std::string operand_text(const Program& program, Id id) {
  const Op& op = program[id];
  const std::string inner = extent_text(program, id);
  return is_binary(op.code) && !is_function(op.code) ? "(" + inner + ")" : inner;
}

}  // namespace

std::string extent_text(const Program& program, Id extent) {
  const Op& op = program[extent];
  switch (op.code) {
    case Code::constant:
      return text(op.integer);
    case Code::dim:
      return text("dim ", op.axis, " of ", program.buffers[static_cast<std::size_t>(op.index)].name);
    case Code::tile_dim:
      return text("tile ", op.axis);
    case Code::scalar:
      return program.scalars[static_cast<std::size_t>(op.index)].name;
    default:
      break;
  }
  if (!is_pointwise(op.code)) return text("%", extent);
  if (is_binary(op.code) && !is_function(op.code))
    return text(operand_text(program, op.operands[0]), " ", word(op.code), " ", operand_text(program, op.operands[1]));
  std::string list;
  for (const Id operand : op.operands) list += (list.empty() ? "" : ", ") + extent_text(program, operand);
  return text(word(op.code), "(", list, ")");
}

std::string shape_text(const Program& program, std::span<const Id> shape) {
  std::string list;
  for (const Id extent : shape) list += (list.empty() ? "" : ", ") + extent_text(program, extent);
  return "[" + list + "]";
}

std::string value_text(const Program& program, Id id) {
  const Op& op = program[id];
  return std::string(to_string(op.type)) + (op.shape.empty() ? std::string() : shape_text(program, op.shape));
}

bool is_one(const Program& program, Id extent) noexcept {
  std::int64_t value = 0;
  return is_constant(program, extent, value) && value == 1;
}

bool is_same_extent(const Program& program, Id a, Id b) noexcept {
  std::int64_t x = 0;
  std::int64_t y = 0;
  return a == b || (is_constant(program, a, x) && is_constant(program, b, y) && x == y);
}

bool is_same_shape(const Program& program, std::span<const Id> a, std::span<const Id> b) noexcept {
  return std::ranges::equal(a, b, [&](Id x, Id y) { return is_same_extent(program, x, y); });
}

namespace {

// The product of extents: a constant, and the other factors, sorted.
struct Factors {
  std::int64_t number = 1;
  Extents others;
};

void collect(const Program& program, Id extent, Factors& factors) {
  const Op& op = program[extent];
  if (op.code == Code::constant) {
    factors.number *= op.integer;
  } else if (op.code == Code::mul) {
    for (const Id operand : op.operands) collect(program, operand, factors);
  } else {
    factors.others.push_back(extent);
  }
}

Factors factors_of(const Program& program, std::span<const Id> shape) {
  Factors factors;
  for (const Id extent : shape) collect(program, extent, factors);
  std::ranges::sort(factors.others);
  return factors;
}

}  // namespace

bool is_same_size(const Program& program, std::span<const Id> a, std::span<const Id> b) {
  const Factors x = factors_of(program, a);
  const Factors y = factors_of(program, b);
  return x.number == y.number && x.others == y.others;
}

bool is_known_before(const Op& op) noexcept {
  switch (op.code) {
    case Code::constant:
    case Code::dim:
    case Code::tile_dim:
      return true;
    default:
      return is_pointwise(op.code) && op.shape.empty();
  }
}

std::optional<Extents> broadcast_shape(const Program& program, std::span<const Id> a, std::span<const Id> b) {
  if (a.size() < b.size()) std::swap(a, b);
  Extents shape(a.begin(), a.end());
  const std::size_t missing = a.size() - b.size();
  for (std::size_t i = 0; i < b.size(); ++i) {
    Id& extent = shape[missing + i];
    if (is_same_extent(program, extent, b[i]) || is_one(program, b[i])) continue;
    if (!is_one(program, extent)) return std::nullopt;
    extent = b[i];
  }
  return shape;
}

Extents broadcast_all(const Program& program, std::span<const Id> operands) {
  Extents shape;
  for (const Id operand : operands) {
    const Extents& other = program[operand].shape;
    std::optional<Extents> both = broadcast_shape(program, shape, other);
    if (!both)
      fail(program, text("tiles of shape ", shape_text(program, shape), " and ", shape_text(program, other),
                         " cannot be broadcast together: extents must be equal, or 1"));
    shape = *std::move(both);
  }
  return shape;
}

void check_broadcasts_to(const Program& program, std::span<const Id> from, std::span<const Id> to) {
  const std::optional<Extents> both = broadcast_shape(program, from, to);
  if (!both || !is_same_shape(program, *both, to))
    fail(program,
         text("a tile of shape ", shape_text(program, from), " cannot be broadcast to ", shape_text(program, to)));
}

namespace {

// The types that an op takes.
enum class Domain : std::uint8_t { any, numbers, floats, integers, bits };

Domain domain_of(Code code) {
  switch (code) {
    case Code::select:
    case Code::convert:
    case Code::nearest:
      return Domain::any;
    case Code::bit_not:
    case Code::bit_and:
    case Code::bit_or:
    case Code::bit_xor:
      return Domain::bits;
    case Code::shl:
    case Code::shr:
      return Domain::integers;
    default:
      break;
  }
  if (is_comparison(code)) return Domain::any;
  return code >= Code::exp && code <= Code::round ? Domain::floats : Domain::numbers;
}

void check_domain(const Program& program, Code code, std::span<const Id> operands, Type type) {
  const auto wrong = [&](std::string_view wanted) {
    fail(program, text(call_text(program, code, operands), ": ", wanted));
  };
  switch (domain_of(code)) {
    case Domain::any:
      return;
    case Domain::numbers:
      if (type == Type::boolean)
        wrong("a comparison's result works with select, &, | and ! only; cast<T>() it for arithmetic");
      return;
    case Domain::floats:
      if (!is_float(type)) wrong("it takes floats; cast<float>() the operand");
      return;
    case Domain::integers:
      if (!is_integer(type)) wrong("it takes integers");
      return;
    case Domain::bits:
      if (is_float(type)) wrong("it takes integers and results of comparisons");
      return;
  }
}

}  // namespace

Type result_type(const Program& program, Code code, std::span<const Id> operands) {
  std::span<const Id> alike = operands;
  if (code == Code::select) {
    alike = alike.subspan(1);
    if (program[operands[0]].type != Type::boolean)
      fail(program, text(call_text(program, code, operands), ": the condition must be the result of a comparison"));
  }
  const Type type = program[alike.front()].type;
  for (const Id operand : alike) {
    if (program[operand].type != type)
      fail(program, text(call_text(program, code, operands),
                         ": tiles must have the same type to be combined; cast<T>() one of them"));
  }
  check_domain(program, code, operands, type);
  if (is_comparison(code)) return Type::boolean;
  return code == Code::argmax ? Type::s64 : type;
}

void check_mma(const Program& program, Id a, Id b, Id c) {
  const Extents& x = program[a].shape;
  const Extents& y = program[b].shape;
  const Extents& sum = program[c].shape;
  const auto wrong = [&](std::string_view why) {
    fail(program, text("mma of ", shape_text(program, x), ", ", shape_text(program, y), " and the sum ",
                       shape_text(program, sum), ": ", why));
  };
  if (x.size() < 2 || y.size() < 2 || sum.size() < 2) wrong("each needs at least two axes");
  const auto from_end = [](const Extents& shape, std::size_t i) { return shape[shape.size() - i]; };
  const auto same = [&](Id p, Id q) { return is_same_extent(program, p, q); };
  if (!same(from_end(x, 1), from_end(y, 2)) || !same(from_end(x, 2), from_end(sum, 2)) ||
      !same(from_end(y, 1), from_end(sum, 1)))
    wrong("they must be [m, k], [k, n] and [m, n]");
  const auto batch = [](const Extents& shape) { return std::span(shape).first(shape.size() - 2); };
  const auto fits = [&](const Extents& shape) {
    const auto both = broadcast_shape(program, batch(shape), batch(sum));
    return both && is_same_shape(program, *both, batch(sum));
  };
  if (!fits(x) || !fits(y)) wrong("the batch axes must be those of the sum, or 1");
}

}  // namespace tessera::ir
