// A tensor has one owner: it cannot be given to two.
// Error: an owned tensor can be used once: std::move(tensor) into the operation
#include <tessera/operation.hpp>

using namespace tessera;

void use(Tensor<float>& t) {
#ifdef FIXED
  const std::shared_ptr<const Tensor<float>> shared = std::move(t).shared();
  zip(shared, shared).sync();
#else
  zip(t, t).sync();
#endif
}
