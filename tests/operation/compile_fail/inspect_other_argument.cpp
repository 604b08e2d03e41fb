// A function of inspect that does not take the value.
// Error: the function of inspect() is called with the value of the operation, as const&
#include <tessera/operation.hpp>

using namespace tessera;

void use() {
#ifdef FIXED
  ones<float>({4}).inspect([](const Tensor<float>&) {}).sync();
#else
  ones<float>({4}).inspect([](std::vector<float>) {}).sync();
#endif
}
