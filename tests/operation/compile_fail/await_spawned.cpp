// A spawned operation can be awaited once.
// Error: co_await consumes the handle: write co_await std::move(spawned)
#include <tessera/task.hpp>

using namespace tessera;

Task<void> use(Spawned<int> spawned) {
#ifdef FIXED
  co_await std::move(spawned);
#else
  co_await spawned;
#endif
}
