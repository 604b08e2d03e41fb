#include "engine/observe/nested_callbacks.hpp"

#include <new>
#include <utility>
#include <vector>

namespace tessera::detail::engine {

namespace {

// Some 300 bytes of stack each, and what the callbacks themselves need.
constexpr std::size_t max_nesting = 16;

struct Nested {
  std::size_t total = 0;   // observers that this thread is in
  std::size_t recent = 0;  // of these, since it last began to wait
  std::vector<Ref<Work>> deferred;

  void call_deferred() noexcept {
    while (!deferred.empty()) {
      const std::vector<Ref<Work>> due = std::exchange(deferred, {});
      for (const Ref<Work>& work : due) work->call_observers();
    }
  }
};
thread_local Nested nested;

}  // namespace

bool is_in_observer() noexcept { return nested.total != 0; }

bool can_call_observers() noexcept { return nested.recent < max_nesting; }

bool defer_observers(Work& work) noexcept {
  if (can_call_observers()) return false;
  try {
    nested.deferred.emplace_back(&work);
    return true;
  } catch (const std::bad_alloc&) {
    return false;  // the stack has to do
  }
}

ObserverScope::ObserverScope() noexcept {
  ++nested.total;
  ++nested.recent;
}
ObserverScope::~ObserverScope() {
  if (nested.recent == max_nesting) nested.call_deferred();
  --nested.total;
  --nested.recent;
}

BlockingScope::BlockingScope() noexcept : nesting_(nested.recent) {
  nested.call_deferred();
  nested.recent = 0;
}
BlockingScope::~BlockingScope() { nested.recent = nesting_; }

}  // namespace tessera::detail::engine
