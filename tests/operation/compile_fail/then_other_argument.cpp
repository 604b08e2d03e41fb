// The function of then() takes the value.
// Error: the function of then() is called with the value of the operation, by value
#include <tessera/operation.hpp>

using namespace tessera;

void use() {
#ifdef FIXED
  value(1).then([](int x) { return value(x + 1); }).sync();
#else
  value(1).then([](Tensor<float> t) { return value(std::move(t)); }).sync();
#endif
}
