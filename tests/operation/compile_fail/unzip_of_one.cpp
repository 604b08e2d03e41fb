// unzip() needs a tuple.
// Error: unzip() needs a std::tuple of values, such as zip() returns
#include <tessera/operation.hpp>

using namespace tessera;

void use() {
#ifdef FIXED
  auto [x, one] = zip(ones<float>({4}), 1).unzip();
#else
  ones<float>({4}).unzip();
#endif
}
