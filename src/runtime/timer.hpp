#pragma once

#include "runtime/node.hpp"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

namespace tessera::detail {

// Calls functions at their times: the deadlines and delays of the process. Its thread starts with the first of them and
// sleeps in between. What is called may run code of the user's, which may take any time and wait for other timers: as
// long as it does, another thread keeps the time.
class Timer {
 public:
  static Timer& instance();

  // The call must not throw.
  void at(Clock::time_point time, std::function<void()> call);

 private:
  struct Entry {
    Clock::time_point time;
    std::function<void()> call;
    // std::push_heap keeps the largest first: the earliest is the largest here.
    friend auto operator<=>(const Entry& a, const Entry& b) { return b.time <=> a.time; }
    friend bool operator==(const Entry& a, const Entry& b) { return a.time == b.time; }
  };

  void start();  // under the mutex
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Entry> heap_;
  unsigned idle_ = 0;  // threads that keep the time
};

}  // namespace tessera::detail
