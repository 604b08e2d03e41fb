#pragma once

#include <cstdint>

namespace tessera::tile {

// What a read outside a buffer returns.
enum class Border : std::uint8_t {
  zero,       // 0
  clamp,      // the nearest element: a a | a b c d | d d
  reflect,    // mirrored at the outermost element: c b | a b c d | c b (reflect_101 of the filters and of OpenCV)
  wrap,       // from the other end: c d | a b c d | a b
  symmetric,  // mirrored beyond the outermost element: b a | a b c d | d c (reflect of the filters and of OpenCV)
};

}  // namespace tessera::tile
