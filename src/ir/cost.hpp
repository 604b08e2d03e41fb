#pragma once

#include "ir/ir.hpp"

#include <cstdint>
#include <limits>
#include <span>

// How much work a program is: estimates by which the runtime decides where and in how many pieces it runs.
namespace tessera::ir {

// Roughly the cost of a byte that is read or written, in units of a copy: 1 for plain arithmetic, more for many
// operations a point and for loops of unknown length.
int weight(const Program& program);

// How many points the ops of a launch with these extents (of all buffers in turn) compute in total. `unlimited` if that
// does not follow from the extents alone, as for a loop whose count is a scalar of the call.
inline constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();
std::int64_t steps(const Program& program, std::span<const std::int64_t> dims);

// The cost of such a launch in bytes that a copy moves in about that time, or `unlimited`; `bytes` is what it reads and
// writes.
std::int64_t cost(const Program& program, std::span<const std::int64_t> dims, std::int64_t bytes);

}  // namespace tessera::ir
