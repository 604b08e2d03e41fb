#include "core/text.hpp"
#include "ir/ir.hpp"
#include "ir/rules.hpp"

#include <algorithm>

namespace tessera::ir {

using core::text;

namespace {

class Verifier {
 public:
  explicit Verifier(const Program& program) : program_(program) {}

  void run() {
    check_heading();
    check_regions();
    for (Id id = 0; id < static_cast<Id>(program_.ops.size()); ++id) {
      check_references(id);
      check_shape(id);
      check_op(id);
    }
    check_store();
  }

 private:
  [[noreturn]] void wrong(Id id, std::string_view what) const {
    fail(program_, text("%", id, " (", to_string(program_[id].code), "): ", what));
  }
  // The message is built only if it is needed: every traced program is verified.
  template <class... Part>
  void require(bool holds, Id id, const Part&... what) const {
    if (!holds) wrong(id, text(what...));
  }
  bool is_index(Id id) const { return program_[id].type == Type::s64 && program_[id].shape.empty(); }

  void check_heading() const;
  void check_regions();
  void check_region(int number, std::vector<bool>& is_listed) const;
  void check_references(Id id) const;
  void check_shape(Id id);
  void check_op(Id id) const;
  void check_leaf(Id id) const;
  void check_load(Id id) const;
  void check_pointwise(Id id) const;
  void check_moved(Id id) const;
  void check_pick(Id id) const;
  void check_reduced(Id id) const;
  void check_loop(Id id) const;
  void check_store() const;
  bool is_inside(int region, int outer) const;

