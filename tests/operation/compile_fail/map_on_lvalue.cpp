// map() consumes the operation, so it needs std::move.
// Error: this consumes the operation: write std::move(operation).map(
#include <tessera/operation.hpp>

using namespace tessera;

void use(DeviceOperation<Tensor<float>>& operation) {
#ifdef FIXED
  std::move(operation).map([](Tensor<float> t) { return t.shape(); }).sync();
#else
  operation.map([](Tensor<float> t) { return t.shape(); }).sync();
#endif
}
