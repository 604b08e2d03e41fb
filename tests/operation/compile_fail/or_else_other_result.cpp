// A function passed to or_else() with a value of another type.
// Error: the function passed to or_else() must return a value of the operation's type, or an operation with one
#include <tessera/operation.hpp>

using namespace tessera;

void use() {
#ifdef FIXED
  ones<float>({4}).or_else([](const Error&) { return zeros<float>({4}); }).sync();
#else
  ones<float>({4}).or_else([](const Error&) { return 2; }).sync();
#endif
}
