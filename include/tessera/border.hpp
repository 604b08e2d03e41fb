#pragma once

#include <cstdint>

namespace tessera::tile {

// What a read outside a buffer returns.
enum class Border : std::uint8_t {
  zero,     // 0
  clamp,    // the nearest element: a a | a b c d | d d
  reflect,  // mirrored at the outermost element: c b | a b c d | c b
  wrap,     // from the other end: c d | a b c d | a b
};

}  // namespace tessera::tile
