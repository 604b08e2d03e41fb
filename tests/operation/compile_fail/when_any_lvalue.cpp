// when_any() consumes its operations, so it needs std::move.
// Error: when_any() consumes the operations: write when_any(std::move(operations))
#include <tessera/operation.hpp>

using namespace tessera;

void use(std::vector<DeviceOperation<int>>& operations) {
#ifdef FIXED
  when_any(std::move(operations)).sync();
#else
  when_any(operations).sync();
#endif
}
