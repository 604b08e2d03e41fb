#pragma once

#include "ir/ir.hpp"

#include <cstdint>
#include <vector>

namespace tessera::compile {

// The numbers that an integer or boolean value can be: low … high, both included.
struct Range {
  std::int64_t low = 0;
  std::int64_t high = 0;

  bool contains(const Range& other) const { return low <= other.low && other.high <= high; }
  bool is_signed() const { return low < 0; }
  friend bool operator==(const Range&, const Range&) = default;
};

Range join(const Range& a, const Range& b);
Range range_of(ir::Type type);  // of integers and booleans

// The fewest bits of 8, 16, 32, 64 that all these numbers fit: as unsigned ones if there are no negative ones.
int bits_for(const Range& range);

// What can be said of every value of a program without running it, by one pass over it. Of floats: nothing.
std::vector<Range> find_ranges(const ir::Program& program);

}  // namespace tessera::compile
