// partition() consumes the tensor, so it needs std::move.
// Error: a tensor has one owner: write std::move(tensor).partition(
#include <tessera/operation.hpp>

using namespace tessera;

void use(Tensor<float>& tensor) {
#ifdef FIXED
  std::move(tensor).partition({2}).shape();
#else
  tensor.partition({2}).shape();
#endif
}
