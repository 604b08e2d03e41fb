#include "core/text.hpp"
#include "ir/ir.hpp"
#include "ir/rules.hpp"

#include <charconv>

namespace tessera::ir {

using core::text;

namespace {

std::string_view to_string(Border border) {
  switch (border) {
    case Border::clamp:
      return " clamp";
    case Border::reflect:
      return " reflect";
    case Border::wrap:
      return " wrap";
    case Border::symmetric:
      return " symmetric";
    default:
      return "";
  }
}

// The shortest text that reads back as the same number.
std::string number_text(double number) {
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof(digits), number).ptr;
  return {digits, end};
}

template <class Items, class F>
std::string joined(const Items& items, F&& item_text, std::string_view separator = ", ") {
  std::string list;
  for (const auto& item : items) {
    if (!list.empty()) list += separator;
    list += item_text(item);
  }
  return list;
}

std::string values(std::span<const Id> ids) {
  return joined(ids, [](Id id) { return text("%", id); });
}

std::string integers(std::span<const std::int64_t> list) {
  return text("[", joined(list, [](std::int64_t item) { return text(item); }), "]");
}

std::string buffer_text(const Buffer& buffer) {
  const auto extent = [](std::int64_t dim) { return dim < 0 ? std::string("?") : text(dim); };
  return text(buffer.name, ": ", to_string(buffer.type), "[", joined(buffer.dims, extent, ","), "]");
}

std::string heading(const Program& program) {
  std::string line = text("kernel ", program.name, "(out ");
  line += joined(program.buffers, buffer_text);
  if (!program.scalars.empty())
    line += "; " + joined(program.scalars, [](const Scalar& s) { return text(s.name, ": ", to_string(s.type)); });
  line += ")";
  if (!program.tile.empty()) line += " tile " + integers(program.tile);
  if (!program.idiom.name.empty()) line += text(" idiom ", program.idiom.name, " ", integers(program.idiom.numbers));
  return line + "\n";
}

// What follows the "=".
std::string right_side(const Program& program, const Op& op) {
  const std::string_view name = to_string(op.code);
  const auto buffer = [&] { return program.buffers[static_cast<std::size_t>(op.index)].name; };
  switch (op.code) {
    case Code::constant:
      return is_float(op.type) ? number_text(op.number) : text(op.integer);
    case Code::scalar:
      return text(name, " ", program.scalars[static_cast<std::size_t>(op.index)].name);
    case Code::dim:
      return text(name, " ", op.axis, " of ", buffer());
    case Code::tile_dim:
    case Code::origin:
    case Code::block:
    case Code::iota:
      return text(name, " ", op.axis);
    case Code::argument:
      return op.index == 0 ? "counter" : text("carried ", op.index - 1);
    case Code::load:
      return text(name, " ", buffer(), "[", values(op.operands), "]", to_string(op.border),
                  op.list.empty() ? "" : " steps " + integers(op.list));
    case Code::transpose:
      return text(name, " ", values(op.operands), " ", integers(op.list));
    case Code::slice:
      return text(name, " %", op.operands[0], " from [", values(std::span(op.operands).subspan(1)), "]");
    case Code::pick:
      return text(name, " %", op.operands[0], " from [", values(starts_of(op)), "] of [", values(extents_of(op)),
                  "] at [", values(indices_of(op)), "]", to_string(op.border),
                  op.list.empty() ? "" : " steps " + integers(op.list));
    case Code::result:
      return text(name, " ", op.index, " of %", op.operands[0]);
    default:
      return text(name, " ", values(op.operands), is_reduction(op.code) ? text(" along ", op.axis) : "");
  }
}

void print(const Program& program, const Region& region, const std::string& indent, std::string& out) {
  const auto line = [&](Id id) {
    const Op& op = program[id];
    if (op.code == Code::store) return text(indent, "store %", op.operands[0], "\n");
    if (op.code == Code::loop)
      return text(indent, "%", id, " = loop %", op.operands[0], " times from (",
                  values(std::span(op.operands).subspan(1)), ")\n");
    return text(indent, "%", id, ": ", value_text(program, id), " = ", right_side(program, op), "\n");
  };
  for (const Id id : region.arguments) out += line(id);
  for (const Id id : region.ops) {
    out += line(id);
    if (program[id].code == Code::loop)
      print(program, program.regions[static_cast<std::size_t>(program[id].index)], indent + "  ", out);
  }
  if (region.loop != none) out += text(indent, "next (", values(region.results), ")\n");
}

}  // namespace

std::string to_string(const Program& program) {
  std::string out = heading(program);
  for (const SameExtent& same : program.same_extents)
    out += text("  dim ", same.axis, " of ", program.buffers[static_cast<std::size_t>(same.buffer)].name, " is ",
                same.factor == 1 ? "" : text(same.factor, " * "), "dim ", same.output_axis, " of ",
                program.buffers.front().name, "\n");
  print(program, program.body(), "  ", out);
  return out;
}

}  // namespace tessera::ir
