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
  return declare_place(at);
}

// ---- Buffers

std::string Printer::load_element(int buffer, const std::string& at) const {
  const Type type = program_.buffers[static_cast<std::size_t>(buffer)].type;
  const std::string array = text("b", buffer);
  if (!words_.is_glsl())
    return type == Type::u8 ? words_.cast(Kept::u32, text(array, "[", at, "]")) : text(array, "[", at, "]");
  if (type == Type::u8) {
    if (target_.has_u8 && !has_quads_) return text("uint(", array, "[", at, "])");
    return text("(", array, "[(", at, ") >> 2] >> (((", at, ") & 3) << 3)) & 255u");
  }
  const bool is_vector = has_quads_ && type != Type::f64 && type != Type::s64;
  return is_vector ? text(array, "[(", at, ") >> 2][(", at, ") & 3]") : text(array, "[", at, "]");
}

// Of the output.
void Printer::store_element(const std::string& at, const std::string& value) {
  const Type type = program_.buffers.front().type;
  if (words_.is_glsl() && type == Type::u8) {
    if (target_.has_u8 && !has_quads_) return line(text("b0[", at, "] = uint8_t(", value, ");"));
    // The other bytes of the word are other invocations'.
    line(text("atomicAnd(b0[(", at, ") >> 2], ~(255u << (((", at, ") & 3) << 3)));"));
    return line(text("atomicOr(b0[(", at, ") >> 2], ", value, " << (((", at, ") & 3) << 3));"));
  }
  const bool is_vector = words_.is_glsl() && has_quads_ && type != Type::f64 && type != Type::s64;
  const std::string element = is_vector ? text("b0[(", at, ") >> 2][(", at, ") & 3]") : text("b0[", at, "]");
  line(text(element, " = ", type == Type::u8 ? text("(", words_.element(type), ")(", value, ")") : value, ";"));
}

// ---- Loads and picks

// Where points are computed one by one, none is beyond the output.
bool Printer::is_inside(const ir::Op& op, std::size_t axis) const {
  const std::vector<bool> always(analysis_.is_clipped.size(), true);
  return compile::is_inside(program_, op, axis, has_stages_ ? analysis_.is_clipped : always);
}

// Where an index is read: inside; where the border is zero, `is_inside` says whether it is.
std::string Printer::inside_border(const ir::Op& op, std::size_t axis, Kept kept, const std::string& index,
                                   const std::string& extent, std::string& is_inside) {
  const std::string_view of = kept == Kept::s64 ? "s64" : "s32";
  const auto also = [&](const std::string& condition) {
    is_inside += text(is_inside.empty() ? "" : " && ", condition);
  };
  const std::int64_t step = op.list.empty() ? 1 : op.list[axis];
  std::string at = index, count = extent, within;
  if (step > 1) {
    const std::string number = words_.integer(kept, step);
    within = declare(kept, text("t_mod_", of, "(", index, ", ", number, ")"));
    at = declare(kept, text("(", index, " - ", within, ") / ", number));
    count = declare(kept, text(extent, " / ", number));
  }
  const std::string zero = words_.integer(kept, 0);
  switch (op.border) {
    case Border::zero: {
      const std::string is_in = declare(Kept::boolean, text(at, " >= ", zero, " && ", at, " < ", count));
      also(is_in);
      at = declare(kept, text(is_in, " ? ", at, " : ", zero));
      break;
    }
    case Border::clamp:
      at = declare(kept, text("t_clamp_", of, "(", at, ", ", count, ")"));
      break;
    case Border::reflect:
      at = declare(kept, text("t_reflect_", of, "(", at, ", ", count, ")"));
      break;
    case Border::wrap:
      at = declare(kept, text("t_wrap_", of, "(", at, ", ", count, ")"));
      break;
  }
  if (op.border != Border::zero) also(text(count, " > ", zero));
  return step > 1 ? declare(kept, text(at, " * ", words_.integer(kept, step), " + ", within)) : at;
}

