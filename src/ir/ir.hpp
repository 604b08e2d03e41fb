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
// A *value* is a function from the points of a box (its shape) to elements. The compilers decide where it is stored, if
// at all. The extents of a shape are values themselves (rank 0, s64): constants, dimensions of buffers, dimensions of
// the tile, and arithmetic on those; a negative one counts as 0, and one that overflows, or makes a tile too large, is
// an Error (extents.hpp). Values are numbered in the order in which they were made (a loop after its body), and
// hash-consed: the same operation on the same operands is the same value, so equal extents have equal ids.
//
// The interpreter (interpret.hpp) defines what every operation means.
namespace tessera::ir {

using tile::Border;

// Element types: those of buffers, and the result of comparisons.
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
  constant,  // rank 0; `number` for a float (exact for an f32), else `integer` (0 or 1 for a boolean)
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

  // One operand, pointwise.
  neg,     // integers wrap around
  abs,     // integers wrap around: abs of the least s32 is itself
  exp, log, sqrt, rsqrt, sin, cos, tanh, erf,  // floats
  floor, ceil, round,                          // floats; round: halves away from zero
  bit_not,                                     // integers; of a boolean: not

  // Two operands of one type, pointwise, broadcast against each other.
  add, sub, mul,               // integers wrap around
  div,                         // integers towards zero; by zero: 0; the least by -1 wraps around
  rem,                         // integers, the sign of the dividend; by zero: 0; floats as std::fmod
  min, max,                    // NaN if one is NaN
  pow,                         // floats as std::pow; integers wrap around, a negative exponent as of 1 / x^n towards zero
  bit_and, bit_or, bit_xor,    // integers and booleans
  shl, shr,                    // integers; by the amount mod the width; shr keeps the sign
  eq, ne, lt, le, gt, ge,      // return booleans; with NaN only ne is true

  // Three operands.
  select,  // boolean, a, b
  fma,     // a * b + c: floats rounded once or twice, at the compiler's choice; integers wrap around

  // To `type`. Both saturate, and NaN becomes 0. convert: towards zero; nearest: to the nearest, halves away from zero.
  // To a float: rounded as the hardware does. From boolean: 0 or 1; to boolean: whether it is not zero.
  convert, nearest,

  // Other points.
  broadcast,  // to the shape: aligned at the last axis, an extent of 1 is repeated
  reshape,    // the same elements in row-major order
  transpose,  // axis i of the result is axis list[i] of the operand
  slice,      // operands: value, then a start (rank 0, s64) for each axis; outside of the operand: zero
  // Reads the value as load reads a buffer, of which the value is a part. operands: value; then for each axis of it where in
  // the buffer the part begins (rank 0, s64); then for each axis the buffer's extent (rank 0, s64); then an index for
  // each axis. An element that the border rule reads outside of the part is zero.
  pick,

  // Along `axis`, which stays with extent 1. Over no elements: sum 0, product 1, max and min the type's least and
  // greatest (∓infinity), argmax 0.
  reduce_sum, reduce_product,  // integers wrap around; floats in any order, many of them in blocks that f64 adds up
  reduce_max, reduce_min,      // NaN if one is NaN
  argmax,                      // s64; the index of the first greatest element; NaN is the greatest

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
  int region = 0;  // that contains it
  std::vector<Id> operands = {};
  std::vector<Id> shape = {};           // extents, outermost first; each an id of a value of rank 0 and type s64
  std::vector<std::int64_t> list = {};  // transpose: the permutation; load, pick: steps (empty: all 1)

  friend bool operator==(const Op&, const Op&) = default;
};

struct Region {
  int parent = -1;
  Id loop = none;                  // the loop whose body it is
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

// This axis of an input must be as long as the output's axis, or `factor` times as long, because load_like reads it.
// Checked for every call.
struct SameExtent {
  int buffer = 0;
  int axis = 0;
  int output_axis = 0;
  std::int64_t factor = 1;
  friend bool operator==(const SameExtent&, const SameExtent&) = default;
};

// For a program that processes a part of an axis: the part begins at the scalar number `begin` and is as long as the
// buffer `extent`, which has one axis and is never read. Along the axes in `inside` the whole part is inside of the
// buffer.
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

// A routine that a driver may run instead of the compiled program, with the same results (floats: within the kernel's
// tolerance). The numbers are the routine's arguments.
//
// The routine may cover only the beginning of the program: then the epilogue is applied to what it left in the output,
// row by row. A row is the elements side by side along the last axis, or along the last two for a convolution.
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
  std::vector<bool> whole;  // axes of the output that must not be split, if known; empty: whole_axes() finds them
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

// The value of an integer or boolean constant; false if it is not one.
inline bool is_constant(const Program& program, Id id, std::int64_t& value) noexcept {
  const Op& op = program[id];
  if (op.code != Code::constant || is_float(op.type)) return false;
  value = op.integer;
  return true;
}

// Checks the whole program. Throws Errc::invalid_kernel, naming the kernel and the offending op.
void verify(const Program& program);

// One op a line, regions indented:
//   kernel saxpy(out z: f32[?,?], x: f32[?,?], y: f32[?,?]; a: f32)
//     %4: f32[tile 0, tile 1] = load x[%2, %3]
std::string to_string(const Program& program);

}  // namespace tessera::ir
