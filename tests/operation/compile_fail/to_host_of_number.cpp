// to_host() needs a tensor.
// Error: to_host() needs a tensor: unzip() splits a tuple into its tensors
#include <tessera/operation.hpp>

using namespace tessera;

void use() {
#ifdef FIXED
  auto [x, one] = zip(ones<float>({4}), 1).unzip();
  std::move(x).to_host().sync();
#else
  zip(ones<float>({4}), 1).to_host().sync();
#endif
}
