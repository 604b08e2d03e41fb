#include "engine/schedule/timer.hpp"

#include <new>
#include <system_error>
#include <thread>
#include <utility>

namespace tessera::detail::engine {

Timer& Timer::instance() {
  static auto& timer = *new Timer();  // never destroyed: its thread runs until the process ends
  return timer;
}

Timer::Key Timer::at(Clock::time_point time, std::function<void()> call) {
  const std::scoped_lock lock(mutex_);
  if (idle_ == 0) start();
  const Key key{time, ++last_number_};
  calls_.emplace(key, std::move(call));
  if (calls_.begin()->first == key) changed_.notify_one();
  return key;
}

void Timer::remove(const Key& key) {
  std::map<Key, std::function<void()>>::node_type removed;  // destroyed after the lock is released
  const std::scoped_lock lock(mutex_);
  removed = calls_.extract(key);
}

// If the system has no thread or no memory for one now, the next call tries again: until then deadlines are checked
// only when work starts.
void Timer::start() {
  try {
    std::thread([this] { run(); }).detach();
    ++idle_;
  } catch (const std::system_error&) {
  } catch (const std::bad_alloc&) {
  }
}

void Timer::run() {
  constexpr unsigned most_idle = 2;  // one waits, one has just returned from a call
  std::unique_lock lock(mutex_);
  while (true) {
    if (calls_.empty()) {
      changed_.wait(lock);
    } else if (const Clock::time_point time = calls_.begin()->first.first; time > Clock::now()) {
      changed_.wait_until(lock, time);
    } else {
      std::function<void()> call = std::move(calls_.begin()->second);
      calls_.erase(calls_.begin());
      if (--idle_ == 0) start();
      lock.unlock();
      call();
      call = nullptr;  // destroyed without the lock: its captures may take other locks
      lock.lock();
      if (idle_ >= most_idle) return;
      ++idle_;
    }
  }
}

Clock::time_point from_now(std::chrono::nanoseconds time) {
  const Clock::time_point now = Clock::now();
  return time < Clock::time_point::max() - now ? now + time : Clock::time_point::max();
}

}  // namespace tessera::detail::engine
