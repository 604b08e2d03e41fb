#pragma once

#include <tessera/tessera.hpp>

namespace demo {

// The Mandelbrot set in colours, u8 [height, width, 4]: a kernel of the demo's own, compiled when it is first called.
extern const tessera::tile::Kernel mandelbrot;

}  // namespace demo
