#include "engine/memory/storage.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"
#include "engine/device_state.hpp"
#include "engine/submission.hpp"

namespace tessera::detail::engine {

using core::text;

void retain(View* view) noexcept { view->refs.fetch_add(1, std::memory_order_relaxed); }

namespace {

void drop(Storage& storage) noexcept {
  if (storage.refs.fetch_sub(1, std::memory_order_acq_rel) == 1) delete &storage;
}

}  // namespace

bool try_free(Storage& storage) noexcept {
  if (storage.is_freed.exchange(true)) return false;
  storage.refs.fetch_add(1, std::memory_order_relaxed);  // for the release
  release_in_order(storage);
  return true;
}

void release(View* view) noexcept {
  if (view->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  Storage& storage = *view->storage;
  delete view;
  // The last view frees the memory, unless free() has done so.
  if (storage.views.fetch_sub(1, std::memory_order_acq_rel) == 1) try_free(storage);
  drop(storage);
}

void release_memory(Storage& storage) noexcept {
  if (storage.release) {
    (*storage.release)();
  } else {
    storage.device->memory.free(storage.block);
  }
  drop(storage);
}

std::string describe(const View& view) { return to_string(view.dtype, view.shape); }

core::FailurePtr unusable(const std::string& what, const Storage& storage) {
  if (storage.placeholder.empty()) return core::make_failure(Errc::buffer_freed, what + " has been freed");
  return core::make_failure(Errc::invalid_argument,
                            text(what, " is ", storage.placeholder, " and can be used only there"));
}

}  // namespace tessera::detail::engine
