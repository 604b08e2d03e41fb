// A function passed to or_else() that does not take the error.
// Error: the function passed to or_else() must take a const Error&
#include <tessera/operation.hpp>

using namespace tessera;

void use() {
#ifdef FIXED
  value(1).or_else([](const Error&) { return 2; }).sync();
#else
  value(1).or_else([] { return 2; }).sync();
#endif
}
