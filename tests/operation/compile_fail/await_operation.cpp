// An operation can be awaited once.
// Error: co_await consumes the operation: write co_await std::move(operation)
#include <tessera/task.hpp>

using namespace tessera;

Task<void> use(DeviceOperation<Tensor<float>> operation) {
#ifdef FIXED
  co_await std::move(operation);
#else
  co_await operation;
#endif
}
