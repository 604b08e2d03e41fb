// What uses an operation up is called on one that is moved: on.
// Error: an operation is used up: write std::move(operation).on(
#include <tessera/operation.hpp>

using namespace tessera;

void use(DeviceOperation<Tensor<float>>& operation, const Device& device) {
#ifdef FIXED
  std::move(operation).on(device).sync();
#else
  operation.on(device).sync();
#endif
}
