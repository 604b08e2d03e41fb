// timeout() consumes the operation, so it needs std::move.
// Error: this consumes the operation: write std::move(operation).timeout(
#include <tessera/operation.hpp>

using namespace tessera;

void use(DeviceOperation<Tensor<float>>& operation) {
#ifdef FIXED
  std::move(operation).timeout(std::chrono::seconds(1)).sync();
#else
  operation.timeout(std::chrono::seconds(1)).sync();
#endif
}
