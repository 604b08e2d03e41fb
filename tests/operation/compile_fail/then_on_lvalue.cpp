// What uses an operation up is called on one that is moved: then.
// Error: an operation is used up: write std::move(operation).then(
#include <tessera/operation.hpp>

using namespace tessera;

void use(DeviceOperation<Tensor<float>>& operation) {
#ifdef FIXED
  std::move(operation).then([](Tensor<float> t) { return value(std::move(t)); }).sync();
#else
  operation.then([](Tensor<float> t) { return value(std::move(t)); }).sync();
#endif
}
