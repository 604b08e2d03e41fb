// A tensor has one owner: an operation takes ownership of it.
// Error: an owned tensor can be used once: pass std::move(tensor), or share it
#include <tessera/operation.hpp>

using namespace tessera;

void use(Tensor<float>& t) {
#ifdef FIXED
  value(std::move(t)).sync();
#else
  value(t).sync();
#endif
}
