// What uses an operation up is called on one that is moved: shared.
// Error: an operation is used up: write std::move(operation).shared(
#include <tessera/operation.hpp>

using namespace tessera;

void use(DeviceOperation<Tensor<float>>& operation) {
#ifdef FIXED
  std::move(operation).shared().sync();
#else
  operation.shared().sync();
#endif
}
