// What uses an operation up is called on one that is moved: map.
// Error: an operation is used up: write std::move(operation).map(
#include <tessera/operation.hpp>

using namespace tessera;

void use(DeviceOperation<Tensor<float>>& operation) {
#ifdef FIXED
  std::move(operation).map([](Tensor<float> t) { return t.shape(); }).sync();
#else
  operation.map([](Tensor<float> t) { return t.shape(); }).sync();
#endif
}
