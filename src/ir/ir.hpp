#pragma once

#include <tessera/border.hpp>
#include <tessera/dtype.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// The tile IR: what a kernel computes, from the point of view of one tile of its output.
//
// A *value* is a function from the points of a box (its shape) to elements. Nothing says where or whether it is stored:
// the compilers decide. The extents of a shape are values themselves (rank 0, s64): constants, dimensions of buffers,
// dimensions of the tile, and arithmetic of those; a negative one counts as 0. Values are numbered in the order in
// which they were made (a loop after its body), and hash-consed: the same operation on the same operands is the same
// value, so equal extents have equal ids.
//
// The interpreter (interpret.hpp) defines what every operation means.
namespace tessera::ir {

using tile::Border;

// Element types: those of buffers, and what comparisons give.
enum class Type : std::uint8_t { f32, f64, s32, s64, u32, u8, boolean };

constexpr Type type_of(DType dtype) noexcept { return static_cast<Type>(dtype); }
constexpr bool is_float(Type type) noexcept { return type == Type::f32 || type == Type::f64; }
constexpr bool is_signed(Type type) noexcept { return is_float(type) || type == Type::s32 || type == Type::s64; }
constexpr bool is_integer(Type type) noexcept { return !is_float(type) && type != Type::boolean; }
constexpr int bits_of(Type type) noexcept {  // in memory
  return type == Type::boolean ? 8 : static_cast<int>(size_of(static_cast<DType>(type))) * 8;
}
std::string_view to_string(Type type) noexcept;

using Id = std::int32_t;  // of a value
inline constexpr Id none = -1;

// clang-format off: what belongs together stands together
enum class Code : std::uint8_t {
  // Leaves.
  constant,  // rank 0; `number` of a float (an f32's is exact), else `integer` (a boolean's is 0 or 1)
  scalar,    // rank 0; the call's scalar number `index`
  dim,       // rank 0, s64; the extent of axis `axis` of buffer `index`
  tile_dim,  // rank 0, s64; the extent of the tile along axis `axis` of the output
  origin,    // rank 0, s64; where the tile begins along axis `axis` of the output
  block,     // rank 0, s64; the number of the tile along axis `axis`: origin / tile_dim
  argument,  // of a region: argument 0 is the loop's counter (rank 0, s64), the others are its carried values
  iota,      // s64; the point's coordinate along axis `axis` of the shape

  // Memory. operands: an index (s64) for each axis of buffer `index`, broadcast against each other. An index outside
  // the buffer follows `border`; with steps[axis] = s > 1 an axis is seen as groups of s elements and the border
  // applies to groups: clamp keeps index mod s. A buffer without elements reads as zero.
  load,

  // Of one operand, point by point.
  neg,     // integers wrap around
  abs,     // integers wrap around: abs of the least s32 is itself
  exp, log, sqrt, rsqrt, sin, cos, tanh, erf,  // floats
  floor, ceil, round,                          // floats; round: halves away from zero
  bit_not,                                     // integers; of a boolean: not

  // Of two operands of one type, point by point, broadcast against each other.
  add, sub, mul,               // integers wrap around
  div,                         // integers towards zero; by zero: 0; the least by -1 wraps around
  rem,                         // integers, the sign of the dividend; by zero: 0; floats as std::fmod
  min, max,                    // NaN if one is NaN
  pow,                         // floats as std::pow; integers wrap around, a negative exponent as of 1 / x^n towards zero
  bit_and, bit_or, bit_xor,    // integers and booleans
  shl, shr,                    // integers; by the amount mod the width; shr keeps the sign
  eq, ne, lt, le, gt, ge,      // give booleans; with NaN only ne is true

  // Of three.
  select,  // boolean, a, b
  fma,     // a * b + c: floats rounded once or twice, at the compiler's choice; integers wrap around

  // To `type`. Both saturate, and NaN becomes 0. convert: towards zero; nearest: to the nearest, halves away from zero.
  // To a float: as the hardware rounds. From boolean: 0 or 1; to boolean: not zero.
  convert, nearest,

  // Other points.
  broadcast,  // to the shape: aligned at the last axis, an extent of 1 is repeated
  reshape,    // the same elements in row-major order
  transpose,  // axis i of the result is axis list[i] of the operand
  slice,      // operands: value, then a start (rank 0, s64) for each axis; outside of the operand: zero
  // The value read as load reads a buffer, of which it is a part. operands: value; then for each axis of it where in
  // the buffer the part begins (rank 0, s64); then for each axis the buffer's extent (rank 0, s64); then an index for
  // each axis. What the border rule gives outside of the part is zero.
  pick,

  // Along `axis`, which stays with extent 1. Over no elements: sum 0, product 1, max and min the type's least and
  // greatest (∓infinity), argmax 0.
  reduce_sum, reduce_product,  // integers wrap around; floats in any order, many of them in blocks that f64 adds up
  reduce_max, reduce_min,      // NaN if one is NaN
  argmax,                      // s64; the first of the greatest; NaN is the greatest

  mma,  // a[…,m,k], b[…,k,n], c[…,m,n]: c + a * b

