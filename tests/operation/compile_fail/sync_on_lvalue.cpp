// What uses an operation up is called on one that is moved: sync.
// Error: an operation is used up: write std::move(operation).sync(
#include <tessera/operation.hpp>

using namespace tessera;

void use(DeviceOperation<Tensor<float>>& operation) {
#ifdef FIXED
  std::move(operation).sync();
#else
  operation.sync();
#endif
}
