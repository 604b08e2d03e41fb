// on() consumes the operation, so it needs std::move.
// Error: this consumes the operation: write std::move(operation).on(
#include <tessera/operation.hpp>

using namespace tessera;

void use(DeviceOperation<Tensor<float>>& operation, const Device& device) {
#ifdef FIXED
  std::move(operation).on(device).sync();
#else
  operation.on(device).sync();
#endif
}
