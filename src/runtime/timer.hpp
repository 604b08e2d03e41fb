#pragma once

#include "runtime/node.hpp"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

namespace tessera::detail {

// Calls functions at their times: the deadlines and delays of the process. Its one thread starts with the first of
// them and sleeps in between.
class Timer {
 public:
  static Timer& instance();

  // The call must be short and must not throw.
  void at(Clock::time_point time, std::function<void()> call);

 private:
  struct Entry {
    Clock::time_point time;
    std::function<void()> call;
    // std::push_heap keeps the largest first: the earliest is the largest here.
    friend auto operator<=>(const Entry& a, const Entry& b) { return b.time <=> a.time; }
    friend bool operator==(const Entry& a, const Entry& b) { return a.time == b.time; }
  };

  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Entry> heap_;
  bool is_running_ = false;
};

}  // namespace tessera::detail
