// The function passed to then() takes the value.
// Error: the function passed to then() must take the operation's value, by value
#include <tessera/operation.hpp>

using namespace tessera;

void use() {
#ifdef FIXED
  value(1).then([](int x) { return value(x + 1); }).sync();
#else
  value(1).then([](Tensor<float> t) { return value(std::move(t)); }).sync();
#endif
}
