#pragma once

#include "ir/ir.hpp"
#include "ir/known_numbers.hpp"

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace tessera::ir {

// A tile of a value takes at most this much memory: a machine that overcommits memory would crash on a larger one
// instead of refusing it. Applies to the interpreter, and to shapes with a computed extent in all compiled code.
inline constexpr std::int64_t largest_tile_bytes = std::int64_t{1} << 33;
// No tile has more points than this, whatever its extents.
inline constexpr std::int64_t most_tile_points = std::int64_t{1} << 40;

// The shapes of a program that can be too large for a launch although all its buffers are not: those with a computed
// extent such as dim(0) * 1000, and those with axes of several buffers. Usual programs have none.
//
// The interpreter and every driver refuse the same launches, with the same Error, before any code runs.
class ExtentChecks {
 public:
  ExtentChecks() = default;
  // `tile`: the tile's extents, 0 for the whole axis.
  ExtentChecks(const Program& program, std::span<const std::int64_t> tile);

  bool empty() const noexcept { return shapes_.empty() && reshapes_.empty(); }
  // Throws, naming kernel, shape and extents:
  //   Errc::overflow        computing an extent overflows an s64
  //   Errc::out_of_memory   a tile would be too large
  //   Errc::shape_mismatch  a reshape would change the number of elements, since extents became negative
  // `dims`: the extents of all buffers. A device that counts points in 32 bits passes the most that it can count;
  // beyond that it is Errc::unsupported.
  void run(const Program& program, const std::int64_t* dims,
           std::int64_t most_points = std::numeric_limits<std::int64_t>::max()) const;

 private:
  struct Shape {
    Id value = none;
    std::size_t first = 0;  // of its extents among the numbers
    bool is_computed = false;
  };
  struct Reshape {
    Shape from;
    Shape to;
  };
  using Numbers = KnownNumbers::Numbers;
  Shape add(const Program& program, Id value, std::vector<Id>& wanted);
  static std::int64_t points(const Program& program, const Shape& shape, const Numbers& numbers);
  void check(const Program& program, const Shape& shape, const Numbers& numbers, const std::int64_t* dims,
             std::int64_t most_points) const;

  std::vector<std::int64_t> tile_;
  std::vector<Shape> shapes_;
  std::vector<Reshape> reshapes_;
  KnownNumbers numbers_;
};

}  // namespace tessera::ir
