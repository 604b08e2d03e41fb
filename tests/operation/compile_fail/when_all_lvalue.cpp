// Operations are moved into when_all.
// Error: operations are used up: write when_all(std::move(operations))
#include <tessera/operation.hpp>

using namespace tessera;

void use(std::vector<DeviceOperation<int>>& operations) {
#ifdef FIXED
  when_all(std::move(operations)).sync();
#else
  when_all(operations).sync();
#endif
}
