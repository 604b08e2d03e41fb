// What uses an operation up is called on one that is moved: sync_on.
// Error: an operation is used up: write std::move(operation).sync_on(
#include <tessera/operation.hpp>

using namespace tessera;

void use(DeviceOperation<Tensor<float>>& operation, const Stream& stream) {
#ifdef FIXED
  std::move(operation).sync_on(stream);
#else
  operation.sync_on(stream);
#endif
}
