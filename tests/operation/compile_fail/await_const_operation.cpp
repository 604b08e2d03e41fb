// A const operation cannot be used up.
// Error: an operation is used up by awaiting it: write co_await std::move(operation)
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
