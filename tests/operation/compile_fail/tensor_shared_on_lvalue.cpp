// shared() consumes the tensor, so it needs std::move.
// Error: a tensor has one owner: write std::move(tensor).shared()
#include <tessera/operation.hpp>

using namespace tessera;

void use(Tensor<float>& tensor) {
#ifdef FIXED
  std::move(tensor).shared()->shape();
#else
  tensor.shared()->shape();
#endif
}
