// An operation can be a part of one other operation only.
// Error: an operation can be used once: pass std::move(operation), or share its value with shared()
#include <tessera/operation.hpp>

using namespace tessera;

void use(DeviceOperation<Tensor<float>>& operation) {
#ifdef FIXED
  zip(std::move(operation), 3.0F).sync();
#else
  zip(operation, 3.0F).sync();
#endif
}
