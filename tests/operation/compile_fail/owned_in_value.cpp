// A tensor has one owner: an operation takes it over.
// Error: an owned tensor can be used once: std::move(tensor) into the operation
#include <tessera/operation.hpp>

using namespace tessera;

void use(Tensor<float>& t) {
#ifdef FIXED
  value(std::move(t)).sync();
#else
  value(t).sync();
#endif
}
