#pragma once

#include "ir/ir.hpp"

#include <cstdint>

namespace tessera::fuzz {

// What is known of a value's elements, and with it how far two right implementations of a program may differ.
//
// Sums may be taken in any order and products fused with sums, so floats come in three kinds:
//   exact  multiples of `grain` below `bound`, few enough bits that no order of evaluation rounds
//   fixed  rounded, but the same way everywhere: the result of one correctly rounded operation on such numbers
//   loose  within `error` of each other; anything that jumps (comparisons, casts, floor) is not made of them
// Integers and booleans are always exact.
struct Known {
  enum class Kind : std::uint8_t { exact, fixed, loose };

  Kind kind = Kind::exact;
  double bound = 0;  // of the elements that are neither NaN nor infinite
  double grain = 1;
  double error = 0;
  bool may_be_nan = false;
  bool may_be_infinite = false;
  bool is_product = false;        // a sum with it may be fused, and then rounds once less
  bool is_zero_sign_sure = true;  // -0 or 0

  bool is_loose() const noexcept { return kind == Kind::loose; }
};

// One step of rounding, relative.
double epsilon(ir::Type type);
// The greatest element.
double greatest(ir::Type type);
// An integer with this bound, or any of its type.
Known known_integer(ir::Type type, double bound);

// Of floats, unless said otherwise. What would be loose must be tame: no infinities, and a bound that keeps errors
// small.
bool is_tame(const Known& a);
Known sum(ir::Type type, const Known& a, const Known& b);      // also a difference; integers too
Known product(ir::Type type, const Known& a, const Known& b);  // integers too
Known quotient(ir::Type type, const Known& a, const Known& b);
Known either(const Known& a, const Known& b);  // one or the other: select, min, max; integers too
Known fused(ir::Type type, const Known& a, const Known& b, const Known& c);
Known summed(ir::Type type, const Known& a, double count);  // in any order
Known dotted(ir::Type type, const Known& a, const Known& b, const Known& c, double count);
// Whether the result of such an operation would be loose, so that operands must be tame.
bool is_loosened_by_sum(const Known& a, const Known& b);

// A function with this greatest slope on the operand's range, and this greatest result.
Known function(ir::Type type, const Known& a, double slope, double bound);
Known converted(ir::Type from, ir::Type to, const Known& a);
// floor, ceil, round.
Known rounded(ir::Type type, const Known& a);

}  // namespace tessera::fuzz
