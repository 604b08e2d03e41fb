// The function passed to map() takes ownership of the value.
// Error: the function passed to map() must take the operation's value, by value
#include <tessera/operation.hpp>

using namespace tessera;

void use() {
#ifdef FIXED
  ones<float>({4}).map([](Tensor<float> t) { return t.shape(); }).sync();
#else
  ones<float>({4}).map([](Tensor<float>& t) { return t.shape(); }).sync();
#endif
}
