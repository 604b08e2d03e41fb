#include <tessera/detail/operation_run.hpp>

#include <tessera/detail/operation_inner_nodes.hpp>
#include <tessera/error.hpp>

#include "core/text.hpp"
#include "engine/stream_state.hpp"
#include "operation/inline_evaluator.hpp"
#include "operation/run_state.hpp"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

namespace tessera::detail {

using operation::InlineEvaluator;
using operation::RunState;

namespace {

// Whether a part of another operation, which passes its stream on, is to run on another device than that.
bool is_for_other_device(const OperationNode& root, const RunOptions& options) {
  return options.stream && !options.is_stream_fixed && root.device() &&
         root.device() != Access::get(options.stream)->device.get();
}

// Null for a run that finished inside begin().
RunState* state_of(const OperationRun& run, std::string_view call) {
  if (!run) throw Error(Errc::invalid_argument, core::text("[", call, "] called on an empty operation handle"));
  return run.state().get();
}

}  // namespace

void OperationRun::begin(RunOptions&& options) {
  if (InlineEvaluator::can_evaluate(*root_, options) && !is_for_other_device(*root_, options)) {
    InlineEvaluator evaluator(*root_, options);
    evaluator.evaluate();
    is_done_ = evaluator.is_done();
    if (is_done_) return;
    state_ = RunState::create(std::move(root_), std::move(options));
    state_->adopt(evaluator.command(), evaluator.failure());
  } else {
    state_ = RunState::create(std::move(root_), std::move(options));
    state_->start();
  }
}

Status OperationRun::poll() const {
  RunState* state = state_of(*this, "poll");
  return state ? state->poll() : Status::completed;
}
bool OperationRun::is_state_finished() const noexcept { return state_->is_finished(); }
void OperationRun::wait() const {
  if (RunState* state = state_of(*this, "wait")) state->wait(engine::Clock::time_point::max());
}
bool OperationRun::wait_seconds(std::chrono::duration<double> timeout) const {
  constexpr std::chrono::duration<double> unlimited = std::chrono::hours(24 * 365 * 100);
  RunState* state = state_of(*this, "wait_for");
  if (!state) return true;
  auto until = engine::Clock::time_point::max();
  if (timeout < unlimited) {
    const auto rest = std::max(timeout, std::chrono::duration<double>::zero());
    until = engine::Clock::now() + std::chrono::ceil<engine::Clock::duration>(rest);
  }
  return state->wait(until);
}
bool OperationRun::cancel(Errc reason, std::string_view why) const {
  RunState* state = state_of(*this, "cancel");
  return state && state->cancel(reason, why);
}
bool OperationRun::add_observer(RunObserver& observer) const noexcept {
  return state_ && state_->add_observer(observer);
}
bool OperationRun::remove_observer(RunObserver& observer) const noexcept {
  return state_ && state_->remove_observer(observer);
}
void OperationRun::before_user_code() const noexcept {
  if (state_) state_->device().scheduler->before_user_code();
}
const std::exception_ptr& OperationRun::failure() const noexcept {
  static const std::exception_ptr none;
  return state_ ? state_->failure() : none;
}
void OperationRun::throw_if_state_failed() const {
  if (state_->failure()) std::rethrow_exception(state_->failure());
}
OperationNode& OperationRun::root_of_state() const noexcept { return *state_->root(); }
NodePtr OperationRun::take_root() const noexcept { return state_ ? std::move(state_->root()) : std::move(root_); }

void cancel_after(const OperationRun& run, std::chrono::nanoseconds time) {
  if (run.state()) run.state()->cancel_after(time);
}

Error error_of(const std::exception_ptr& failure) noexcept {
  const auto call_failed = [](std::string_view what) {
    return Error(core::describe_failure(Errc::call_failed, [&] { return std::string(what); }));
  };
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return Error(core::out_of_memory());
  } catch (const std::exception& error) {
    return call_failed(error.what());
  } catch (...) {
    return call_failed("a non-std::exception was thrown");
  }
}

bool is_worth_retrying(const Error& error) noexcept {
  const Errc code = error.code();
  // A deadline is that of a timeout() inside: one outside ends the retries.
  return code == Errc::call_failed || code == Errc::deadline_exceeded ||
         (fault(code) != Fault::caller && fault(code) != Fault::outcome);
}

}  // namespace tessera::detail
