// The public half of runs.
#include <tessera/error.hpp>

#include "core/text.hpp"
#include "engine/stream_state.hpp"
#include "operation/inline_evaluation.hpp"
#include "operation/run.hpp"

#include <algorithm>
#include <utility>

namespace tessera::detail {

namespace {

// Whether it is a part of another operation, whose stream it gets, but is to run on another device than that.
bool is_of_other_device(const OperationNode& root, const RunOptions& options) {
  return options.stream && !options.keeps_to_stream && root.device() &&
         root.device() != Access::get(options.stream)->device.get();
}

}  // namespace

void Run::begin(RunOptions&& options) {
  if (DirectEvaluation::is_for(*root_, options) && !is_of_other_device(*root_, options)) {
    DirectEvaluation direct(*root_, options);
    direct.evaluate();
    is_done_ = direct.is_done();
    if (is_done_) return;
    state_ = RunState::create(std::move(root_), std::move(options));
    state_->adopt(direct.command(), direct.failure());
  } else {
    state_ = RunState::create(std::move(root_), std::move(options));
    state_->start();
  }
}

namespace {

RunState* state_of(const Run& run, std::string_view call) {
  if (!run) throw Error(Errc::invalid_argument, core::text("[", call, "] on an empty handle of an operation"));
  return run.state().get();
}

}  // namespace

Status Run::poll() const {
  RunState* state = state_of(*this, "poll");
  return state ? state->poll() : Status::completed;
}
bool Run::is_state_over() const noexcept { return state_->is_over(); }
void Run::wait() const {
  if (RunState* state = state_of(*this, "wait")) state->wait(engine::Clock::time_point::max());
}
bool Run::wait_seconds(std::chrono::duration<double> timeout) const {
  constexpr std::chrono::duration<double> for_ever = std::chrono::hours(24 * 365 * 100);
  RunState* state = state_of(*this, "wait_for");
  if (!state) return true;
  auto until = engine::Clock::time_point::max();
  if (timeout < for_ever) {
    const auto rest = std::max(timeout, std::chrono::duration<double>::zero());
    until = engine::Clock::now() + std::chrono::ceil<engine::Clock::duration>(rest);
  }
  return state->wait(until);
}
bool Run::cancel(Errc reason, std::string_view why) const {
  RunState* state = state_of(*this, "cancel");
  return state && state->cancel(reason, why);
}
bool Run::add_observer(Observer& observer) const { return state_ && state_->add_observer(observer); }
bool Run::remove_observer(Observer& observer) const { return state_ && state_->remove_observer(observer); }
void Run::before_user_code() const noexcept {
  if (state_) state_->device().scheduler->before_user_code();
}
const std::exception_ptr& Run::failure() const noexcept {
  static const std::exception_ptr none;
  return state_ ? state_->failure() : none;
}
void Run::throw_if_state_failed() const {
  if (state_->failure()) std::rethrow_exception(state_->failure());
}
OperationNode& Run::root_of_state() const noexcept { return *state_->root(); }
NodePtr Run::take_root() const noexcept { return state_ ? std::move(state_->root()) : std::move(root_); }

}  // namespace tessera::detail
