// A spawned operation gives its value once.
// Error: a spawned operation gives its value once: write co_await std::move(spawned)
#include <tessera/task.hpp>

using namespace tessera;

Task<void> use(Spawned<int> spawned) {
#ifdef FIXED
  co_await std::move(spawned);
#else
  co_await spawned;
#endif
}
