// Groups of kernels that are not there yet.
#include "kernels/kernel.hpp"

namespace tessera::kernels {

std::vector<Kernel> image_filter_kernels() { return {}; }
std::vector<Kernel> image_color_kernels() { return {}; }
std::vector<Kernel> image_geometry_kernels() { return {}; }

}  // namespace tessera::kernels
