#pragma once

#include <tessera/error.hpp>

#include "core/process_end.hpp"

#include <cstdlib>
#include <mutex>
#include <shared_mutex>

namespace tessera::compile {

// Lets the process end only when no thread is inside of a compiler: its globals are destroyed with the process. A
// thread that comes later is refused. Opening a compiler's plugin is inside too.
class Inside {
 public:
  Inside() {
    core::before_handlers_of_exit(close);
    lock_ = std::shared_lock(mutex());
    if (is_closed()) throw Error(Errc::device_failure, "the process is ending: nothing is compiled any more");
  }
  // After a compiler's plugin was opened, so that it comes before the plugin's own end.
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
