// sync_on() consumes the operation, so it needs std::move.
// Error: this consumes the operation: write std::move(operation).sync_on(
#include <tessera/operation.hpp>

using namespace tessera;

void use(DeviceOperation<Tensor<float>>& operation, const Stream& stream) {
#ifdef FIXED
  std::move(operation).sync_on(stream);
#else
  operation.sync_on(stream);
#endif
}
