// A function passed to inspect() that does not take the value.
// Error: the function passed to inspect() must take the operation's value, by const reference
#include <tessera/operation.hpp>

using namespace tessera;

void use() {
#ifdef FIXED
  ones<float>({4}).inspect([](const Tensor<float>&) {}).sync();
#else
  ones<float>({4}).inspect([](std::vector<float>) {}).sync();
#endif
}
