#pragma once

#include "compile/cpu/llvm/range.hpp"
#include "ir/ir.hpp"

#include <vector>

namespace tessera::compile {

// In how many bits integers are computed: as few as their ranges and their users need, never more than their types
// have. Fewer bits are more lanes, and less memory for what is materialised.
//
// A sum, difference, product and the like are right in their lower bits if those of the operands are: they are computed
// in no more bits than anybody asks of them. Others (shifts to the right, comparisons, minimum) need their operands
// whole. s64, which are places as a rule, and values of rank 0 keep the bits of their types.
struct Widths {
  // multiplies_bytes: the processor has instructions for sums of products of bytes.
  Widths(const ir::Program& program, const std::vector<bool>& is_live, const std::vector<bool>& is_materialised,
         bool multiplies_bytes);

  std::vector<Range> ranges;
  std::vector<int> bits;  // by value; of a comparison, those that its operands are compared in. 0: nobody asks for it

  // (a * c) >> k as the upper half of a 16-bit product: of a and of the number c << (16 - k), or for k = 16 of any a
  // and b of 16 bits. a none: it is something else.
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
  // (a * 9798 + b * w - … + number) >> k of which only the sum needs 32 bits: processors multiply and add pairs of 16
  // bits. The result may be bounded, to what 16 bits hold. No terms: it is something else.
  struct ProductSum {
    struct Term {
      ir::Id value = ir::none;
      ir::Id weight = ir::none;  // of rank 0; none: the number
      std::int64_t factor = 1;
      bool is_negated = false;
    };
    std::vector<Term> terms;
    std::int64_t number = 0;
    std::int64_t shift = 0;
  };
  ProductSum product_sum(ir::Id id) const;
  // (a - 128) * v + (b - 128) * w + … + number of u8, of which the lower 16 bits are wanted, each factor at most 127:
  // processors multiply and add pairs of bytes, of which some have a sign. No terms: it is something else.
  struct ByteSum {
    struct Term {
      ir::Id value = ir::none;   // u8
      ir::Id weight = ir::none;  // of rank 0; none: the number
      std::int64_t factor = 1;
      std::int64_t offset = 0;  // is added to the value before that
    };
    std::vector<Term> terms;
    std::int64_t number = 0;
    ir::Id root = ir::none;
    int ops = 0;  // that were looked at
  };
  ByteSum byte_sum(ir::Id id) const;
  // What is asked when an element-wise value is computed: its operands, or of such a form what it comes down to.
  std::vector<ir::Id> operands_of(ir::Id id) const;

  // Whether a value is its operand, bit for bit: moved, or of another type that holds all its numbers.
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
  int computed_bits(ir::Id id, int asked) const;
  void ask_operands(ir::Id id, std::vector<int>& asked) const;
  bool is_shift_by_constant(const ir::Op& op) const;
  bool keeps_lower_bits(const ir::Op& op) const;

  const ir::Program& program_;
  const std::vector<bool>& is_materialised_;
  bool multiplies_bytes_;
};

}  // namespace tessera::compile
