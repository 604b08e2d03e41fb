// What uses an operation up is called on one that is moved: to_host.
// Error: an operation is used up: write std::move(operation).to_host(
#include <tessera/operation.hpp>

using namespace tessera;

void use(DeviceOperation<Tensor<float>>& operation) {
#ifdef FIXED
  std::move(operation).to_host().sync();
#else
  operation.to_host().sync();
#endif
}
