#include "core/text.hpp"
#include "tile/context.hpp"
#include "tile/trace.hpp"

#include <utility>

// Inputs, outputs and the scalars of a call.
namespace tessera::tile {

using core::text;
using ir::Code;

namespace {

const ir::Buffer& buffer_of(const auto& handle) {
  return builder().program().buffers[static_cast<std::size_t>(Access::buffer(handle))];
}

int axis_of(const ir::Buffer& buffer, int axis) { return checked_axis(axis, buffer.rank(), buffer.name); }

void check_count(const ir::Buffer& buffer, std::size_t given, std::string_view what) {
  if (given != buffer.dims.size())
    fail(text(buffer.name, " has ", buffer.rank(), buffer.rank() == 1 ? " axis" : " axes", ", got ", given, " ", what));
}

// start + 0, 1, … along the axis; the other extents are 1.
ir::Id count_from(ir::Id start, int rank, int axis, ir::Id extent) {
  ir::Builder& make = builder();
  ir::Extents shape(static_cast<std::size_t>(rank), rank == 1 ? extent : make.index(1));
  shape[static_cast<std::size_t>(axis)] = extent;
  const ir::Id counted = make.iota(shape, axis);
  std::int64_t known = -1;
  if (ir::is_constant(make.program(), start, known) && known == 0) return counted;
  return make.binary(Code::add, start, counted);
}

// The output index of each element of the tile along an axis, extended by `before` and `after`.
ir::Id output_index(const Output& z, int axis, int before = 0, int after = 0) {
  ir::Builder& make = builder();
  // One statement each: compilers differ in the order in which they evaluate arguments.
  const ir::Id offset = make.index(before);
  const ir::Id start = make.binary(Code::sub, make.origin(axis), offset);
  const ir::Id more = make.index(before + after);
  const ir::Id extent = make.binary(Code::add, make.tile_dim(axis), more);
  return count_from(start, z.rank(), axis, extent);
}

// The steps of a border rule that treats the last axis as groups of `step` elements.
std::vector<std::int64_t> steps_of(const ir::Buffer& buffer, int step) {
  if (step < 1) fail(text("the step must be at least 1, got ", step));
  if (step == 1 || buffer.rank() == 0) return {};
  std::vector<std::int64_t> steps(buffer.dims.size(), 1);
  steps.back() = step;
  return steps;
}

// The axis of the output that an axis of the input is aligned with.
int output_axis(const Input& x, const Output& z, int axis) { return axis + z.rank() - x.rank(); }

bool is_one(const ir::Buffer& buffer, int axis) { return buffer.dims[static_cast<std::size_t>(axis)] == 1; }

void check_aligned(const Input& x, const Output& z) {
  if (x.rank() > z.rank())
    fail(text(buffer_of(x).name, " has ", x.rank(), " axes, more than the ", z.rank(), " of ", buffer_of(z).name));
}

}  // namespace

DType Input::dtype() const { return static_cast<DType>(buffer_of(*this).type); }
int Input::rank() const { return buffer_of(*this).rank(); }
Index Input::dim(int axis) const {
  return Access::tile(builder().dim(Access::buffer(*this), axis_of(buffer_of(*this), axis)));
}

Tile Input::load(const Indices& extent, const Indices& coordinates, Border border) const {
  check_count(buffer_of(*this), extent.size(), "extents");
  check_count(buffer_of(*this), coordinates.size(), "coordinates");
  ir::Builder& make = builder();
  std::vector<ir::Id> indices;
  for (int axis = 0; axis < rank(); ++axis) {
    const ir::Id size = index_id(extent[static_cast<std::size_t>(axis)]);
    const ir::Id coordinate = index_id(coordinates[static_cast<std::size_t>(axis)]);
    // The builder simplifies block * tile_dim to the tile's origin.
    indices.push_back(count_from(make.binary(Code::mul, coordinate, size), rank(), axis, size));
  }
  return Access::tile(make.load(Access::buffer(*this), indices, border));
}

Tile Input::at(const Indices& indices, Border border, int step) const {
  return at_steps(*this, indices, border, steps_of(buffer_of(*this), step));
}

Tile at_steps(const Input& x, const Indices& indices, Border border, const std::vector<std::int64_t>& steps) {
  check_count(buffer_of(x), indices.size(), "indices");
  std::vector<ir::Id> ids;
  for (const Index& index : indices) ids.push_back(Access::id(index, ir::Type::s64));
  return Access::tile(builder().load(Access::buffer(x), ids, border, steps));
}

DType Output::dtype() const { return static_cast<DType>(buffer_of(*this).type); }
int Output::rank() const { return buffer_of(*this).rank(); }
Index Output::dim(int axis) const { return Access::tile(builder().dim(0, axis_of(buffer_of(*this), axis))); }
Index Output::tile_dim(int axis) const { return Access::tile(builder().tile_dim(axis_of(buffer_of(*this), axis))); }
Index Output::block(int axis) const { return Access::tile(builder().block(axis_of(buffer_of(*this), axis))); }
Tile Output::index(int axis, int before, int after) const {
  return Access::tile(output_index(*this, axis_of(buffer_of(*this), axis), before, after));
}

void Output::store(const Tile& value) const {
  const ir::Buffer& buffer = buffer_of(*this);
  if (context().stored != ir::none) fail(text(buffer.name, " is stored twice"));
  if (builder().is_in_loop()) fail(text(buffer.name, " is stored inside a loop: store the loop's result instead"));
  const ir::Type type = Access::is_number(value) ? buffer.type : Access::type(value);
  if (type != buffer.type)
    fail(
        text("the output is ", to_string(buffer.type), " but the stored value is ", to_string(type), ": cast<T>() it"));
  context().stored = Access::id(value, type);
  ir::check_broadcasts_to(builder().program(), builder()[context().stored].shape, builder().tile_shape());
}

Tile load_like(const Input& x, const Output& z) {
  check_aligned(x, z);
  ir::Builder& make = builder();
  const int buffer = Access::buffer(x);
  std::vector<ir::Id> indices;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const int aligned = output_axis(x, z, axis);
    // Where the output has an extent of 1 too, nothing is repeated: the tile has the same extent as for other shapes,
    // so that a kernel valid for those is valid for this one.
    if (is_one(buffer_of(x), axis) && !is_one(buffer_of(z), aligned)) {
      indices.push_back(make.index(0));
    } else {
      indices.push_back(output_index(z, aligned));
      make.same_extent({buffer, axis, aligned});
    }
  }
  const ir::Id loaded = make.load(buffer, indices, Border::zero);
  // Its rank must be the output's, even if all axes are repeated.
  if (make.rank(loaded) == z.rank()) return Access::tile(loaded);
  return Access::tile(make.broadcast(loaded, ir::Extents(static_cast<std::size_t>(z.rank()), make.index(1))));
}

