// Runs inside of each other, on one thread.
#include "operation/run.hpp"

#include <memory>
#include <utility>
#include <vector>

namespace tessera::detail {

// A run that a thread comes to while it pumps others is pumped at once, inside of them, as long as these are few, and
// put off until they are done if they are many: operations inside of each other need no stack. A thread does not block
// while it has put something off.
class PutOff {
 public:
  static constexpr std::size_t most_nested = 16;

  static void pump(RunState& run, bool is_caller) {
    PutOff& mine = of_thread;
    if (mine.nested_ >= most_nested) {
      mine.runs_.push_back({run.shared_from_this(), is_caller});
      return;
    }
    ++mine.nested_;
    run.pump_here(is_caller);
    if (mine.nested_ == 1 && !mine.runs_.empty()) mine.pump_all();
    --mine.nested_;
  }
  // Before this thread waits.
  static void catch_up() {
    PutOff& mine = of_thread;
    if (mine.runs_.empty()) return;
    const std::size_t nested = std::exchange(mine.nested_, 1);
    mine.pump_all();
    mine.nested_ = nested;
  }
  // Before this thread runs code of the program's, which may take any time: others do it.
  static std::size_t enter_user_code() {
    PutOff& mine = of_thread;
    while (!mine.runs_.empty()) {
      const Entry next = mine.take();
      next.run->execute([run = next.run] { pump(*run, false); });
    }
    return std::exchange(mine.nested_, 0);
  }
  static void leave_user_code(std::size_t nested) noexcept { of_thread.nested_ = nested; }

 private:
  struct Entry {
    std::shared_ptr<RunState> run;
    bool is_caller;
  };
  Entry take() {
    Entry next = std::move(runs_.back());
    runs_.pop_back();
    return next;
  }
  void pump_all() {
    while (!runs_.empty()) {
      const Entry next = take();
      next.run->pump_here(next.is_caller);
    }
  }

  std::size_t nested_ = 0;
  std::vector<Entry> runs_;
  static thread_local PutOff of_thread;
};
thread_local PutOff PutOff::of_thread;

void catch_up() { PutOff::catch_up(); }
UserCode::UserCode() noexcept : nested_(PutOff::enter_user_code()) {}
UserCode::~UserCode() { PutOff::leave_user_code(nested_); }

void RunState::pump(bool is_caller) { PutOff::pump(*this, is_caller); }

}  // namespace tessera::detail
