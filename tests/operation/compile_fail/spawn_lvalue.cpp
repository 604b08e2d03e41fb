// An operation can be spawned once.
// Error: spawn() consumes the operation: write spawn(std::move(operation))
#include <tessera/operation.hpp>

using namespace tessera;

void use(DeviceOperation<Tensor<float>>& operation) {
#ifdef FIXED
  spawn(std::move(operation));
#else
  spawn(operation);
#endif
}
