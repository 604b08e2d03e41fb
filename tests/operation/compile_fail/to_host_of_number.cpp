// to_host() is for tensors.
// Error: to_host() is for a tensor: unzip() takes the tensors out of several values
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
