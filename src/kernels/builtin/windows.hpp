#pragma once

#include "kernels/kernel.hpp"

#include <vector>

namespace tessera::kernels {

// conv2d and pooling; part of linear_kernels().
std::vector<Kernel> window_kernels();

}  // namespace tessera::kernels
