// sync() consumes the operation, so it cannot be const.
// Error: this consumes the operation, which must not be const
#include <tessera/operation.hpp>

using namespace tessera;

void use(DeviceOperation<int>& operation) {
#ifdef FIXED
  std::move(operation).sync();
#else
  static_cast<const DeviceOperation<int>&>(operation).sync();
#endif
}
