#include "runtime/timer.hpp"

#include <algorithm>
#include <thread>

namespace tessera::detail {

Timer& Timer::instance() {
  static auto& timer = *new Timer();  // never destroyed: its thread runs until the process ends
  return timer;
}

void Timer::at(Clock::time_point time, std::function<void()> call) {
  const std::scoped_lock lock(mutex_);
  if (idle_ == 0) start();
  heap_.push_back({time, std::move(call)});
  std::ranges::push_heap(heap_);
  if (heap_.front().time == time) changed_.notify_one();
}

void Timer::start() {
  std::thread([this] { run(); }).detach();
  ++idle_;
}

void Timer::run() {
  constexpr unsigned most_idle = 2;  // one keeps the time, one is back from a call
  std::unique_lock lock(mutex_);
  while (true) {
    if (heap_.empty()) {
      changed_.wait(lock);
    } else if (const Clock::time_point time = heap_.front().time; time > Clock::now()) {
      changed_.wait_until(lock, time);
    } else {
      std::ranges::pop_heap(heap_);
      std::function<void()> call = std::move(heap_.back().call);
      heap_.pop_back();
      if (--idle_ == 0) start();
      lock.unlock();
      call();
      call = nullptr;  // what it holds may be dropped with other locks
      lock.lock();
      if (idle_ >= most_idle) return;
      ++idle_;
    }
  }
}

}  // namespace tessera::detail
