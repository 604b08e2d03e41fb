// then() continues with an operation; map() is for functions that return values.
// Error: the function passed to then() must return an operation: return value(x), or use map()
#include <tessera/operation.hpp>

using namespace tessera;

void use() {
#ifdef FIXED
  value(1).then([](int x) { return value(x + 1); }).sync();
#else
  value(1).then([](int x) { return x + 1; }).sync();
#endif
}
