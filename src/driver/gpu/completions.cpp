#include "driver/gpu/completions.hpp"

#include <tessera/error.hpp>

#include <utility>

namespace tessera::driver::gpu {

std::uint64_t Completions::begin() {
  const std::scoped_lock lock(mutex_);
  if (failure_) throw Error(failure_);
  later_.push_back(false);
  ++running_;
  return ended_ + later_.size();
}

void Completions::end(std::uint64_t number) noexcept {
  {
    const std::scoped_lock lock(mutex_);
    --running_;
    later_[number - ended_ - 1] = true;
    for (; !failure_ && !later_.empty() && later_.front(); ++ended_) later_.pop_front();
  }
  changed_.notify_all();
}

void Completions::fail(core::FailurePtr why) noexcept {
  {
    const std::scoped_lock lock(mutex_);
    --running_;
    if (!failure_) failure_ = std::move(why);
  }
  changed_.notify_all();
}

void Completions::lose(core::FailurePtr why) noexcept {
  {
    const std::scoped_lock lock(mutex_);
    if (!failure_) failure_ = std::move(why);
  }
  changed_.notify_all();
}

Progress Completions::wait(std::uint64_t number, Clock::time_point until) {
  std::unique_lock lock(mutex_);
  const auto is_done = [&] { return ended_ >= number || failure_; };
  // time_point::max() would overflow when converted to the system clock.
  if (until == Clock::time_point::max()) {
    changed_.wait(lock, is_done);
  } else if (!is_done()) {
    changed_.wait_until(lock, until, is_done);
  }
  return {ended_, failure_};
}

void Completions::wait_for_all(Clock::time_point until) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, until, [&] { return running_ == 0; });
}

bool Completions::is_lost() {
  const std::scoped_lock lock(mutex_);
  return failure_ != nullptr;
}

void Completions::throw_if_lost() {
  const std::scoped_lock lock(mutex_);
  if (failure_) throw Error(failure_);
}

}  // namespace tessera::driver::gpu
