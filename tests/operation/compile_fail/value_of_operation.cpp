// An operation needs no value().
// Error: value() takes a value: this is an operation already
#include <tessera/operation.hpp>

using namespace tessera;

void use() {
#ifdef FIXED
  ones<float>({4}).sync();
#else
  value(ones<float>({4})).sync();
#endif
}
