// Runs inside each other on one thread.
#include "operation/run_state.hpp"

#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace tessera::detail::operation {

// A thread that pumps a run may have to pump another one from inside. It does so at once while the nesting is shallow,
// and defers it until the outer ones are done otherwise: nested operations need no stack. A thread never blocks while
// it has deferred runs.
class NestedRuns {
 public:
  static constexpr std::size_t max_nesting = 16;

  static void pump(RunState& run, bool is_caller) noexcept {
    NestedRuns& mine = of_thread;
    if (mine.nesting_ >= max_nesting && mine.defer(run, is_caller)) return;
    ++mine.nesting_;
    run.pump_now(is_caller);
    if (mine.nesting_ == 1 && !mine.deferred_.empty()) mine.pump_all();
    --mine.nesting_;
  }
  static void pump_deferred() noexcept {
    NestedRuns& mine = of_thread;
    if (mine.deferred_.empty()) return;
    const std::size_t nesting = std::exchange(mine.nesting_, 1);
    mine.pump_all();
    mine.nesting_ = nesting;
  }
  // User code may take any time, so other threads take over the deferred runs.
  static std::size_t enter_user_code() noexcept {
    NestedRuns& mine = of_thread;
    while (!mine.deferred_.empty()) {
      const Deferred next = mine.take();
      try {
        next.run->execute_user_code([run = next.run] { pump(*run, false); });
      } catch (...) {  // no other thread can
        next.run->pump_now(next.is_caller);
      }
    }
    return std::exchange(mine.nesting_, 0);
  }
  static void leave_user_code(std::size_t nesting) noexcept { of_thread.nesting_ = nesting; }

 private:
  struct Deferred {
    std::shared_ptr<RunState> run;
    bool is_caller;
  };
  bool defer(RunState& run, bool is_caller) noexcept {
    try {
      deferred_.push_back({run.shared_from_this(), is_caller});
      return true;
    } catch (const std::bad_alloc&) {
      return false;  // the stack has to do
    }
  }
  Deferred take() noexcept {
    Deferred next = std::move(deferred_.back());
    deferred_.pop_back();
    return next;
  }
  void pump_all() noexcept {
    while (!deferred_.empty()) {
      const Deferred next = take();
      next.run->pump_now(next.is_caller);
    }
  }

  std::size_t nesting_ = 0;
  std::vector<Deferred> deferred_;
  static thread_local NestedRuns of_thread;
};
thread_local NestedRuns NestedRuns::of_thread;

void pump_deferred_runs() { NestedRuns::pump_deferred(); }

void RunState::pump(bool is_caller) noexcept { NestedRuns::pump(*this, is_caller); }

}  // namespace tessera::detail::operation

namespace tessera::detail {

UserCodeScope::UserCodeScope() noexcept : nesting_(operation::NestedRuns::enter_user_code()) {}
UserCodeScope::~UserCodeScope() { operation::NestedRuns::leave_user_code(nesting_); }

}  // namespace tessera::detail
