#pragma once

#include <tessera/tile.hpp>

#include "ir/builder.hpp"

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

// What the functions of the tile language share: the trace of this thread, and what Tiles are in it.
namespace tessera::tile {

struct Context {
  std::uint64_t number;  // tells traces apart
  ir::Builder builder;
  ir::Id stored = ir::none;
};

// The trace of this thread; Errc::invalid_kernel if there is none.
Context& context();
ir::Builder& builder();
[[noreturn]] void fail(std::string_view what);  // "[kernel] what"

// The only one who looks into Tiles, Inputs and Outputs.
struct Access {
  static Tile tile(ir::Id id);
  static bool is_number(const Tile& tile) noexcept { return tile.trace_ == 0; }
  // The type of a value, or that which a number has on its own: s64, f32 or boolean.
  static ir::Type type(const Tile& tile);
  // The value; a number becomes one of the type.
  static ir::Id id(const Tile& tile, ir::Type type);
  static int buffer(const Input& input);
  static int buffer(const Output& output);

 private:
  static ir::Id constant(const Tile& number, ir::Type type);
  static void check(const Tile& tile);
};

// The type in which tiles meet: that of the first that is no number.
ir::Type common_type(std::initializer_list<const Tile*> tiles);
// Of its own type.
ir::Id id_of(const Tile& tile);
// A whole number for an index, an extent, a count.
ir::Id index_id(const Index& index);
std::vector<ir::Id> index_ids(const Indices& indices);
// 0…rank-1 of an axis that may be negative; `what` has the axis: "a tile of shape [3]".
int checked_axis(int axis, int rank, std::string_view what);

}  // namespace tessera::tile
