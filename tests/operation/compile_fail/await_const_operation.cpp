// co_await consumes the operation, so it cannot be const.
// Error: co_await consumes the operation: write co_await std::move(operation)
#include <tessera/task.hpp>

using namespace tessera;

Task<void> use() {
#ifdef FIXED
  auto operation = ones<float>({4});
  co_await std::move(operation);
#else
  const auto operation = ones<float>({4});
  co_await operation;
#endif
}
