// What uses an operation up is called on one that is moved: partition.
// Error: an operation is used up: write std::move(operation).partition(
#include <tessera/operation.hpp>

using namespace tessera;

void use(DeviceOperation<Tensor<float>>& operation) {
#ifdef FIXED
  std::move(operation).partition({2}).sync();
#else
  operation.partition({2}).sync();
#endif
}
