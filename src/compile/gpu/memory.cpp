#include "compile/gpu/printer.hpp"
#include "core/text.hpp"

#include <algorithm>

namespace tessera::compile::gpu {

using core::text;
using ir::Border;
using ir::Code;
using ir::Id;
using ir::Type;

std::string Printer::offset(const std::vector<std::string>& indices, const std::vector<std::string>& extents) {
  std::string at = "0";
  for (std::size_t axis = 0; axis < indices.size(); ++axis) {
    if (axis > 0) at = times(at, extents[axis]);
    at = plus(at, indices[axis]);
  }
  return declare_index(at);
}

// ---- Buffers

std::string Printer::load_element(int buffer, const std::string& at) const {
  const Type type = program_.buffers[static_cast<std::size_t>(buffer)].type;
  const std::string array = text("b", buffer);
  if (!syntax_.is_glsl())
    return type == Type::u8 ? syntax_.cast(NumberKind::u32, text(array, "[", at, "]")) : text(array, "[", at, "]");
  if (type == Type::u8) {
    if (target_.has_u8 && !has_quads_) return text("uint(", array, "[", at, "])");
    return text("(", array, "[(", at, ") >> 2] >> (((", at, ") & 3) << 3)) & 255u");
  }
  const bool is_vector = has_quads_ && type != Type::f64 && type != Type::s64;
  return is_vector ? text(array, "[(", at, ") >> 2][(", at, ") & 3]") : text(array, "[", at, "]");
}

// Stores an element of the output.
void Printer::store_element(const std::string& at, const std::string& value) {
  const Type type = program_.buffers.front().type;
  if (syntax_.is_glsl() && type == Type::u8) {
    if (target_.has_u8 && !has_quads_) return line(text("b0[", at, "] = uint8_t(", value, ");"));
    // Other invocations store the other bytes of the word.
    line(text("atomicAnd(b0[(", at, ") >> 2], ~(255u << (((", at, ") & 3) << 3)));"));
    return line(text("atomicOr(b0[(", at, ") >> 2], ", value, " << (((", at, ") & 3) << 3));"));
  }
  const bool is_vector = syntax_.is_glsl() && has_quads_ && type != Type::f64 && type != Type::s64;
  const std::string element = is_vector ? text("b0[(", at, ") >> 2][(", at, ") & 3]") : text("b0[", at, "]");
  line(text(element, " = ", type == Type::u8 ? text("(", syntax_.element(type), ")(", value, ")") : value, ";"));
}

// ---- Loads and picks

// If points are computed one by one, none is outside of the output.
bool Printer::is_inside(const ir::Op& op, std::size_t axis) const {
  const std::vector<bool> always(analysis_.is_clipped.size(), true);
  return compile::is_inside(program_, op, axis, has_stages_ ? analysis_.is_clipped : always);
}

// The index to read instead of one that may be outside. With a zero border, `is_inside` is set.
std::string Printer::inside_border(const ir::Op& op, std::size_t axis, NumberKind kind, const std::string& index,
                                   const std::string& extent, std::string& is_inside) {
  const std::string_view of = kind == NumberKind::s64 ? "s64" : "s32";
  const auto also = [&](const std::string& condition) {
    is_inside += text(is_inside.empty() ? "" : " && ", condition);
  };
  const std::int64_t step = op.list.empty() ? 1 : op.list[axis];
  std::string at = index, count = extent, within;
  if (step > 1) {
    const std::string number = syntax_.integer(kind, step);
    within = declare(kind, text("t_mod_", of, "(", index, ", ", number, ")"));
    at = declare(kind, text("(", index, " - ", within, ") / ", number));
    count = declare(kind, text(extent, " / ", number));
  }
  const std::string zero = syntax_.integer(kind, 0);
  switch (op.border) {
    case Border::zero: {
      const std::string is_in = declare(NumberKind::boolean, text(at, " >= ", zero, " && ", at, " < ", count));
      also(is_in);
      at = declare(kind, text(is_in, " ? ", at, " : ", zero));
      break;
    }
    case Border::clamp:
      at = declare(kind, text("t_clamp_", of, "(", at, ", ", count, ")"));
      break;
    case Border::reflect:
      at = declare(kind, text("t_reflect_", of, "(", at, ", ", count, ")"));
      break;
    case Border::symmetric:
      at = declare(kind, text("t_symmetric_", of, "(", at, ", ", count, ")"));
      break;
    case Border::wrap:
      at = declare(kind, text("t_wrap_", of, "(", at, ", ", count, ")"));
      break;
  }
  if (op.border != Border::zero) also(text(count, " > ", zero));
  return step > 1 ? declare(kind, text(at, " * ", syntax_.integer(kind, step), " + ", within)) : at;
}

std::string Printer::loaded(Id id, const Point& point) {
  const ir::Op& op = program_[id];
  const bool is_load = op.code == Code::load;
  if (is_load && has_quads_) {
    const auto found = quads_.find(op.index);
    if (found != quads_.end()) {
      // The four elements that were read together.
      const Type type = program_.buffers[static_cast<std::size_t>(op.index)].type;
      if (type == Type::u8 && syntax_.is_glsl()) {
        return declare(kind(id), text("(", found->second, " >> ", component_ * 8, ") & 255u"));
      }
      static constexpr const char* names[] = {".x", ".y", ".z", ".w"};
      const std::string element = found->second + names[component_];
      return declare(kind(id), type == Type::u8 ? syntax_.cast(NumberKind::u32, element) : element);
    }
  }
  const std::span<const Id> operands = ir::indices_of(op);
  std::vector<std::string> indices, extents, whole;
  std::string inside;
  for (std::size_t axis = 0; axis < operands.size(); ++axis) {
    const std::string extent = is_load ? dim(op.index, static_cast<int>(axis)) : index(ir::extents_of(op)[axis]);
    whole.push_back(is_load ? extent : this->extent(program_[op.operands[0]].shape[axis]));
    const Id index = operands[axis];
    std::string at = eval(index, operand_point(op, index, point));
    NumberKind kind_of_type = kind(index);
    if (!is_inside(op, axis)) {
      const std::string in_form = kind_of_type == NumberKind::s64 ? syntax_.widened(extent) : extent;
      at = inside_border(op, axis, kind_of_type, at, in_form, inside);
    }
    if (kind_of_type == NumberKind::s64) at = declare(NumberKind::s32, syntax_.cast(NumberKind::s32, at));
    indices.push_back(at);
  }
  if (!is_load) {
    for (std::size_t axis = 0; axis < operands.size(); ++axis) {
      const std::string start = index(ir::starts_of(op)[axis]);
      indices[axis] = declare_index(start == "0" ? indices[axis] : text(indices[axis], " - ", start));
      inside += text(inside.empty() ? "" : " && ", indices[axis], " >= 0 && ", indices[axis], " < ", whole[axis]);
    }
  }
  const std::string at = offset(indices, whole);
  const auto element = [&] { return is_load ? load_element(op.index, at) : scratch_element(op.operands[0], at); };
  if (inside.empty()) return declare(kind(id), element());
  std::string value = declare(kind(id), kind(id) == NumberKind::boolean ? "false" : syntax_.cast(kind(id), "0"));
  line(text("if (", inside, ") ", value, " = ", element(), ";"));
  return value;
}

// ---- Scratch memory

std::string Printer::scratch_element(Id id, const std::string& at) const {
  const ScratchSlot& where = scratch_of_.at(id);
  if (where.is_shared) {
    // A constant index beyond the end is never reached, but GLSL rejects it.
    const bool is_beyond = at.find_first_not_of("0123456789") == std::string::npos && std::stoll(at) >= where.elements;
    return text(where.name, "[", is_beyond ? "0" : at, "]");
  }
  const NumberKind of = kind(id);
  if (of == NumberKind::f64 || of == NumberKind::s64) {
    return syntax_.from_bits(of, text("scratch[", where.name, " + 2 * (", at, ")]"),
                             text("scratch[", where.name, " + 2 * (", at, ") + 1]"));
  }
  return syntax_.from_bits(of, text("scratch[", where.name, " + (", at, ")]"));
}

std::string Printer::from_scratch(Id id, const Point& point) {
  return declare(kind(id), scratch_element(id, offset(point, extents_of(id))));
}

void Printer::to_words(const std::string& base, NumberKind of, const std::string& at, const std::string& value) {
  if (of == NumberKind::f64 || of == NumberKind::s64) {
    line(text("scratch[", base, " + 2 * (", at, ")] = ", syntax_.bits(of, value, 0), ";"));
    line(text("scratch[", base, " + 2 * (", at, ") + 1] = ", syntax_.bits(of, value, 1), ";"));
  } else {
    line(text("scratch[", base, " + (", at, ")] = ", syntax_.bits(of, value, 0), ";"));
  }
}

void Printer::to_scratch(Id id, const std::string& at, const std::string& value) {
  const ScratchSlot& where = scratch_of_.at(id);
  if (where.is_shared) return line(text(where.name, "[", at, "] = ", value, ";"));
  to_words(where.name, kind(id), at, value);
}

}  // namespace tessera::compile::gpu
