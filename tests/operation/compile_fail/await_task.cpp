// A task runs once.
// Error: co_await consumes the task: write co_await std::move(task)
#include <tessera/task.hpp>

using namespace tessera;

Task<void> use(Task<int> task) {
#ifdef FIXED
  co_await std::move(task);
#else
  co_await task;
#endif
}
