// The last stage of a tile, which stores the output.
#include "compile/cpu/llvm/emitter.hpp"
#include "compile/cpu/llvm/stage.hpp"
#include "ir/analysis.hpp"

#include <algorithm>

namespace tessera::compile::cpu {

using ir::Code;
using ir::Id;
using llvm::Value;

int Emitter::vectors_for(int cost) const {
  // Enough to keep the execution units busy, few enough to keep code and register use small.
  const int vectors = analysis_.has_gather || cost > 24 ? 1 : cost > 8 ? 2 : 4;
  return are_lanes_doubled_ ? std::max(1, vectors / 2) : vectors;
}

// Whether the operations of a point depend on each other in so long a chain that the processor, which looks about 250
// instructions ahead, does not reach the next points early enough: it would mostly wait. One of 128 multiplications of
// 4 Mi floats took 165 µs; with four vectors side by side it takes 70, with eight 51.
bool Emitter::is_long_chain() const {
  constexpr int short_enough = 24;
  return !are_lanes_doubled_ && !has_stages() && program_.regions.size() == 1 && analysis_.cost > short_enough &&
         2 * analysis_.cost <= 3 * analysis_.depth;
}

// The extents of the tile's part that is inside of the output.
std::vector<Value*> Emitter::stored_extents() {
  std::vector<Value*> extents;
  for (std::size_t axis = 0; axis < tile_dims_.size(); ++axis) {
    Value* extent = tile_dims_[axis];
    if (!analysis_.is_clipped[axis] && tiling_.extents[axis] != 0) {
      Value* left = b_.CreateSub(dim(0, static_cast<int>(axis)), origins_[axis]);
      extent = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, extent, left);
    }
    extents.push_back(extent);
  }
  return extents;
}

// Where a point of the tile is in the output.
Emitter::Lanes Emitter::output_offset(const Point& point) {
  Values indices;
  for (std::size_t axis = 0; axis < point.size(); ++axis) {
    indices.push_back(add_indices(uniform(origins_[axis]), point[axis]));
  }
  return offset_of(indices, dims_[0]);
}

// The stored value at points of the tile, to which it is broadcast.
Emitter::Values Emitter::stored_values(const Points& points) {
  const Id value = program_.stored();
  const std::vector<Id>& shape = program_[value].shape;
  Points broadcast;
  for (const Point& point : points) {
    Point at;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      std::int64_t extent = 0;
      const bool is_repeated = ir::is_constant(program_, shape[axis], extent) && extent == 1;
      at.push_back(is_repeated ? uniform(i64(0)) : point[point.size() - shape.size() + axis]);
    }
    broadcast.push_back(at);
  }
  return eval(value, broadcast);
}

// How many points the loop that stores the output computes at a time.
void Emitter::choose_store_shape(Stage& stage) {
  const Id value = program_.stored();
  stage.root = program_[value].shape.size() == tile_dims_.size() ? value : ir::none;
  stage.vectors = vectors_for(analysis_.cost);
  is_chain_ = is_long_chain();
  if (is_chain_) stage.vectors = 8;
  if (stage.root != ir::none) stage.rows = rows_for(value);
  // A point of an input that may be the output is read once, before it is written.
  stage.can_repeat = !streaming_ && std::ranges::none_of(program_.ops, [&](const ir::Op& op) {
    return op.code == Code::load && ir::reads_in_place(program_, op.index);
  });
  if (analysis_.has_mma) {  // sums for 12 vectors of 16 registers, or 24 of 32
    stage.vectors = 2;
    stage.rows = host_.vector_registers >= 32 ? 12 : 6;
  }
}

void Emitter::emit_store() {
  const Id value = program_.stored();
  const ir::Type type = program_.buffers[0].type;
  use_lanes(analysis_.lane_bits_of(value), ir::bits_of(type));
  const std::vector<Value*> extents = stored_extents();
  Stage stage;
  choose_store_shape(stage);
  stage.compute = [&](const Points& points) { return stored_values(points); };
  if (streaming_) {
    stage.alignment = [&](const Point& row) {
      const auto bytes = static_cast<std::int64_t>(natural_lanes_ * ir::bits_of(type) / 8);
      Value* address = b_.CreatePtrToInt(
          b_.CreateInBoundsGEP(math_.memory_type(type), buffers_[0], output_offset(row).base), b_.getInt64Ty());
      return b_.CreateUDiv(b_.CreateAnd(b_.CreateNeg(address), i64(bytes - 1)), i64(ir::bits_of(type) / 8));
    };
  }
  if (const int channels = channels_of_pixels()) {
    // As many lanes as a register has words: a pixel of bytes is a word.
    if (type == ir::Type::u8 && channels > 1) natural_lanes_ = static_cast<int>(host_.vector_bits) / 32;
    stage.channels = channels;
    row_from_end_ = 2;
    stage.vectors = stage.rows = 1;
    is_chain_ = false;
    stage.body = [&](const Points& points) {
      Values planes;
      for (const Lanes& plane : stored_values(points)) planes.push_back(resized(value, plane, ir::bits_of(type)));
      store_pixels(type, output_offset(points[0]), planes);
    };
  }
  stage.keep = [&](const Point& point, const Lanes& computed) {
    const Lanes at = output_offset(point);
    store_at(buffers_[0], type, at, resized(value, computed, ir::bits_of(type)), streaming_ && lanes_ > 1);
    Value* ahead = streaming_ ? nullptr : bytes_ahead(0);
    if (ahead) prefetch({buffers_[0], at.base, 0, math_.memory_type(type), ahead, true});
    if (!streaming_ && lanes_ > 1) prefetch_next_tile(point);
  };
  emit_nest(extents, stage);
  row_from_end_ = 1;
}

}  // namespace tessera::compile::cpu
