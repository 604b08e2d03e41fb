#pragma once

#include "engine/work.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace tessera::detail::engine {

// Calls functions at given times: the deadlines and delays of the process. Its thread starts with the first of them and
// sleeps in between. A function may run user code, which may take any time and wait for other timers, so meanwhile
// another thread takes over.
class Timer {
 public:
  static Timer& instance();

  using Key = std::pair<Clock::time_point, std::uint64_t>;  // the time, and a number that makes the key unique

  // The function must not throw.
  Key at(Clock::time_point time, std::function<void()> call);
  // Does nothing if the function has been called or is being called.
  void remove(const Key& key);

 private:
  void start();  // under the mutex
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, std::function<void()>> calls_;
  std::uint64_t last_number_ = 0;
  unsigned idle_ = 0;  // threads that wait for the next call
};

// Saturates at the clock's maximum, a time that never comes.
Clock::time_point from_now(std::chrono::nanoseconds time);

}  // namespace tessera::detail::engine
