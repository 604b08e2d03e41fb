// A task can be waited for once.
// Error: sync_wait() consumes the task: write sync_wait(std::move(task))
#include <tessera/task.hpp>

using namespace tessera;

void use(Task<int>& task) {
#ifdef FIXED
  sync_wait(std::move(task));
#else
  sync_wait(task);
#endif
}
