// An operation gives its value away: the function of map() takes it over.
// Error: the function of map() is called with the value of the operation, by value
#include <tessera/operation.hpp>

using namespace tessera;

void use() {
#ifdef FIXED
  ones<float>({4}).map([](Tensor<float> t) { return t.shape(); }).sync();
#else
  ones<float>({4}).map([](Tensor<float>& t) { return t.shape(); }).sync();
#endif
}
