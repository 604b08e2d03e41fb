#include "core/per_thread.hpp"

#include <utility>

namespace tessera::core {

namespace {

thread_local bool has_begun_to_end = false;  // can still be read when everything else is destroyed

}  // namespace

struct ThreadObjects {
  OfThread* first = nullptr;

  ~ThreadObjects() {
    has_begun_to_end = true;
    while (first) delete std::exchange(first, first->next_);
  }
  static ThreadObjects& here() {
    thread_local ThreadObjects objects;
    return objects;
  }
};

bool OfThread::is_ending() noexcept { return has_begun_to_end; }

void OfThread::keep(OfThread* object) noexcept { object->next_ = std::exchange(ThreadObjects::here().first, object); }

}  // namespace tessera::core
