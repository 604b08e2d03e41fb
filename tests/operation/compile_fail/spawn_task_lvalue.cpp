// A task can be spawned once.
// Error: spawn() consumes the task: write spawn(std::move(task))
#include <tessera/task.hpp>

using namespace tessera;

void use(Task<int>& task) {
#ifdef FIXED
  spawn(std::move(task));
#else
  spawn(task);
#endif
}
