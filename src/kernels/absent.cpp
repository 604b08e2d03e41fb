// Groups of kernels that are not there yet.
#include <tessera/error.hpp>

#include "core/text.hpp"
#include "kernels/kernel.hpp"

namespace tessera::kernels {

std::vector<Kernel> image_filter_kernels() { return {}; }
std::vector<Kernel> image_color_kernels() { return {}; }
std::vector<Kernel> image_geometry_kernels() { return {}; }

Kernel from_text(std::string_view name, std::vector<std::string>, std::string_view, const Params&) {
  throw Error(Errc::unsupported, core::text("[", name, "] kernels from text are not there yet"));
}

}  // namespace tessera::kernels
