// How recorded calls are submitted.
#include <tessera/error.hpp>

#include "api/kernel_call.hpp"
#include "operation/call_recorder.hpp"
#include "operation/operation_cache.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <span>
#include <string>
#include <utility>

namespace tessera::detail::operation {

namespace {

// Temporaries that a plan retains for its next run; larger ones go back to the pool each time.
constexpr std::size_t max_retained_bytes = 65'536;

core::FailurePtr failure_of_current_exception() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return error.failure();
  } catch (const std::bad_alloc&) {
    return core::out_of_memory();
  } catch (const std::exception& error) {
    return core::describe_failure(Errc::internal, [&] { return std::string(error.what()); });
  } catch (...) {
    return core::describe_failure(Errc::internal, [] { return std::string("a non-std::exception was thrown"); });
  }
}

}  // namespace

void CallRecorder::flush() noexcept {
  const std::scoped_lock lock(mutex_);
  while (!try_flush(false)) {
  }
}

CallRecorder::FlushResult CallRecorder::flush(bool can_wait) noexcept {
  const std::scoped_lock lock(mutex_);
  const bool is_short_of_memory = !try_flush(can_wait);
  return {commands_.size(), failure_, is_short_of_memory};
}

Ref<engine::Work> CallRecorder::command(std::size_t index) noexcept {
  const std::scoped_lock lock(mutex_);
  return commands_[index];
}

// False if there was no memory for all calls: the rest stays recorded.
bool CallRecorder::try_flush(bool can_wait) noexcept {
  if (batch_.empty()) return true;
  core::FailurePtr failure;
  const std::size_t before = commands_.size();
  try {
    submit_all();
  } catch (...) {
    failure = failure_of_current_exception();
    const bool is_short_of_memory = failure->code == Errc::out_of_memory;
    if (is_short_of_memory && (can_wait || commands_.size() != before)) return false;
    if (is_short_of_memory && !is_one_by_one_ && batch_.calls().size() > 1) {
      is_one_by_one_ = true;
      batch_.drop_promised_buffers();
      return false;
    }
    if (!failure_) failure_ = failure;
  }
  settle(failure);
  return true;
}

void CallRecorder::submit_all() {
  batch_.drop_unneeded();
  if (is_one_by_one_) return submit_one_by_one();
  const auto is_needed = [](const RecordedCall& call) { return call.kernel != nullptr; };
  const auto count = std::ranges::count_if(batch_.calls(), is_needed);
  allocate_operands(count == 1);
  if (count == 0) return;
  if (count == 1) return submit_one(*std::ranges::find_if(batch_.calls(), is_needed));
  submit_plan();
}

// Each call gets its memory just before it is submitted; temporaries are released after their last use.
void CallRecorder::submit_one_by_one() {
  for (std::size_t c = 0; c < batch_.calls().size(); ++c) {
    RecordedCall& call = batch_.calls()[c];
    if (!call.kernel) continue;
    for (const OperandUse& use : call.uses) allocate(batch_.operands[use.operand]);
    submit_one(call);
    call.kernel = nullptr;
    for (const OperandUse& use : call.uses) {
      Operand& operand = batch_.operands[use.operand];
      if (operand.last_use != c || !operand.is_promised || operand.is_held()) continue;
      operand.buffer = {};
      operand.is_needed = false;
    }
  }
  allocate_operands(false);
}

// Operands that are held or read without having been written need memory. In a plan the others are temporaries.
void CallRecorder::allocate_operands(bool is_single_call) {
  for (Operand& operand : batch_.operands) {
    if (operand.buffer || !operand.is_needed) continue;
    if (is_single_call || operand.is_read_first || operand.is_held()) allocate(operand);
  }
}

void CallRecorder::allocate(Operand& operand) {
  if (!operand.buffer)
    operand.buffer =
        Access::make<Buffer>(engine::allocate(*device_, operand.tensor->shape, operand.tensor->dtype, false));
}

void CallRecorder::submit_one(const RecordedCall& call) {
  const Buffer output = batch_.buffer_of(call.uses[0]);
  std::array<Buffer, 4> few;
  std::vector<Buffer> many;
  const std::size_t count = call.uses.size() - 1;
  if (count > few.size()) many.resize(count);
  const std::span<Buffer> inputs(count > few.size() ? many.data() : few.data(), count);
  for (std::size_t i = 0; i < count; ++i) inputs[i] = batch_.buffer_of(call.uses[i + 1]);
  make_room_for_command();
  KernelCall kernel_call(std::span<const Buffer>(inputs), output, call.given(), Access::get(stream_));
  add_command(engine::submit(*device_, kernel_call.of(*call.kernel, call.tile)));
}

void CallRecorder::submit_plan() {
  batch_.number_operands();
  batch_.throw_if_freed();
  const std::shared_ptr<OperationCache> cache = OperationCache::of(*device_);
  const std::shared_ptr<const engine::PlanVariant> variant = planner_.plan(*device_, batch_, cache.get());
  std::vector<engine::Storage*> bound(batch_.numbered_count(), nullptr);
  for (std::size_t i = 0; i < batch_.operands.size(); ++i) {
    const std::size_t number = batch_.number_of(i);
    const engine::View* view = Access::get(batch_.operands[i].buffer);
    if (number != no_index && view) bound[number] = view->storage;
  }
  std::erase(bound, nullptr);
  const auto log = cache ? cache->log : std::make_shared<engine::RunLog>();
  make_room_for_command();
  add_command(engine::submit(*device_, {variant, log, bound, Access::get(stream_)}));
  if (variant->plan->plan.peak > max_retained_bytes) engine::drop_instances(*device_, *variant->plan);
}

// Before a command is submitted: one that is in flight must not get lost.
void CallRecorder::make_room_for_command() {
  if (commands_.size() == commands_.capacity()) commands_.reserve(2 * commands_.size() + 1);
}

// Throws if the command was refused: it has written and poisoned nothing then.
void CallRecorder::add_command(Ref<engine::Work> command) {
  if (command->is_settled() && command->failure) throw Error(command->failure);
  commands_.push_back(std::move(command));
}

void CallRecorder::submit_host(engine::HostWork work) {
  const std::scoped_lock lock(mutex_);
  make_room_for_command();
  if (Ref<engine::Work> command = engine::submit_host(*device_, std::move(work))) {
    commands_.push_back(std::move(command));
  }
}

}  // namespace tessera::detail::operation
