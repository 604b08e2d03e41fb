// How runs are stopped.
#include <tessera/error.hpp>

#include "core/text.hpp"
#include "engine/submission.hpp"
#include "operation/run.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace tessera::detail {

namespace {

// Tasks may be resumed by this.
void call_stops(std::span<const std::function<void()>> stops) {
  if (stops.empty()) return;
  const UserCode scope;
  for (const std::function<void()>& stop : stops) stop();
}

}  // namespace

// With all inside of it, and without recursion.
bool RunState::cancel(Errc reason, std::string_view why) {
  std::vector<std::shared_ptr<RunState>> stopped = {shared_from_this()}, inner, makers;
  if (!mark_stopped(reason, why, inner, makers)) return false;
  while (!inner.empty()) {
    const std::shared_ptr<RunState> next = std::move(inner.back());
    inner.pop_back();
    if (next->mark_stopped(reason, why, inner, makers)) stopped.push_back(next);
  }
  for (; !stopped.empty(); stopped.pop_back()) stopped.back()->post({});  // the innermost first
  for (const std::shared_ptr<RunState>& maker : makers) maker->stop_if_asked();
  return true;
}

// It is stopped from now on, and its commands and tasks are; not what it gives, its inner runs, and those that make
// what it has waited for. Later, if it makes what others want. False if it was before.
bool RunState::mark_stopped(Errc reason, std::string_view why, std::vector<std::shared_ptr<RunState>>& inner,
                            std::vector<std::shared_ptr<RunState>>& makers) {
  std::vector<Ref<engine::Work>> commands;
  std::vector<std::function<void()>> stops;
  std::vector<std::shared_ptr<const void>> seen;  // go after the lock
  std::vector<std::shared_ptr<SharedOperation>> awaited;
  {
    const std::scoped_lock lock(mutex_);
    if (is_over() || stopped_) return false;
    const SharedOperation::Making making = makes_for_others(seen);
    if (making == SharedOperation::Making::on_its_way) {
      if (!asked_) asked_ = {reason, std::string(why)};
      return true;
    }
    stopped_ = std::make_exception_ptr(Error(reason, std::string(why)));
    keeps_values_ = making == SharedOperation::Making::made;
    is_stopping_.store(true, std::memory_order_release);
    for (const Outstanding& one : outstanding_) {
      if (!one.is_foreign && !keeps_values_) commands.push_back(one.command);
    }
    for (const std::weak_ptr<SharedOperation>& one : awaited_shared_) awaited.push_back(one.lock());
    for (const std::weak_ptr<RunState>& one : inner_) {
      if (std::shared_ptr<RunState> run = one.lock()) inner.push_back(std::move(run));
    }
    stops.swap(stops_);
  }
  for (const Ref<engine::Work>& command : commands) {
    if (!engine::cancel(*command, reason, why)) engine::ask_to_stop(*command);
  }
  for (const std::shared_ptr<SharedOperation>& shared : awaited) {
    if (!shared) continue;
    if (std::shared_ptr<RunState> maker = shared->leave(*this)) makers.push_back(std::move(maker));
  }
  call_stops(stops);
  return true;
}

SharedOperation::Making RunState::makes_for_others(std::vector<std::shared_ptr<const void>>& seen) const {
  auto most = SharedOperation::Making::no;
  for (const std::weak_ptr<SharedOperation>& one : shared_) {
    const std::shared_ptr<SharedOperation> shared = one.lock();
    if (shared) most = std::max(most, shared->makes_for_others(*this, seen));
    seen.push_back(shared);
  }
  return most;
}

void RunState::stop_if_asked() {
  std::optional<Stop> asked;
  {
    const std::scoped_lock lock(mutex_);
    asked.swap(asked_);
  }
  if (asked) cancel(asked->reason, asked->why);
}

void RunState::throw_if_stopped() const {
  if (stopped_) std::rethrow_exception(stopped_);
}

bool RunState::has_inside(const std::shared_ptr<RunState>& run) const {
  return std::ranges::any_of(
      inner_, [&](const std::weak_ptr<RunState>& one) { return !one.owner_before(run) && !run.owner_before(one); });
}

// Operations inside of this one, and tasks.
void RunState::stop_inner(Errc reason, std::string_view why) {
  std::vector<std::weak_ptr<RunState>> inner;
  std::vector<std::function<void()>> stops;
  {
    const std::scoped_lock lock(mutex_);
    inner = inner_;
    stops.swap(stops_);
  }
  for (const std::weak_ptr<RunState>& run : inner) {
    if (const std::shared_ptr<RunState> shared = run.lock()) shared->cancel(reason, why);
  }
  call_stops(stops);
}

void RunState::on_stop(std::function<void()> function) {
  {
    const std::scoped_lock lock(mutex_);
    if (!stopped_) {
      stops_.push_back(std::move(function));
      return;
    }
  }
  function();
}

void RunState::cancel_after(std::chrono::nanoseconds time) {
  const std::scoped_lock lock(mutex_);
  if (is_over()) return;
  deadline_ = engine::Timer::instance().at(engine::from_now(time), [state = weak_from_this(), time] {
    const std::shared_ptr<RunState> shared = state.lock();
    if (!shared) return;
    const double milliseconds = std::chrono::duration<double, std::milli>(time).count();
    shared->cancel(Errc::deadline_exceeded, core::text("the operation was not done within ", milliseconds, " ms"));
  });
}

void cancel_after(const Run& run, std::chrono::nanoseconds time) {
  if (run.state()) run.state()->cancel_after(time);
}

}  // namespace tessera::detail
