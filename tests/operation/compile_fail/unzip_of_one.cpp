// unzip() is for several values.
// Error: unzip() is for several values, as zip() gives them
#include <tessera/operation.hpp>

using namespace tessera;

void use() {
#ifdef FIXED
  auto [x, one] = zip(ones<float>({4}), 1).unzip();
#else
  ones<float>({4}).unzip();
#endif
}
