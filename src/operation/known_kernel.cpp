#include "operation/known_kernel.hpp"

#include <tessera/tile.hpp>

namespace tessera::detail {

const KnownKernel& known_kernel(const tile::Kernel& kernel) { return operation::to_known(kernels::of(kernel)); }

}  // namespace tessera::detail
