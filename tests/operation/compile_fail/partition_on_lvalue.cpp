// partition() consumes the operation, so it needs std::move.
// Error: this consumes the operation: write std::move(operation).partition(
#include <tessera/operation.hpp>

using namespace tessera;

void use(DeviceOperation<Tensor<float>>& operation) {
#ifdef FIXED
  std::move(operation).partition({2}).sync();
#else
  operation.partition({2}).sync();
#endif
}