std::string Printer::loaded(Id id, const Point& point) {
  const ir::Op& op = program_[id];
  const bool is_load = op.code == Code::load;
  if (is_load && has_quads_) {
    const auto found = quads_.find(op.index);
    if (found != quads_.end()) {
      // The four elements that were read together.
      const Type type = program_.buffers[static_cast<std::size_t>(op.index)].type;
      if (type == Type::u8 && words_.is_glsl()) {
        return declare(kept(id), text("(", found->second, " >> ", component_ * 8, ") & 255u"));
      }
      static constexpr const char* names[] = {".x", ".y", ".z", ".w"};
      const std::string element = found->second + names[component_];
      return declare(kept(id), type == Type::u8 ? words_.cast(Kept::u32, element) : element);
    }
  }
  const std::span<const Id> operands = ir::indices_of(op);
  std::vector<std::string> indices, extents, whole;
  std::string inside;
  for (std::size_t axis = 0; axis < operands.size(); ++axis) {
    const std::string extent = is_load ? dim(op.index, static_cast<int>(axis)) : place(ir::extents_of(op)[axis]);
    whole.push_back(is_load ? extent : place(program_[op.operands[0]].shape[axis]));
    const Id index = operands[axis];
    std::string at = eval(index, operand_point(op, index, point));
    Kept as_kept = kept(index);
    if (!is_inside(op, axis)) {
      const std::string in_form = as_kept == Kept::s64 ? words_.cast(Kept::s64, extent) : extent;
      at = inside_border(op, axis, as_kept, at, in_form, inside);
    }
    if (as_kept == Kept::s64) at = declare(Kept::s32, words_.cast(Kept::s32, at));
    indices.push_back(at);
  }
  if (!is_load) {
    for (std::size_t axis = 0; axis < operands.size(); ++axis) {
      const std::string start = place(ir::starts_of(op)[axis]);
      indices[axis] = declare_place(start == "0" ? indices[axis] : text(indices[axis], " - ", start));
      inside += text(inside.empty() ? "" : " && ", indices[axis], " >= 0 && ", indices[axis], " < ", whole[axis]);
    }
  }
  const std::string at = offset(indices, whole);
  const auto element = [&] { return is_load ? load_element(op.index, at) : scratch_element(op.operands[0], at); };
  if (inside.empty()) return declare(kept(id), element());
  std::string value = declare(kept(id), kept(id) == Kept::boolean ? "false" : words_.cast(kept(id), "0"));
  line(text("if (", inside, ") ", value, " = ", element(), ";"));
  return value;
}

// ---- Scratch memory

std::string Printer::scratch_element(Id id, const std::string& at) const {
  const Place& where = scratch_of_.at(id);
  if (where.is_shared) {
    // A number beyond the end is where nobody comes, but GLSL does not take it.
    const bool is_beyond = at.find_first_not_of("0123456789") == std::string::npos && std::stoll(at) >= where.elements;
    return text(where.name, "[", is_beyond ? "0" : at, "]");
  }
  const Kept of = kept(id);
  if (of == Kept::f64 || of == Kept::s64) {
    return words_.from_bits(of, text("scratch[", where.name, " + 2 * (", at, ")]"),
                            text("scratch[", where.name, " + 2 * (", at, ") + 1]"));
  }
  return words_.from_bits(of, text("scratch[", where.name, " + (", at, ")]"));
}

std::string Printer::from_scratch(Id id, const Point& point) {
  return declare(kept(id), scratch_element(id, offset(point, extents_of(id))));
}

void Printer::to_words(const std::string& base, Kept of, const std::string& at, const std::string& value) {
  if (of == Kept::f64 || of == Kept::s64) {
    line(text("scratch[", base, " + 2 * (", at, ")] = ", words_.bits(of, value, 0), ";"));
    line(text("scratch[", base, " + 2 * (", at, ") + 1] = ", words_.bits(of, value, 1), ";"));
  } else {
    line(text("scratch[", base, " + (", at, ")] = ", words_.bits(of, value, 0), ";"));
  }
}

void Printer::to_scratch(Id id, const std::string& at, const std::string& value) {
  const Place& where = scratch_of_.at(id);
  if (where.is_shared) return line(text(where.name, "[", at, "] = ", value, ";"));
  to_words(where.name, kept(id), at, value);
}

}  // namespace tessera::compile::gpu
