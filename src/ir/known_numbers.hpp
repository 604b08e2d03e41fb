#pragma once

#include "core/inline_vector.hpp"
#include "ir/ir.hpp"
#include "ir/ranges.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

// Numbers that a launch knows before any code runs: values of rank 0 that are computed from constants, the extents of
// buffers and tiles, and scalars alone.
namespace tessera::ir {

// Whether each value is such a number.
std::vector<bool> known_at_launch(const Program& program);

// Evaluates such numbers as the interpreter does.
class KnownNumbers {
 public:
  KnownNumbers() = default;
  // Each of `wanted` must be known at launch.
  KnownNumbers(const Program& program, std::span<const Id> wanted);

  struct Number {
    std::int64_t value = 0;
    bool has_overflowed = false;  // a sum, difference or product of s64 on the way to it wrapped around
  };
  bool empty() const noexcept { return wanted_.empty(); }
  // The numbers in the order of `wanted`. `facts` must have dims and tile, and scalars if the program has any. Those
  // that are not integers or booleans are 0.
  using Numbers = core::InlineVector<Number, 16>;  // usual programs need no allocation
  Numbers evaluate(const Facts& facts) const;

 private:
  // One op. Results are stored as scalars are: the bits of a double for a float, else of an s64.
  struct Step {
    Code code = Code::constant;
    Type type = Type::s64;
    Type from = Type::s64;  // of its last operand
    int index = 0;          // dim: of all extents; tile_dim: the axis; scalar: its number
    std::array<int, 3> operands = {};
    std::uint64_t bits = 0;  // of a constant
  };
  struct Result {
    std::uint64_t bits = 0;
    bool has_overflowed = false;
  };
  static Step step_of(const Program& program, const Op& op);
  static std::uint64_t leaf(const Step& step, const Facts& facts);
  static Result computed(const Step& step, std::span<const Result> done);

  std::vector<Step> steps_;
  std::vector<int> wanted_;  // steps
};

}  // namespace tessera::ir
