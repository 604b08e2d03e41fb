// then() consumes the operation, so it needs std::move.
// Error: this consumes the operation: write std::move(operation).then(
#include <tessera/operation.hpp>

using namespace tessera;

void use(DeviceOperation<Tensor<float>>& operation) {
#ifdef FIXED
  std::move(operation).then([](Tensor<float> t) { return value(std::move(t)); }).sync();
#else
  operation.then([](Tensor<float> t) { return value(std::move(t)); }).sync();
#endif
}
