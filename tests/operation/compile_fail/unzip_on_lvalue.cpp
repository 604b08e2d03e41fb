// unzip() consumes the operation, so it needs std::move.
// Error: this consumes the operation: write std::move(operation).unzip(
#include <tessera/operation.hpp>

using namespace tessera;

void use(DeviceOperation<std::tuple<int, float>>& both) {
#ifdef FIXED
  auto [a, b] = std::move(both).unzip();
#else
  auto [a, b] = both.unzip();
#endif
}
