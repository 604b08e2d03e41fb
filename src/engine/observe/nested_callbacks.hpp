#pragma once

#include "engine/work.hpp"

#include <cstddef>

// Callbacks inside each other on one thread. A callback may finish other commands, whose callbacks are then due: they
// are called at once while the nesting is shallow, and after the innermost one has returned otherwise, so that a chain
// of callbacks needs no stack. A thread never blocks while it has deferred callbacks.
namespace tessera::detail::engine {

// Whether this thread is inside an observer, that is, in user code.
bool is_in_observer() noexcept;

// Whether this thread may call observers now, inside an ObserverScope.
bool can_call_observers() noexcept;

// Has this thread call the observers of a settled item later, if it may not do so now. False if it may.
bool defer_observers(Work& work) noexcept;

// While it lives, this thread calls observers.
class ObserverScope {
 public:
  ObserverScope() noexcept;
  ~ObserverScope();
  ObserverScope(const ObserverScope&) = delete;
  ObserverScope& operator=(const ObserverScope&) = delete;
};

// While it lives, this thread may block. Calls the observers that are due first, since what it waits for may depend on
// them.
class BlockingScope {
 public:
  BlockingScope() noexcept;
  ~BlockingScope();
  BlockingScope(const BlockingScope&) = delete;
  BlockingScope& operator=(const BlockingScope&) = delete;

 private:
  std::size_t nesting_;
};

}  // namespace tessera::detail::engine
