// What uses an operation up is called on one that is moved: timeout.
// Error: an operation is used up: write std::move(operation).timeout(
#include <tessera/operation.hpp>

using namespace tessera;

void use(DeviceOperation<Tensor<float>>& operation) {
#ifdef FIXED
  std::move(operation).timeout(std::chrono::seconds(1)).sync();
#else
  operation.timeout(std::chrono::seconds(1)).sync();
#endif
}
