// zip() consumes the task, so it needs std::move.
// Error: a task can be used once: pass std::move(task)
#include <tessera/task.hpp>

using namespace tessera;

void use(Task<int>& task) {
#ifdef FIXED
  zip(std::move(task), 1).sync();
#else
  zip(task, 1).sync();
#endif
}
