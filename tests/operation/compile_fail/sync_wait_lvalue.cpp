// An operation can be waited for once.
// Error: sync_wait() consumes the operation: write sync_wait(std::move(operation))
#include <tessera/task.hpp>

using namespace tessera;

void use(DeviceOperation<Tensor<float>>& operation) {
#ifdef FIXED
  sync_wait(std::move(operation));
#else
  sync_wait(operation);
#endif
}
