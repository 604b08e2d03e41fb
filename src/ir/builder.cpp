#include "ir/builder.hpp"

#include "core/text.hpp"
#include "ir/arithmetic.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace tessera::ir {

using core::text;

namespace {

std::size_t hash_of(const Op& op) {
  std::size_t hash = 0;
  const auto mix = [&](std::uint64_t part) { hash = (hash ^ part) * 0x9e3779b97f4a7c15ULL + (hash >> 29); };
  mix(static_cast<std::uint64_t>(op.code) | static_cast<std::uint64_t>(op.type) << 8 |
      static_cast<std::uint64_t>(op.border) << 16);
  mix(static_cast<std::uint64_t>(op.axis));
  mix(static_cast<std::uint64_t>(op.index));
  mix(std::bit_cast<std::uint64_t>(op.number));
  mix(static_cast<std::uint64_t>(op.integer));
  for (const Id operand : op.operands) mix(static_cast<std::uint64_t>(operand));
  for (const Id extent : op.shape) mix(static_cast<std::uint64_t>(extent));
  for (const std::int64_t item : op.list) mix(static_cast<std::uint64_t>(item));
  return hash;
}

// Whether two ops are equal, wherever they stand: the second, which has no region yet, gets that of the first. Numbers
// are compared bit by bit: 0 and -0 differ.
bool is_same(const Op& a, Op& b) {
  b.region = a.region;
  return std::bit_cast<std::uint64_t>(a.number) == std::bit_cast<std::uint64_t>(b.number) && a == b;
}

bool is_start(const Op& block, const Op& extent) {
  return block.code == Code::block && extent.code == Code::tile_dim && block.axis == extent.axis;
}

}  // namespace

Builder::Builder(std::string name, std::vector<Buffer> buffers, std::vector<Scalar> scalars,
                 std::vector<std::int64_t> tile) {
  program_.name = std::move(name);
  program_.buffers = std::move(buffers);
  program_.scalars = std::move(scalars);
  program_.tile = std::move(tile);
  program_.regions.emplace_back();
}

void Builder::reserve(std::size_t ops) {
  program_.ops.reserve(ops);
  program_.regions.front().ops.reserve(ops);
  is_known_.reserve(ops);
  known_ops_.reserve(ops);
}

bool Builder::is_visible(Id id) const noexcept {
  const int wanted = program_[id].region;
  for (int region = region_; region >= 0; region = program_.regions[static_cast<std::size_t>(region)].parent) {
    if (region == wanted) return true;
  }
  return false;
}

Id Builder::append(Op op) {
  const Id id = static_cast<Id>(program_.ops.size());
  op.region = region_;
  is_known_.push_back(is_known_before(op) && std::ranges::all_of(op.operands, [&](Id o) { return is_known_[o]; }));
  // Arguments are in a list of their own.
  if (op.code != Code::argument) program_.regions[static_cast<std::size_t>(region_)].ops.push_back(id);
  program_.ops.push_back(std::move(op));
  return id;
}

Id Builder::make(Op op) {
  const std::size_t hash = hash_of(op);
  const auto [begin, end] = known_ops_.equal_range(hash);
  for (auto known = begin; known != end; ++known) {
    if (is_same(program_[known->second], op) && is_visible(known->second)) return known->second;
  }
  const Id id = append(std::move(op));
  known_ops_.emplace(hash, id);
  return id;
}

Id Builder::leaf(Code code, Type type, int axis, int index) {
  return make({.code = code, .type = type, .axis = axis, .index = index});
}

Id Builder::integer(Type type, std::int64_t value) {
  return make({.code = Code::constant, .type = type, .integer = value});
}

Id Builder::number(Type type, double value) {
  if (type == Type::f32) value = static_cast<double>(static_cast<float>(value));
  return make({.code = Code::constant, .type = type, .number = value});
}

Id Builder::scalar(int number) {
  return leaf(Code::scalar, program_.scalars[static_cast<std::size_t>(number)].type, 0, number);
}

