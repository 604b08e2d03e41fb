// An operation can be waited for once.
// Error: an operation is used up: write sync_wait(std::move(operation))
#include <tessera/task.hpp>

using namespace tessera;

void use(DeviceOperation<Tensor<float>>& operation) {
#ifdef FIXED
  sync_wait(std::move(operation));
#else
  sync_wait(operation);
#endif
}
