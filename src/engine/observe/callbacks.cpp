#include "engine/observe/callbacks.hpp"

#include <utility>

namespace tessera::detail::engine {

void Callbacks::wait() {
  const std::scoped_lock lock(mutex_);
  std::atomic<std::uint32_t>& before = counts_[generation_.fetch_add(1) % 2];
  for (std::uint32_t left = before.load(); left != 0; left = before.load()) before.wait(left);
}

void Callbacks::failed(std::exception_ptr exception) noexcept {
  constexpr std::size_t most = 16;  // enough to see what is wrong; more would grow without bound
  const std::scoped_lock lock(failures_lock_);
  if (failures_.size() < most) failures_.push_back(std::move(exception));
}

std::exception_ptr Callbacks::take_failure() noexcept {
  const std::scoped_lock lock(failures_lock_);
  if (failures_.empty()) return nullptr;
  std::exception_ptr oldest = std::move(failures_.front());
  failures_.erase(failures_.begin());
  return oldest;
}

}  // namespace tessera::detail::engine
