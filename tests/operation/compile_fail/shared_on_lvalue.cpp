// shared() consumes the operation, so it needs std::move.
// Error: this consumes the operation: write std::move(operation).shared(
#include <tessera/operation.hpp>

using namespace tessera;

void use(DeviceOperation<Tensor<float>>& operation) {
#ifdef FIXED
  std::move(operation).shared().sync();
#else
  operation.shared().sync();
#endif
}
