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
  if (!is_running_) {
    std::thread([this] { run(); }).detach();
    is_running_ = true;
  }
  heap_.push_back({time, std::move(call)});
  std::ranges::push_heap(heap_);
  if (heap_.front().time == time) changed_.notify_one();
}

void Timer::run() {
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
      lock.unlock();
      call();
      call = nullptr;  // what it holds may be dropped with other locks
      lock.lock();
    }
  }
}

}  // namespace tessera::detail