  const Program& program_;
  std::vector<bool> is_known_;  // may be an extent
};

void Verifier::check_heading() const {
  if (program_.buffers.empty()) fail(program_, "it has no output");
  if (program_.regions.empty() || program_.ops.empty() || program_.body().ops.empty()) fail(program_, "it has no ops");
  const int rank = program_.buffers.front().rank();
  if (!program_.tile.empty() && static_cast<int>(program_.tile.size()) != rank)
    fail(program_, text("the tile has ", program_.tile.size(), " extents, but the output has ", rank,
                        rank == 1 ? " axis" : " axes"));
  for (const std::int64_t extent : program_.tile) {
    if (extent < 0) fail(program_, text("the tile has a negative extent, ", extent));
  }
  if (!program_.whole.empty() && static_cast<int>(program_.whole.size()) != rank)
    fail(program_, text("the whole axes are listed for ", program_.whole.size(), " axes, but the output has ", rank));
  for (const SameExtent& same : program_.same_extents) {
    const auto buffer = static_cast<std::size_t>(same.buffer);
    if (buffer >= program_.buffers.size() || same.axis >= program_.buffers[buffer].rank() || same.output_axis >= rank)
      fail(program_, "an equal-extent rule names an axis that does not exist");
    if (same.factor < 1) fail(program_, text("an equal-extent rule has the factor ", same.factor));
  }
}

bool Verifier::is_inside(int region, int outer) const {
  while (region > outer) region = program_.regions[static_cast<std::size_t>(region)].parent;
  return region == outer;
}

void Verifier::check_regions() {
  std::vector<bool> is_listed(program_.ops.size());
  for (int number = 0; number < static_cast<int>(program_.regions.size()); ++number) check_region(number, is_listed);
  const auto lost = std::ranges::find(is_listed, false);
  if (lost != is_listed.end()) wrong(static_cast<Id>(lost - is_listed.begin()), "it is in no region");
}

void Verifier::check_region(int number, std::vector<bool>& is_listed) const {
  const Region& region = program_.regions[static_cast<std::size_t>(number)];
  if ((number == 0) != (region.parent == -1) || region.parent >= number)
    fail(program_, text("region ", number, " has no valid parent"));
  const auto check_listed = [&](Id id, bool is_argument) {
    if (id < 0 || id >= static_cast<Id>(program_.ops.size())) fail(program_, text("there is no op %", id));
    require(!is_listed[static_cast<std::size_t>(id)], id, "it is in two regions");
    require(program_[id].region == number, id, "it is listed in a region other than its own");
    require((program_[id].code == Code::argument) == is_argument, id, "only a loop has arguments");
    is_listed[static_cast<std::size_t>(id)] = true;
  };
  for (const Id id : region.arguments) check_listed(id, true);
  for (const Id id : region.ops) check_listed(id, false);
  if (!std::ranges::is_sorted(region.ops)) fail(program_, text("the ops of region ", number, " are out of order"));
}

void Verifier::check_references(Id id) const {
  const auto check = [&](Id other) {
    require(other >= 0 && other < id, id, "it uses %", other, ", which is not computed before it");
    require(is_inside(program_[id].region, program_[other].region), id, "it uses %", other,
            ", which is computed inside a loop");
    require(program_[other].code != Code::loop || program_[id].code == Code::result, id, "a loop is not a value");
  };
  std::ranges::for_each(program_[id].operands, check);
  std::ranges::for_each(program_[id].shape, check);
}

void Verifier::check_shape(Id id) {
  const Op& op = program_[id];
  is_known_.push_back(is_known_before(op) && std::ranges::all_of(op.operands, [&](Id o) { return is_known_[o]; }));
  for (const Id extent : op.shape) {
    require(is_index(extent), id, "an extent must be a single number of type s64");
    require(is_known_[static_cast<std::size_t>(extent)], id,
            "an extent must be computed from constants, dim() and tile_dim() only");
    std::int64_t value = 0;
    require(!is_constant(program_, extent, value) || value >= 0, id, "an extent cannot be negative");
  }
}

void Verifier::check_op(Id id) const {
  const Code code = program_[id].code;
  if (code <= Code::iota) return check_leaf(id);
  if (code == Code::load) return check_load(id);
  if (is_pointwise(code)) return check_pointwise(id);
  if (code <= Code::slice) return check_moved(id);
  if (code == Code::pick) return check_pick(id);
  if (code <= Code::mma) return check_reduced(id);
  if (code <= Code::result) return check_loop(id);
}

void Verifier::check_leaf(Id id) const {
  const Op& op = program_[id];
  require(op.operands.empty(), id, "it takes no operands");
  require(op.code == Code::iota || op.code == Code::argument || op.shape.empty(), id, "it must be a single number");
  require(op.code == Code::constant || op.code == Code::scalar || op.code == Code::argument || op.type == Type::s64, id,
          "it must be of type s64");
  const int rank = program_.buffers.front().rank();
  switch (op.code) {
    case Code::scalar:
      require(op.index >= 0 && op.index < static_cast<int>(program_.scalars.size()), id, "there is no such scalar");
      require(op.type == program_.scalars[static_cast<std::size_t>(op.index)].type, id,
              "its type must be the scalar's");
      return;
    case Code::dim:
      require(op.index >= 0 && op.index < static_cast<int>(program_.buffers.size()), id, "there is no such buffer");
      require(op.axis >= 0 && op.axis < program_.buffers[static_cast<std::size_t>(op.index)].rank(), id,
              "there is no such axis");
      return;
    case Code::tile_dim:
    case Code::origin:
    case Code::block:
      require(op.axis >= 0 && op.axis < rank, id, "there is no such axis");
      return;
    case Code::iota:
      require(op.axis >= 0 && op.axis < static_cast<int>(op.shape.size()), id, "there is no such axis");
      return;
    default:
      return;
  }
}

void Verifier::check_load(Id id) const {
  const Op& op = program_[id];
  require(op.index > 0 && op.index < static_cast<int>(program_.buffers.size()), id, "there is no such input");
  const Buffer& buffer = program_.buffers[static_cast<std::size_t>(op.index)];
  require(op.type == buffer.type, id, "its type must be the buffer's");
  require(op.operands.size() == buffer.dims.size(), id, "it takes an index for each axis");
  for (const Id index : op.operands) require(program_[index].type == Type::s64, id, "an index must be of type s64");
  require(is_same_shape(program_, op.shape, broadcast_all(program_, op.operands)), id,
          "its shape must be that of its indices");
  require(op.list.empty() || op.list.size() == buffer.dims.size(), id, "it takes a step for each axis");
  require(std::ranges::all_of(op.list, [](std::int64_t step) { return step >= 1; }), id, "a step must be 1 or more");
}

void Verifier::check_pointwise(Id id) const {
  const Op& op = program_[id];
  const std::size_t count = is_binary(op.code) ? 2 : op.code == Code::select || op.code == Code::fma ? 3 : 1;
  require(op.operands.size() == count, id, "it takes ", count, " operands");
  const Type type = result_type(program_, op.code, op.operands);
  const bool converts = op.code == Code::convert || op.code == Code::nearest;
  require(converts || op.type == type, id, "its type must be ", to_string(type));
  require(is_same_shape(program_, op.shape, broadcast_all(program_, op.operands)), id,
          "its shape must be that of its operands");
}

void Verifier::check_moved(Id id) const {
  const Op& op = program_[id];
  require(!op.operands.empty(), id, "it takes an operand");
  const Op& from = program_[op.operands.front()];
  require(op.type == from.type, id, "its type must be that of its operand");
  if (op.code == Code::slice) {
    require(op.shape.size() == from.shape.size() && op.operands.size() == op.shape.size() + 1, id,
            "it takes a start and an extent for each axis");
    for (std::size_t i = 1; i < op.operands.size(); ++i)
      require(is_index(op.operands[i]), id, "the start of a slice must be a single number of type s64");
    return;
  }
  require(op.operands.size() == 1, id, "it takes one operand");
  if (op.code == Code::broadcast) check_broadcasts_to(program_, from.shape, op.shape);
  if (op.code == Code::reshape)
    require(is_same_size(program_, from.shape, op.shape), id,
            "the shapes must always have the same number of elements");
  if (op.code == Code::transpose) {
    std::vector<std::int64_t> axes = op.list;
    std::ranges::sort(axes);
    require(axes.size() == from.shape.size() && op.shape.size() == axes.size(), id, "each axis must be listed once");
    for (std::size_t i = 0; i < axes.size(); ++i) {
      require(axes[i] == static_cast<std::int64_t>(i), id, "each axis must be listed once");
      require(is_same_extent(program_, op.shape[i], from.shape[static_cast<std::size_t>(op.list[i])]), id,
              "its extents must be those of its operand");
    }
  }
}

void Verifier::check_pick(Id id) const {
  const Op& op = program_[id];
  require(!op.operands.empty(), id, "it takes an operand");
  const Op& from = program_[op.operands.front()];
  require(op.type == from.type, id, "its type must be that of its operand");
  require(op.operands.size() == 1 + 3 * from.shape.size(), id,
          "it takes a start, an extent and an index for each axis");
  for (const Id start : starts_of(op)) require(is_index(start), id, "a start must be a single number of type s64");
  for (const Id extent : extents_of(op)) require(is_index(extent), id, "an extent must be a single number of type s64");
  for (const Id index : indices_of(op)) require(program_[index].type == Type::s64, id, "an index must be of type s64");
  require(is_same_shape(program_, op.shape, broadcast_all(program_, indices_of(op))), id,
          "its shape must be that of its indices");
  require(op.list.empty() || op.list.size() == from.shape.size(), id, "it takes a step for each axis");
  require(std::ranges::all_of(op.list, [](std::int64_t step) { return step >= 1; }), id, "a step must be 1 or more");
}

void Verifier::check_reduced(Id id) const {
  const Op& op = program_[id];
  if (op.code == Code::mma) {
    require(op.operands.size() == 3, id, "it takes 3 operands");
    require(op.type == result_type(program_, op.code, op.operands), id, "its type must be that of its operands");
    check_mma(program_, op.operands[0], op.operands[1], op.operands[2]);
    require(is_same_shape(program_, op.shape, program_[op.operands[2]].shape), id, "its shape must be that of the sum");
    return;
  }
  require(op.operands.size() == 1, id, "it takes one operand");
  Extents shape = program_[op.operands[0]].shape;
  require(op.axis >= 0 && op.axis < static_cast<int>(shape.size()), id, "there is no such axis");
  require(op.type == result_type(program_, op.code, op.operands), id, "its type must be that of its operand");
  require(op.shape.size() == shape.size() && is_one(program_, op.shape[static_cast<std::size_t>(op.axis)]), id,
          "the reduced axis must have extent 1");
  shape[static_cast<std::size_t>(op.axis)] = op.shape[static_cast<std::size_t>(op.axis)];
  require(is_same_shape(program_, op.shape, shape), id, "its other extents must be those of its operand");
}

void Verifier::check_loop(Id id) const {
  const Op& op = program_[id];
  const auto is_like = [&](Id a, Id b) {
    return program_[a].type == program_[b].type && is_same_shape(program_, program_[a].shape, program_[b].shape);
  };
  require(!op.operands.empty(), id, "it takes an operand");
  if (op.code == Code::result) {
    const Op& loop = program_[op.operands[0]];
    require(loop.code == Code::loop && op.index >= 0 && op.index + 1 < static_cast<int>(loop.operands.size()), id,
            "there is no such carried value");
    require(is_like(id, loop.operands[static_cast<std::size_t>(op.index) + 1]), id,
            "its type and shape must be those of the carried value");
    return;
  }
  require(op.index > 0 && op.index < static_cast<int>(program_.regions.size()), id, "it has no body");
  const Region& body = program_.regions[static_cast<std::size_t>(op.index)];
  require(body.loop == id && body.parent == op.region, id, "its body belongs to another loop");
  require(is_index(op.operands[0]), id, "the count must be a single number of type s64");
  require(body.arguments.size() == op.operands.size() && body.results.size() + 1 == op.operands.size(), id,
          "its body must take and return the carried values");
  require(is_index(body.arguments[0]), id, "the counter must be a single number of type s64");
  for (std::size_t i = 1; i < op.operands.size(); ++i) {
    const Id next = body.results[i - 1];
    require(next >= 0 && next < id && is_inside(op.index, program_[next].region), id,
            "its body must return values that it can use");
    require(program_[body.arguments[i]].index == static_cast<int>(i), id, "arguments must be numbered in order");
    if (!is_like(op.operands[i], body.arguments[i]) || !is_like(op.operands[i], next)) {
      wrong(id, text("it carries a tile of ", value_text(program_, op.operands[i]), ", but its body returns one of ",
                     value_text(program_, next)));
    }
  }
}

void Verifier::check_store() const {
  const Id last = program_.body().ops.back();
  const auto is_store = [](const Op& op) { return op.code == Code::store; };
  if (std::ranges::count_if(program_.ops, is_store) != 1 || !is_store(program_[last]))
    fail(program_, "the output must be stored once, at the end");
  const Op& store = program_[last];
  require(store.operands.size() == 1, last, "it takes one operand");
  const Buffer& output = program_.buffers.front();
  require(program_[store.operands[0]].type == output.type && store.type == output.type, last,
          "its type must be the output's, ", to_string(output.type));
  require(static_cast<int>(store.shape.size()) == output.rank(), last, "its shape must be that of the tile");
  for (std::size_t axis = 0; axis < store.shape.size(); ++axis) {
    const Op& extent = program_[store.shape[axis]];
    require(extent.code == Code::tile_dim && extent.axis == static_cast<int>(axis), last,
            "its shape must be that of the tile");
  }
  check_broadcasts_to(program_, program_[store.operands[0]].shape, store.shape);
}

}  // namespace

void verify(const Program& program) { Verifier(program).run(); }

}  // namespace tessera::ir
