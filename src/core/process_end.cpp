#include "core/process_end.hpp"

#include "core/platform.hpp"

#include <algorithm>
#include <mutex>
#include <unistd.h>
#include <vector>

namespace tessera::core {

namespace {

// Never destroyed: any thread may end the process.
struct Functions {
  std::mutex mutex;
  std::vector<void (*)() noexcept> all;

  static Functions& instance() {
    static auto& made = *new Functions;
    return made;
  }
};

struct MainThread {
  const pid_t process = getpid();

  ~MainThread() {
    if (getpid() != process) return;  // after fork() the child has no threads to wait for
    std::vector<void (*)() noexcept> all;
    {
      const std::scoped_lock lock(Functions::instance().mutex);
      all = Functions::instance().all;
    }
    for (const auto function : all) function();
  }
};

}  // namespace

void watch_main_thread() {
  if (!is_main_thread()) return;
  thread_local const MainThread watched;
  static_cast<void>(watched);
}

void before_handlers_of_exit(void (*function)() noexcept) {
  Functions& functions = Functions::instance();
  const std::scoped_lock lock(functions.mutex);
  if (std::ranges::find(functions.all, function) == functions.all.end()) functions.all.push_back(function);
}

}  // namespace tessera::core
