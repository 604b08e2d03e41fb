// An operation that is used up is not const.
// Error: an operation is used up, so it cannot be const
#include <tessera/operation.hpp>

using namespace tessera;

void use(DeviceOperation<int>& operation) {
#ifdef FIXED
  std::move(operation).sync();
#else
  static_cast<const DeviceOperation<int>&>(operation).sync();
#endif
}
