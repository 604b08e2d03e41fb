// What uses an operation up is called on one that is moved: unzip.
// Error: an operation is used up: write std::move(operation).unzip(
#include <tessera/operation.hpp>

using namespace tessera;

void use(DeviceOperation<std::tuple<int, float>>& both) {
#ifdef FIXED
  auto [a, b] = std::move(both).unzip();
#else
  auto [a, b] = both.unzip();
#endif
}