Id Builder::dim(int buffer, int axis) {
  const std::int64_t known = program_.buffers[static_cast<std::size_t>(buffer)].dims[static_cast<std::size_t>(axis)];
  return known >= 0 ? index(known) : leaf(Code::dim, Type::s64, axis, buffer);
}

Id Builder::tile_dim(int axis) { return leaf(Code::tile_dim, Type::s64, axis, 0); }
Id Builder::origin(int axis) { return leaf(Code::origin, Type::s64, axis, 0); }
Id Builder::block(int axis) { return leaf(Code::block, Type::s64, axis, 0); }

Extents Builder::tile_shape() {
  Extents shape;
  for (int axis = 0; axis < program_.buffers.front().rank(); ++axis) shape.push_back(tile_dim(axis));
  return shape;
}

void Builder::check_shape(const Extents& shape) const {
  for (const Id extent : shape) {
    std::int64_t value = 0;
    if (is_constant(program_, extent, value) && value < 0)
      fail(program_, text("an extent of a tile cannot be negative, got ", value));
    check_index(extent, "an extent of a tile", true);
    if (!is_known_[static_cast<std::size_t>(extent)])
      fail(program_, "an extent of a tile must be computed from constants, dim() and tile_dim() only");
  }
}

void Builder::check_index(Id id, std::string_view what, bool is_single) const {
  if (program_[id].type != Type::s64)
    fail(program_, text(what, " must be of type s64, got ", to_string(program_[id].type), "; cast<std::int64_t>() it"));
  if (is_single && rank(id) != 0)
    fail(program_,
         text(what, " must be a single number, got a tile of shape ", shape_text(program_, program_[id].shape)));
}

Id Builder::iota(const Extents& shape, int axis) {
  check_shape(shape);
  return make({.code = Code::iota, .type = Type::s64, .axis = axis, .shape = shape});
}

Id Builder::load(int buffer, const std::vector<Id>& indices, Border border, std::vector<std::int64_t> steps) {
  const Buffer& from = program_.buffers[static_cast<std::size_t>(buffer)];
  if (indices.size() != from.dims.size())
    fail(program_, text(from.name, " has ", from.dims.size(), from.dims.size() == 1 ? " axis" : " axes", ", got ",
                        indices.size(), indices.size() == 1 ? " index" : " indices"));
  for (const Id id : indices) check_index(id, "an index", false);
  return make({.code = Code::load,
               .type = from.type,
               .border = border,
               .index = buffer,
               .operands = indices,
               .shape = broadcast_all(program_, indices),
               .list = std::move(steps)});
}

Id Builder::unary(Code code, Id a) {
  const Type type = result_type(program_, code, {{a}});
  std::int64_t value = 0;
  if (type == Type::s64 && is_constant(program_, a, value)) {
    std::int64_t result = 0;
    with_unary<std::int64_t>(code, [&](auto op) { result = op(value); });
    return index(result);
  }
  return make({.code = code, .type = type, .operands = {a}, .shape = program_[a].shape});
}

Id Builder::binary(Code code, Id a, Id b) {
  const Type type = result_type(program_, code, {{a, b}});
  if (program_[a].type == Type::s64 && rank(a) == 0 && rank(b) == 0) {
    if (const auto id = folded(code, a, b)) return *id;
    if (const auto id = simplified(code, a, b)) return *id;
  }
  return make({.code = code, .type = type, .operands = {a, b}, .shape = broadcast_all(program_, {{a, b}})});
}

std::optional<Id> Builder::folded(Code code, Id a, Id b) {
  std::int64_t x = 0;
  std::int64_t y = 0;
  if (!is_constant(program_, a, x) || !is_constant(program_, b, y)) return std::nullopt;
  std::int64_t result = 0;
  with_binary<std::int64_t>(code, [&](auto op) { result = op(x, y); });
  return integer(is_comparison(code) ? Type::boolean : Type::s64, result);
}

