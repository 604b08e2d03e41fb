// An operation can be awaited once.
// Error: an operation is used up by awaiting it: write co_await std::move(operation)
#include <tessera/task.hpp>

using namespace tessera;

Task<void> use(DeviceOperation<Tensor<float>> operation) {
#ifdef FIXED
  co_await std::move(operation);
#else
  co_await operation;
#endif
}
