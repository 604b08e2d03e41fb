#pragma once

#include <tessera/tile.hpp>

#include "ir/builder.hpp"

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

// Shared by the functions of the tile language: the trace being recorded on this thread, and what Tiles mean in it.
namespace tessera::tile {

struct Context {
  std::uint64_t number;  // unique
  ir::Builder builder;
  ir::Id stored = ir::none;
};

// The trace of this thread; Errc::invalid_kernel if there is none.
Context& context();
ir::Builder& builder();
[[noreturn]] void fail(std::string_view what);  // "[kernel] what"

// Access to the internals of Tiles, Inputs and Outputs.
struct Access {
  static Tile tile(ir::Id id);
  static bool is_number(const Tile& tile) noexcept { return tile.trace_ == 0; }
  // The type of a value, or the default type of a plain number: s64, f32 or boolean.
  static ir::Type type(const Tile& tile);
  // The value; a plain number becomes a constant of this type.
  static ir::Id id(const Tile& tile, ir::Type type);
  static int buffer(const Input& input);
  static int buffer(const Output& output);

 private:
  static ir::Id constant(const Tile& number, ir::Type type);
  static void check(const Tile& tile);
};

// The type in which tiles are combined: that of the first that is not a plain number.
ir::Type common_type(std::initializer_list<const Tile*> tiles);
// The value in its own type.
ir::Id id_of(const Tile& tile);
// An integer, for an index, extent or count.
ir::Id index_id(const Index& index);
std::vector<ir::Id> index_ids(const Indices& indices);
// The axis 0…rank-1 of one that may count from the end. `what` is its owner in messages: "a tile of shape [3]".
int checked_axis(int axis, int rank, std::string_view what);

}  // namespace tessera::tile
