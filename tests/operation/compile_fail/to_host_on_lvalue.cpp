// to_host() consumes the operation, so it needs std::move.
// Error: this consumes the operation: write std::move(operation).to_host(
#include <tessera/operation.hpp>

using namespace tessera;

void use(DeviceOperation<Tensor<float>>& operation) {
#ifdef FIXED
  std::move(operation).to_host().sync();
#else
  operation.to_host().sync();
#endif
}
