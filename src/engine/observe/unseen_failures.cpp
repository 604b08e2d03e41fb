#include "engine/observe/unseen_failures.hpp"

#include <mutex>
#include <new>
#include <utility>

namespace tessera::detail::engine {

void UnseenFailures::add(const core::FailurePtr& failure) noexcept {
  constexpr std::size_t most = 16;  // enough to see what is wrong; more would grow without bound
  if (failure->cause || fault(failure->code) == Fault::outcome || core::is_seen(*failure)) return;
  std::vector<core::FailurePtr> seen;  // destroyed after the lock is released
  const std::scoped_lock lock(lock_);
  if (!failures_.empty() && failures_.back() == failure) return;  // that of a run's group is the run's too
  try {
    seen.reserve(failures_.size());
    std::erase_if(failures_, [&](core::FailurePtr& one) {
      if (!core::is_seen(*one)) return false;
      seen.push_back(std::move(one));
      return true;
    });
    if (failures_.size() < most) failures_.push_back(failure);
  } catch (const std::bad_alloc&) {  // then what is known already has to do
  }
}

core::FailurePtr UnseenFailures::take() noexcept {
  std::vector<core::FailurePtr> known;
  {
    const std::scoped_lock lock(lock_);
    known.swap(failures_);
  }
  core::FailurePtr oldest;
  for (core::FailurePtr& failure : known) {
    if (core::is_seen(*failure)) continue;
    if (oldest) {
      add(failure);
    } else {
      oldest = std::move(failure);
      core::set_seen(*oldest);
    }
  }
  return oldest;
}

}  // namespace tessera::detail::engine
