#pragma once

#include "kernels/kernel.hpp"

#include <vector>

namespace tessera::kernels {

// conv2d and the poolings, which linear_kernels() hands on.
std::vector<Kernel> window_kernels();

}  // namespace tessera::kernels