Tile load_lines(const Input& x, const Output& z, int axis) {
  ir::Builder& make = builder();
  const int buffer = Access::buffer(x);
  std::vector<ir::Id> indices;
  for (int at = 0; at < x.rank(); ++at) {
    if (at == axis) {
      indices.push_back(count_from(make.index(0), x.rank(), at, make.dim(buffer, at)));
    } else {
      indices.push_back(output_index(z, at));
      make.same_extent({buffer, at, at});
    }
  }
  return Access::tile(make.load(buffer, indices, Border::zero));
}

Tile load_of_group(const Input& x, const Output& z, int step, int number) {
  ir::Builder& make = builder();
  const int buffer = Access::buffer(x);
  std::vector<ir::Id> indices;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const bool is_last = axis + 1 == x.rank();
    indices.push_back(output_index(z, axis));
    if (is_last) {
      const ir::Id group = make.binary(Code::mul, indices.back(), make.index(step));
      indices.back() = make.binary(Code::add, group, make.index(number));
    }
    make.same_extent({buffer, axis, axis, is_last ? step : 1});
  }
  return Access::tile(make.load(buffer, indices, Border::zero));
}

Tile load_channel(const Input& x, const Output& z, const Index& channel, Border border) {
  ir::Builder& make = builder();
  const int buffer = Access::buffer(x);
  std::vector<ir::Id> indices;
  for (int axis = 0; axis + 1 < x.rank(); ++axis) {
    indices.push_back(output_index(z, axis));
    make.same_extent({buffer, axis, axis});
  }
  indices.push_back(Access::id(channel, ir::Type::s64));
  return Access::tile(make.load(buffer, indices, border));
}

Tile gather(const Tile& x, const Indices& indices) {
  ir::Builder& make = builder();
  const ir::Id value = Access::id(x, Access::type(x));
  const ir::Extents extents = make[value].shape;
  if (indices.size() != extents.size())
    fail(text("a tile of rank ", extents.size(), " is read at ", indices.size(), " indices"));
  std::vector<ir::Id> ids;
  for (const Index& index : indices) ids.push_back(Access::id(index, ir::Type::s64));
  const std::vector<ir::Id> start(extents.size(), make.index(0));
  return Access::tile(make.pick(value, start, extents, ids, Border::zero));
}

Tile load_shifted(const Input& x, const Output& z, const Indices& offset, Border border, int step) {
  check_aligned(x, z);
  check_count(buffer_of(z), offset.size(), "offsets");
  ir::Builder& make = builder();
  const int buffer = Access::buffer(x);
  std::vector<ir::Id> indices;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const int aligned = output_axis(x, z, axis);
    const ir::Id by = index_id(offset[static_cast<std::size_t>(aligned)]);
    std::int64_t known = -1;
    const bool is_unmoved = ir::is_constant(make.program(), by, known) && known == 0;
    const ir::Id here = output_index(z, aligned);
    indices.push_back(is_unmoved ? here : make.binary(Code::add, here, by));
    make.same_extent({buffer, axis, aligned});
  }
  return Access::tile(make.load(buffer, indices, border, steps_of(buffer_of(x), step)));
}

Tile full_like(const Output& z, const Tile& number) {
  ir::Builder& make = builder();
  const ir::Id id = Access::id(number, buffer_of(z).type);
  if (make[id].type != buffer_of(z).type)
    fail(text("full_like needs ", to_string(buffer_of(z).type), ", got ", to_string(make[id].type), ": cast<T>() it"));
  return Access::tile(make.broadcast(id, make.tile_shape()));
}

}  // namespace tessera::tile
