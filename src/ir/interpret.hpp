#pragma once

#include "ir/ir.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace tessera::ir {

// Computes tiles [first, last) of the output, numbered in row-major order. This defines what the operations mean.
//
// buffers: the output, then the inputs. dims: of all buffers, one after the other. scalars: the bits of a double for a
// float, else of an s64. tile_extents: one for each axis of the output; 0 means the whole axis. Tiles at the edges are
// as large as the others: what they compute beyond the output is dropped. Throws what ExtentChecks does, and
// Errc::out_of_memory.
void interpret(const Program& program, std::span<std::byte* const> buffers, const std::int64_t* dims,
               const std::uint64_t* scalars, std::span<const std::int64_t> tile_extents, std::int64_t first,
               std::int64_t last);

}  // namespace tessera::ir
