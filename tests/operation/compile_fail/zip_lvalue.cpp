// An operation can be part of one other.
// Error: an operation can be used once: std::move(operation), or share its value with shared() to use it often
#include <tessera/operation.hpp>

using namespace tessera;

void use(DeviceOperation<Tensor<float>>& operation) {
#ifdef FIXED
  zip(std::move(operation), 3.0F).sync();
#else
  zip(operation, 3.0F).sync();
#endif
}
