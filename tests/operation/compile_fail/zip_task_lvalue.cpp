// A task is moved into zip.
// Error: a task runs once: write std::move(task)
#include <tessera/task.hpp>

using namespace tessera;

void use(Task<int>& task) {
#ifdef FIXED
  zip(std::move(task), 1).sync();
#else
  zip(task, 1).sync();
#endif
}
