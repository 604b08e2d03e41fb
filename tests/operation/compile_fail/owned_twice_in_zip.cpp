// A tensor has one owner: it cannot be passed twice.
// Error: an owned tensor can be used once: pass std::move(tensor), or share it
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