std::optional<Id> Builder::simplified(Code code, Id a, Id b) {
  std::int64_t value = -1;
  const bool is_swapped = !is_constant(program_, b, value) && is_constant(program_, a, value);
  const Id other = is_swapped ? b : a;
  const bool has_constant = is_swapped || program_[b].code == Code::constant;
  switch (code) {
    case Code::add:
      if (has_constant && value == 0) return other;
      break;
    case Code::sub:
      if (has_constant && !is_swapped && value == 0) return a;
      if (a == b) return index(0);
      break;
    case Code::mul:
      if (has_constant && value == 1) return other;
      if (has_constant && value == 0) return index(0);
      // block * tile_dim is where the tile begins.
      if (is_start(program_[a], program_[b]) || is_start(program_[b], program_[a])) return origin(program_[a].axis);
      break;
    case Code::div:
      if (has_constant && !is_swapped && value == 1) return a;
      break;
    case Code::min:
    case Code::max:
      if (a == b) return a;
      break;
    default:
      break;
  }
  return std::nullopt;
}

Id Builder::select(Id condition, Id yes, Id no) {
  const Type type = result_type(program_, Code::select, {{condition, yes, no}});
  std::int64_t truth = 0;
  if (is_constant(program_, condition, truth) && rank(yes) == 0 && rank(no) == 0) return truth != 0 ? yes : no;
  return make({.code = Code::select,
               .type = type,
               .operands = {condition, yes, no},
               .shape = broadcast_all(program_, {{condition, yes, no}})});
}

Id Builder::fma(Id a, Id b, Id c) {
  const Type type = result_type(program_, Code::fma, {{a, b, c}});
  return make({.code = Code::fma, .type = type, .operands = {a, b, c}, .shape = broadcast_all(program_, {{a, b, c}})});
}

Id Builder::convert(Code code, Type type, Id a) {
  if (program_[a].type == type) return a;
  return make({.code = code, .type = type, .operands = {a}, .shape = program_[a].shape});
}

Id Builder::broadcast(Id a, const Extents& shape) {
  check_shape(shape);
  if (is_same_shape(program_, program_[a].shape, shape)) return a;
  check_broadcasts_to(program_, program_[a].shape, shape);
  return make({.code = Code::broadcast, .type = program_[a].type, .operands = {a}, .shape = shape});
}

Id Builder::reshape(Id a, const Extents& shape) {
  check_shape(shape);
  const Op& op = program_[a];
  if (is_same_shape(program_, op.shape, shape)) return a;
  if (!is_same_size(program_, op.shape, shape))
    fail(program_, text("a tile of shape ", shape_text(program_, op.shape), " cannot be reshaped to ",
                        shape_text(program_, shape), ": they must always have the same number of elements"));
  return make({.code = Code::reshape, .type = op.type, .operands = {a}, .shape = shape});
}

Id Builder::transpose(Id a, const std::vector<std::int64_t>& axes) {
  const Op& op = program_[a];
  std::vector<std::int64_t> sorted = axes;
  std::ranges::sort(sorted);
  bool is_permutation = axes.size() == op.shape.size();
  for (std::size_t i = 0; is_permutation && i < sorted.size(); ++i)
    is_permutation = sorted[i] == static_cast<std::int64_t>(i);
  if (!is_permutation)
    fail(program_,
         text("transpose of a tile of shape ", shape_text(program_, op.shape), ": each axis must be listed once"));
  if (axes == sorted) return a;
  Extents shape;
  for (const std::int64_t axis : axes) shape.push_back(op.shape[static_cast<std::size_t>(axis)]);
  return make({.code = Code::transpose, .type = op.type, .operands = {a}, .shape = std::move(shape), .list = axes});
}

Id Builder::slice(Id a, const std::vector<Id>& start, const Extents& shape) {
  check_shape(shape);
  const Op& op = program_[a];
  if (start.size() != op.shape.size() || shape.size() != op.shape.size())
    fail(program_, text("slice of a tile of shape ", shape_text(program_, op.shape),
                        ": the start and the shape must have one entry for each axis"));
  std::vector<Id> operands = {a};
  for (const Id id : start) {
    check_index(id, "the start of a slice", true);
    operands.push_back(id);
  }
  return make({.code = Code::slice, .type = op.type, .operands = std::move(operands), .shape = shape});
}

