// then() goes on with an operation; map() is for functions that make values.
// Error: the function of then() returns an operation: value(x), or map() for a host function
#include <tessera/operation.hpp>

using namespace tessera;

void use() {
#ifdef FIXED
  value(1).then([](int x) { return value(x + 1); }).sync();
#else
  value(1).then([](int x) { return x + 1; }).sync();
#endif
}
