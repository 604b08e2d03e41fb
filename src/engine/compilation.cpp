#include "engine/compilation.hpp"

#include "core/text.hpp"
#include "engine/device_state.hpp"
#include "engine/execution.hpp"
#include "engine/launch_sequence.hpp"
#include "engine/observe/trace_record.hpp"
#include "plan/compiled_plan.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <new>
#include <unordered_set>
#include <utility>
#include <vector>

namespace tessera::detail::engine {

std::uint64_t Compilations::begin(std::string_view label) noexcept {
  const std::scoped_lock lock(mutex_);
  if (spans_.size() == most) spans_.pop_front();
  try {
    spans_.push_back({++count_, std::string(label), Clock::now()});
  } catch (const std::bad_alloc&) {  // a message will say less
  }
  return count_;
}

void Compilations::end(std::uint64_t number) noexcept {
  const std::scoped_lock lock(mutex_);
  const auto span = std::ranges::find(spans_, number, &Span::number);
  if (span != spans_.end()) span->end = Clock::now();
}

std::string Compilations::during(Clock::time_point from, Clock::time_point until) const {
  const std::scoped_lock lock(mutex_);
  const Span* longest = nullptr;
  Clock::duration most_time = (until - from) / 4;  // less is hardly to blame
  for (const Span& span : spans_) {
    const Clock::duration time = std::min(span.end, until) - std::max(span.begin, from);
    if (time <= most_time) continue;
    most_time = time;
    longest = &span;
  }
  return longest ? longest->label : std::string();
}

namespace {

core::FailurePtr compile_launch(DeviceState& device, const driver::Launch& launch, std::string_view label,
                                std::string_view context) noexcept {
  if (!launch.executable || launch.executable->is_ready()) return nullptr;
  const std::unique_ptr<TraceRecord> trace = begin_trace_record();
  if (trace) trace_start(*trace);
  const std::uint64_t number = device.compilations.begin(label);
  core::FailurePtr failure = prepare_launch(*device.driver, launch, label, context);
  device.compilations.end(number);
  if (trace) {
    trace_end(*trace, {device.number, launch.command, label, 0, failure ? Status::failed : Status::completed, true});
  }
  return failure;
}

bool is_compiled(const Work& work) noexcept {
  const auto is_ready = [](const driver::Launch& launch) {
    return launch.elements == 0 || !launch.executable || launch.executable->is_ready();
  };
  return work.sequence ? std::ranges::all_of(work.sequence->launches, is_ready) : is_ready(work.launch);
}

// Groups that several threads compile. Whoever is late finds nothing left to do.
struct SharedGroups {
  std::span<const plan::CompiledGroup> groups;  // valid until all are done
  std::vector<std::size_t> wanted;              // of these, one for each executable
  std::atomic<std::size_t> taken{0};
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t done = 0;
  std::size_t failed_group = ~std::size_t{0};
  core::FailurePtr failure;

  void compile_some(DeviceState& device) noexcept {
    while (true) {
      const std::size_t index = taken.fetch_add(1);
      if (index >= wanted.size()) return;
      const plan::CompiledGroup& group = groups[wanted[index]];
      core::FailurePtr failed = compile_launch(device, group.launch, group.label, group.context);
      const std::scoped_lock lock(mutex);
      if (failed && wanted[index] < failed_group) {
        failed_group = wanted[index];
        failure = std::move(failed);
      }
      if (++done == wanted.size()) changed.notify_all();
    }
  }
};

}  // namespace

core::FailurePtr compile_if_needed(Work& work) noexcept {
  if (is_compiled(work)) [[likely]]
    return nullptr;
  DeviceState& device = *work.device;
  const Clock::time_point begin = Clock::now();
  core::FailurePtr failure;
  if (!work.sequence) {
    failure = compile_launch(device, work.launch, work.label, work.context);
  } else {
    for (const driver::Launch& launch : work.sequence->launches) {
      if (!failure) failure = compile_launch(device, launch, work.label, work.context);
    }
  }
  if (work.listener) work.listener->compiled(work, Clock::now() - begin);
  return failure;
}

core::FailurePtr compile_all(DeviceState& device, std::span<const plan::CompiledGroup> groups) {
  const auto shared = std::make_shared<SharedGroups>();
  shared->groups = groups;
  std::unordered_set<const driver::Executable*> seen;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const driver::Executable* executable = groups[g].launch.executable;
    if (executable && !executable->is_ready() && seen.insert(executable).second) shared->wanted.push_back(g);
  }
  if (shared->wanted.empty()) return nullptr;
  const auto threads = static_cast<std::size_t>(device.driver->info().compute_units);
  for (std::size_t i = 1; i < std::min(threads, shared->wanted.size()); ++i) {
    leave_to_worker(device, "compile", [shared, held = Ref<DeviceState>(&device)] { shared->compile_some(*held); });
  }
  shared->compile_some(device);
  std::unique_lock lock(shared->mutex);
  shared->changed.wait(lock, [&] { return shared->done == shared->wanted.size(); });
  return shared->failure;
}

std::string too_late(const DeviceState& device, Clock::time_point deadline, Clock::duration allowed) {
  constexpr std::string_view late = "could not start before its deadline";
  const std::string compiled = device.compilations.during(deadline - allowed, deadline);
  if (compiled.empty()) return std::string(late);
  return core::text(late, ", because [", compiled, "] was being compiled: Pipeline::compile() does that beforehand");
}

}  // namespace tessera::detail::engine
