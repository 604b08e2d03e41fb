#pragma once

#include "ir/ir.hpp"
#include "ir/ranges.hpp"

#include <vector>

namespace tessera::compile::cpu {

using ir::bits_for;
using ir::join;
using ir::Range;
using ir::range_of;

// How many bits each integer is computed in: as few as its range and its users need, never more than its type has.
// Fewer bits mean more lanes, and less memory for materialised values.
//
// The lower bits of a sum, difference, product and the like only depend on the lower bits of the operands: they are
// computed in no more bits than their users need. Other operations (right shifts, comparisons, minimum) need all bits
// of their operands. s64, which are mostly indices, and values of rank 0 are computed in the bits of their types.
struct Widths {
  // multiplies_bytes: the processor has instructions for sums of products of bytes.
  Widths(const ir::Program& program, const std::vector<bool>& is_live, const std::vector<bool>& is_materialised,
         bool multiplies_bytes);

  std::vector<Range> ranges;
  std::vector<int> bits;  // by value; for a comparison, those of its operands. 0: the value is unused

  // (a * c) >> k as the upper half of a 16-bit product: of a and the constant c << (16 - k), or for k = 16 of any a and
  // b of 16 bits. a is none: it has another form.
  struct HighProduct {
    ir::Id a = ir::none;
    ir::Id b = ir::none;  // none: the constant
    std::int64_t constant = 0;
    bool is_signed = false;
  };
  HighProduct high_product(ir::Id id) const;
  // (a + b + 1) >> 1, in the bits of a and b.
  struct Average {
    ir::Id a = ir::none;
    ir::Id b = ir::none;
  };
  Average average(ir::Id id) const;
  // (a * 9798 + b * w - … + number) >> k, of which only the sum needs 32 bits: processors multiply and add pairs of 16
  // bits. The result may be clamped to 16 bits. No terms: it has another form.
  struct ProductSum {
    struct Term {
      ir::Id value = ir::none;
      ir::Id weight = ir::none;  // of rank 0; none: the factor
      std::int64_t factor = 1;
      bool is_negated = false;
    };
    std::vector<Term> terms;
    std::int64_t number = 0;
    std::int64_t shift = 0;
  };
  ProductSum product_sum(ir::Id id) const;
  // (a - 128) * v + (b - 128) * w + … + number, with u8 values and factors of at most 127, of which the lower 16 bits
  // are needed: processors multiply and add pairs of bytes, one of which is signed. No terms: it has another form.
  struct ByteSum {
    struct Term {
      ir::Id value = ir::none;   // u8
      ir::Id weight = ir::none;  // of rank 0; none: the factor
      std::int64_t factor = 1;
      std::int64_t offset = 0;  // is added to the value first
    };
    std::vector<Term> terms;
    std::int64_t number = 0;
    ir::Id root = ir::none;
    int ops = 0;  // visited so far
  };
  ByteSum byte_sum(ir::Id id) const;
  // The values that an element-wise value is computed from: its operands, or those of the form above that it has.
  std::vector<ir::Id> operands_of(ir::Id id) const;

  // Whether a value is its operand bit for bit: moved, or converted to a type that holds all its numbers.
  bool passes_on(ir::Id id) const;
  // Whether it may have fewer bits than its type.
  bool is_narrow(ir::Id id) const;
  const Range& range(ir::Id id) const { return ranges[static_cast<std::size_t>(id)]; }
  Range range_of_operands(const ir::Op& op) const;

 private:
  int whole(ir::Id id) const;
  ir::Id without_bounds(ir::Id id) const;
  bool add_to(ProductSum& sum, ir::Id id, bool is_negated) const;
  ir::Id without_conversions(ir::Id id) const;
  bool add_to(ByteSum& sum, ir::Id id, const ByteSum::Term& factor) const;
  int computed_bits(ir::Id id, int required) const;
  void require_of_operands(ir::Id id, std::vector<int>& required) const;
  bool is_shift_by_constant(const ir::Op& op) const;
  bool keeps_lower_bits(const ir::Op& op) const;

  const ir::Program& program_;
  const std::vector<bool>& is_materialised_;
  bool multiplies_bytes_;
};

}  // namespace tessera::compile::cpu
