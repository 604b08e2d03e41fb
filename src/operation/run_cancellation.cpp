// How runs are cancelled.
#include <tessera/error.hpp>

#include "core/text.hpp"
#include "engine/submission.hpp"
#include "operation/run_state.hpp"

#include <algorithm>
#include <new>
#include <span>
#include <utility>

namespace tessera::detail::operation {

namespace {

// The callbacks may resume tasks.
void call_all(std::span<const std::function<void()>> callbacks) noexcept {
  if (callbacks.empty()) return;
  const UserCodeScope scope;
  for (const std::function<void()>& callback : callbacks) callback();
}

}  // namespace

bool RunState::cancel(Errc reason, std::string_view why) noexcept {
  try {
    return cancel_all(reason, why);
  } catch (const std::bad_alloc&) {
    return cancel_without_memory();
  }
}

// Stops this run alone, for want of memory. When it fails, it cancels the runs inside it; its commands go on.
bool RunState::cancel_without_memory() noexcept {
  {
    const std::scoped_lock lock(mutex_);
    if (is_finished() || stop_.cause) return false;
    stop_.cause = std::make_exception_ptr(Error(core::out_of_memory()));
    stop_.keeps_values = true;
    stop_.is_stopping.store(true, std::memory_order_release);
  }
  post({});
  return true;
}

// Cancels this run and all runs inside it, without recursion. If it throws, nothing has happened.
bool RunState::cancel_all(Errc reason, std::string_view why) {
  std::vector<std::shared_ptr<RunState>> cancelled = {shared_from_this()}, inner, producers;
  if (!mark_cancelled(reason, why, inner, producers)) return false;
  while (!inner.empty()) {
    const std::shared_ptr<RunState> next = std::move(inner.back());
    inner.pop_back();
    try {
      cancelled.push_back(next);
      if (!next->mark_cancelled(reason, why, inner, producers)) cancelled.pop_back();
    } catch (const std::bad_alloc&) {  // then the run that contains it cancels it
    }
  }
  for (; !cancelled.empty(); cancelled.pop_back()) cancelled.back()->post({});  // the innermost first
  for (const std::shared_ptr<RunState>& producer : producers) producer->cancel_if_deferred();
  return true;
}

// Cancels this run with its commands and tasks, or defers that if it is producing values for other runs. Appends its
// inner runs, and the producers of what it has waited for; the caller has to cancel those. False if it was cancelled or
// had finished before. If it throws, the run is not cancelled.
bool RunState::mark_cancelled(Errc reason, std::string_view why, std::vector<std::shared_ptr<RunState>>& inner,
                              std::vector<std::shared_ptr<RunState>>& producers) {
  std::vector<Ref<engine::Work>> commands;
  std::vector<std::function<void()>> callbacks;
  std::vector<std::shared_ptr<const void>> seen;  // released after the lock
  std::vector<std::shared_ptr<UnzipSource>> awaited;
  {
    const std::scoped_lock lock(mutex_);
    if (is_finished() || stop_.cause) return false;
    const UnzipSource::Demand demanded = demand(seen);
    if (demanded == UnzipSource::Demand::producing) {
      if (!stop_.deferred) stop_.deferred = {reason, std::string(why)};
      return true;
    }
    std::exception_ptr cause = std::make_exception_ptr(Error(reason, std::string(why)));
    const bool keeps_values = demanded == UnzipSource::Demand::produced;
    for (const CommandsInFlight::Command& command : commands_.all()) {
      if (!command.is_foreign && !keeps_values) commands.push_back(command.work);
    }
    for (const std::weak_ptr<UnzipSource>& one : sources_.awaited) awaited.push_back(one.lock());
    producers.reserve(producers.size() + awaited.size());
    for (std::shared_ptr<RunState>& run : inner_.all()) inner.push_back(std::move(run));
    stop_.cause = std::move(cause);
    stop_.keeps_values = keeps_values;
    stop_.is_stopping.store(true, std::memory_order_release);
    callbacks.swap(stop_.callbacks);
  }
  for (const Ref<engine::Work>& command : commands) {
    if (!engine::cancel(*command, reason, why)) engine::ask_to_stop(*command);
  }
  for (const std::shared_ptr<UnzipSource>& source : awaited) {
    if (!source) continue;
    if (std::shared_ptr<RunState> producer = source->leave(*this)) producers.push_back(std::move(producer));
  }
  call_all(callbacks);
  return true;
}

// Whether other runs need values that this run produces. Under the lock; see UnzipSource::demand_on.
UnzipSource::Demand RunState::demand(std::vector<std::shared_ptr<const void>>& seen) const {
  auto most = UnzipSource::Demand::none;
  for (const std::weak_ptr<UnzipSource>& one : sources_.produced) {
    const std::shared_ptr<UnzipSource> source = one.lock();
    if (source) most = std::max(most, source->demand_on(*this, seen));
    seen.push_back(source);
  }
  return most;
}

void RunState::cancel_if_deferred() noexcept {
  std::optional<StopState::Request> deferred;
  {
    const std::scoped_lock lock(mutex_);
    deferred.swap(stop_.deferred);
  }
  if (deferred) cancel(deferred->reason, deferred->why);
}

// Cancels the inner runs and stops the tasks. By the pumping thread: nobody else adds inner runs.
void RunState::cancel_inner(Errc reason, std::string_view why) noexcept {
  std::vector<std::function<void()>> callbacks;
  std::unique_lock lock(mutex_);
  callbacks.swap(stop_.callbacks);
  for (std::size_t i = 0; i < inner_.size(); ++i) {
    std::shared_ptr<RunState> run = inner_.get(i);
    lock.unlock();
    if (run) run->cancel(reason, why);
    run = nullptr;
    lock.lock();
  }
  lock.unlock();
  call_all(callbacks);
}

void RunState::on_stop(std::function<void()> function) {
  {
    const std::scoped_lock lock(mutex_);
    if (!stop_.cause) {
      stop_.callbacks.push_back(std::move(function));
      return;
    }
  }
  function();
}

void RunState::cancel_after(std::chrono::nanoseconds time) {
  const std::scoped_lock lock(mutex_);
  if (is_finished()) return;
  stop_.deadline = engine::Timer::instance().at(engine::from_now(time), [state = weak_from_this(), time] {
    const std::shared_ptr<RunState> run = state.lock();
    if (!run) return;
    const double milliseconds = std::chrono::duration<double, std::milli>(time).count();
    try {
      run->cancel(Errc::deadline_exceeded, core::text("the operation did not finish within ", milliseconds, " ms"));
    } catch (const std::bad_alloc&) {
      run->cancel(Errc::deadline_exceeded, "the operation did not finish in time");
    }
  });
}

}  // namespace tessera::detail::operation