  loop,    // operands: count (rank 0, s64), then the initial carried values; runs region `index` count times; rank 0
  result,  // operand: a loop; its carried value number `index` at the end

  store,  // operand: what the tile of the output becomes; broadcast to the tile's shape. The last op of the program
};
// clang-format on
std::string_view to_string(Code code) noexcept;

struct Op {
  Code code = Code::constant;
  Type type = Type::s64;  // of the elements
  Border border = Border::zero;
  int axis = 0;
  int index = 0;
  double number = 0;
  std::int64_t integer = 0;
  int region = 0;  // where it stands
  std::vector<Id> operands = {};
  std::vector<Id> shape = {};           // extents, outermost first; each an id of a value of rank 0 and type s64
  std::vector<std::int64_t> list = {};  // transpose: the permutation; load, pick: steps (empty: all 1)

  friend bool operator==(const Op&, const Op&) = default;
};

struct Region {
  int parent = -1;
  Id loop = none;                  // whose body it is
  std::vector<Id> arguments = {};  // the counter, then the carried values
  std::vector<Id> ops = {};        // in order, with constants and the like where they were first used
  std::vector<Id> results = {};    // the next carried values
};

// A buffer as the program sees it. Buffer 0 is the output.
struct Buffer {
  std::string name;
  Type type = Type::f32;
  std::vector<std::int64_t> dims;  // known extents; -1: any, known when it runs
  int rank() const noexcept { return static_cast<int>(dims.size()); }
};

struct Scalar {
  std::string name;
  Type type = Type::f32;
};

// load_like of this axis of an input wants the same extent as of the output's axis, or so many times that: checked for
// every call.
struct SameExtent {
  int buffer = 0;
  int axis = 0;
  int output_axis = 0;
  std::int64_t factor = 1;
  friend bool operator==(const SameExtent&, const SameExtent&) = default;
};

// For a program that goes along a part of an axis: the part begins at the scalar number `begin` and is as long as the
// buffer `extent`, which has one axis and is never read. Of these axes all of the part is there.
struct Part {
  struct Axis {
    int buffer = 0;
    int axis = 0;
    friend bool operator==(const Axis&, const Axis&) = default;
  };
  int begin = -1;
  int extent = -1;
  std::vector<Axis> inside = {};
  friend bool operator==(const Part&, const Part&) = default;
};

struct Program;

// What a driver may do by a routine of its own instead of compiling the program, with the same results (floats: within
// the kernel's tolerance). The numbers are the routine's arguments.
//
// It may be the beginning of the program only: what the routine leaves in the output then goes through the epilogue,
// row by row. A row is what lies side by side along the last axis, of a convolution along the last two.
struct Idiom {
  std::string name;  // "matmul", "conv2d"; empty: none
  std::vector<std::int64_t> numbers = {};
  std::vector<int> inputs = {};                       // the routine's, among the buffers; empty: all, in order
  std::shared_ptr<const Program> epilogue = nullptr;  // of rank 1; null: there is none
  std::vector<int> epilogue_inputs = {};              // the buffers whose rows are its inputs; 0: what the routine left
};

struct Program {
  std::string name;
  std::vector<Buffer> buffers;
  std::vector<Scalar> scalars;
  std::vector<Op> ops;
  std::vector<Region> regions;  // 0 is the body
  std::vector<SameExtent> same_extents;
  std::vector<std::int64_t> tile;  // the tile's shape, one for each axis of the output, if the caller chose it
  std::vector<bool> whole;         // axes of the output that must not be cut, where it is known; empty: to be found out
  Idiom idiom;
  Part part = {};

  const Op& operator[](Id id) const { return ops[static_cast<std::size_t>(id)]; }
  const Region& body() const { return regions.front(); }
  Id stored() const { return ops[static_cast<std::size_t>(body().ops.back())].operands.front(); }
};

// The operands of a pick, and of a load where it has the same.
inline std::span<const Id> starts_of(const Op& pick) {
  return std::span(pick.operands).subspan(1, pick.operands.size() / 3);
}
inline std::span<const Id> extents_of(const Op& pick) {
  return std::span(pick.operands).subspan(1 + pick.operands.size() / 3, pick.operands.size() / 3);
}
inline std::span<const Id> indices_of(const Op& op) {
  return op.code == Code::pick ? std::span(op.operands).subspan(1 + 2 * (op.operands.size() / 3))
                               : std::span(op.operands);
}

// The value of a constant of an integer type; false if it is none.
inline bool is_constant(const Program& program, Id id, std::int64_t& value) noexcept {
  const Op& op = program[id];
  if (op.code != Code::constant || is_float(op.type)) return false;
  value = op.integer;
  return true;
}

// Checks the whole program; Errc::invalid_kernel that names the kernel and the culprit in the user's terms.
void verify(const Program& program);

// One op a line, regions indented:
//   kernel saxpy(out z: f32[?,?], x: f32[?,?], y: f32[?,?]; a: f32)
//     %4: f32[tile 0, tile 1] = load x[%2, %3]
std::string to_string(const Program& program);

}  // namespace tessera::ir
