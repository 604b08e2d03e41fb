// when_all() consumes its operations, so it needs std::move.
// Error: when_all() consumes the operations: write when_all(std::move(operations))
#include <tessera/operation.hpp>

using namespace tessera;

void use(std::vector<DeviceOperation<int>>& operations) {
#ifdef FIXED
  when_all(std::move(operations)).sync();
#else
  when_all(operations).sync();
#endif
}
