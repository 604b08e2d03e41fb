#pragma once

#include "ir/ir.hpp"

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

// Interval analysis: which numbers an integer or boolean value of a program can be. The compilers decide by it how many
// bits a value needs and which bounds checks they can omit; launches compute extents and loop counts with it.
namespace tessera::ir {

// The numbers from low to high, both included.
struct Range {
  std::int64_t low = std::numeric_limits<std::int64_t>::min();
  std::int64_t high = std::numeric_limits<std::int64_t>::max();

  bool contains(const Range& other) const { return low <= other.low && other.high <= high; }
  bool is_signed() const { return low < 0; }
  bool is_exact() const { return low == high; }
  friend bool operator==(const Range&, const Range&) = default;
};

Range range_of(Type type);  // of integers and booleans; a float has the range of s64, which says nothing
Range join(const Range& a, const Range& b);

// The fewest bits of 8, 16, 32 and 64 that hold the range: as unsigned numbers if none is negative.
int bits_for(const Range& range);

// What is known about a program's leaves. With dims and scalars the ranges are those of one launch.
struct Facts {
  Range extents = {0, std::numeric_limits<std::int64_t>::max()};  // of every axis
  Range coordinates = {0, std::int64_t{1} << 60};  // of tiles and points: adding two of them never overflows
  const std::int64_t* dims = nullptr;              // of all buffers, one after the other
  const std::uint64_t* scalars = nullptr;          // the bits of a double for a float, else of an s64
  std::span<const std::int64_t> tile = {};         // the tile's extents, 0 for the whole axis; empty: unknown
};

// The range of each value, found in one pass. A value that may exceed its type wraps around, so it can be anything.
std::vector<Range> find_ranges(const Program& program, const Facts& facts = {});

// The range of one value of rank 0, by looking only at what it is computed from. A value with a shape has the range of
// its type.
Range find_range(const Program& program, Id id, const Facts& facts);

// Whether an extent may be negative in some launch. It then counts as 0.
bool may_be_negative(const Program& program, Id extent);

// The range of an op whose operands have the ranges that `of` returns: for analyses that know more about some values.
using RangeOf = std::function<Range(Id)>;
Range range_of_op(const Program& program, const Op& op, const Facts& facts, const RangeOf& of);

}  // namespace tessera::ir
