// An operation can be spawned once.
// Error: an operation is used up by spawning it: write spawn(std::move(operation))
#include <tessera/operation.hpp>

using namespace tessera;

void use(DeviceOperation<Tensor<float>>& operation) {
#ifdef FIXED
  spawn(std::move(operation));
#else
  spawn(operation);
#endif
}
