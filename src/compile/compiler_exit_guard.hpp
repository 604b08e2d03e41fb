#pragma once

#include <tessera/error.hpp>

#include "core/process_end.hpp"

#include <cstdlib>
#include <mutex>
#include <shared_mutex>

namespace tessera::compile {

// While one lives, the process does not exit: a compiler's globals are destroyed at exit. Once the process is exiting,
// the constructor throws. Also needed to open a compiler's plugin.
class CompilerExitGuard {
 public:
  CompilerExitGuard() {
    core::before_handlers_of_exit(close);
    lock_ = std::shared_lock(mutex());
    if (is_closed()) throw Error(Errc::device_failure, "the process is exiting: nothing can be compiled");
  }
  // To be called after a compiler's plugin was opened, so that it runs before the plugin's own exit handlers.
  static void close_at_exit() { std::atexit(close); }

 private:
  static void close() noexcept {
    const std::unique_lock lock(mutex());
    is_closed() = true;
  }
  static std::shared_mutex& mutex() {
    static auto& made = *new std::shared_mutex;
    return made;
  }
  static bool& is_closed() {
    static bool closed = false;
    return closed;
  }
  std::shared_lock<std::shared_mutex> lock_;
};

}  // namespace tessera::compile