Id Builder::pick(Id a, const std::vector<Id>& start, const Extents& extents, const std::vector<Id>& indices,
                 Border border, std::vector<std::int64_t> steps) {
  std::vector<Id> operands = {a};
  operands.insert(operands.end(), start.begin(), start.end());
  operands.insert(operands.end(), extents.begin(), extents.end());
  operands.insert(operands.end(), indices.begin(), indices.end());
  return make({.code = Code::pick,
               .type = program_[a].type,
               .border = border,
               .operands = std::move(operands),
               .shape = broadcast_all(program_, indices),
               .list = std::move(steps)});
}

Id Builder::reduce(Code code, Id a, int axis) {
  const Type type = result_type(program_, code, {{a}});
  const Id one = index(1);
  Extents shape = program_[a].shape;
  shape[static_cast<std::size_t>(axis)] = one;
  return make({.code = code, .type = type, .axis = axis, .operands = {a}, .shape = std::move(shape)});
}

Id Builder::mma(Id a, Id b, Id c) {
  const Type type = result_type(program_, Code::mma, {{a, b, c}});
  check_mma(program_, a, b, c);
  return make({.code = Code::mma, .type = type, .operands = {a, b, c}, .shape = program_[c].shape});
}

void Builder::begin_loop(Id count, const std::vector<Id>& initial) {
  check_index(count, "the count of a loop", true);
  open_.push_back({count, initial});
  program_.regions.push_back({.parent = region_});
  region_ = static_cast<int>(program_.regions.size()) - 1;
  std::vector<Id> arguments = {append({.code = Code::argument})};
  for (const Id id : initial) {
    arguments.push_back(append({.code = Code::argument,
                                .type = program_[id].type,
                                .index = static_cast<int>(arguments.size()),
                                .shape = Extents(program_[id].shape)}));
  }
  program_.regions[static_cast<std::size_t>(region_)].arguments = std::move(arguments);
}

std::vector<Id> Builder::end_loop(const std::vector<Id>& results) {
  const OpenLoop loop = open_.back();
  for (std::size_t i = 0; i < loop.initial.size(); ++i) {
    const Op& carried = program_[loop.initial[i]];
    const Op& next = program_[results[i]];
    if (carried.type != next.type || !is_same_shape(program_, carried.shape, next.shape))
      fail(program_, text("a loop carries a tile of ", value_text(program_, loop.initial[i]),
                          ", but its body returns one of ", value_text(program_, results[i])));
  }
  const int body = region_;
  program_.regions[static_cast<std::size_t>(body)].results = results;
  region_ = program_.regions[static_cast<std::size_t>(body)].parent;
  open_.pop_back();

  std::vector<Id> operands = {loop.count};
  operands.insert(operands.end(), loop.initial.begin(), loop.initial.end());
  const Id id = append({.code = Code::loop, .index = body, .operands = std::move(operands)});
  program_.regions[static_cast<std::size_t>(body)].loop = id;
  std::vector<Id> values;
  values.reserve(loop.initial.size());
  for (std::size_t i = 0; i < loop.initial.size(); ++i) {
    values.push_back(append({.code = Code::result,
                             .type = program_[loop.initial[i]].type,
                             .index = static_cast<int>(i),
                             .operands = {id},
                             .shape = Extents(program_[loop.initial[i]].shape)}));
  }
  return values;
}

void Builder::same_extent(SameExtent same) {
  if (std::ranges::find(program_.same_extents, same) == program_.same_extents.end())
    program_.same_extents.push_back(same);
}

Program Builder::store(Id value) && {
  const Extents shape = tile_shape();
  const Buffer& output = program_.buffers.front();
  if (program_[value].type != output.type)
    fail(program_, text("the output ", output.name, " is ", to_string(output.type), ", but the stored tile is ",
                        to_string(program_[value].type), ": cast<T>() it"));
  check_broadcasts_to(program_, program_[value].shape, shape);
  append({.code = Code::store, .type = output.type, .operands = {value}, .shape = shape});
  return std::move(program_);
}

}  // namespace tessera::ir
