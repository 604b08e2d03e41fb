#pragma once

#include <tessera/tessera.hpp>

namespace demo {

// The Mandelbrot set in colour, u8 [height, width, 4]: the demo's own kernel, compiled on its first call.
extern const tessera::tile::Kernel mandelbrot;

}  // namespace demo
