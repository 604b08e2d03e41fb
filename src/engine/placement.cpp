#include "engine/placement.hpp"

#include "engine/execution.hpp"
#include "engine/observe/trace_record.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace tessera::detail::engine {

namespace {

// Allocates whatever placing an item may need.
void reserve(Work& work, std::size_t also_after) {
  std::size_t count = also_after;
  for (Storage* input : work.inputs) {
    count += input->hazards.count_before(false);
    input->hazards.reserve_readers(work.inputs.size());  // it may be listed more than once
  }
  for (const Storage* output : work.outputs) count += output->hazards.count_before(true);
  std::vector<Ordered*>& earlier = work.device->earlier;
  if (count > earlier.capacity()) earlier.reserve(std::max(count, 2 * earlier.capacity()));
  if (count > work.edges.size() && count > work.more_edges.size()) work.more_edges.resize(count);
  if (work.trace) work.trace->waited_for.reserve(count);
}

// Makes the item wait for the earlier ones that have not finished.
void wait_for_all(Work& work, const std::vector<Ordered*>& earlier) noexcept {
  Edge* edges = earlier.size() > work.edges.size() ? work.more_edges.data() : work.edges.data();
  for (std::size_t i = 0; i < earlier.size(); ++i) {
    if (work.wait_for(*earlier[i], edges[i]) && work.trace) {
      const CommandId id = static_cast<Work*>(earlier[i])->id;
      if (id != 0) work.trace->waited_for.push_back(id);
    }
  }
}

void number(DeviceState& device, Work& work) {
  device.commands.next();
  device.commands.add(work);
  work.launch.command = work.id;
}

// Whether a run needs a buffer's contents from before the run.
bool is_read_first(const ExecutablePlan& plan, std::size_t buffer) {
  const auto has = [&](const std::vector<std::size_t>& list) { return std::ranges::find(list, buffer) != list.end(); };
  for (const plan::CompiledGroup& group : plan.groups) {
    if (has(group.inputs)) return true;
    if (has(group.outputs)) return false;
  }
  return false;
}

void follow(const Run& run, Work& work) {
  work.priority = run.barrier.priority;
  work.deadline = run.barrier.deadline;
  run.tracker.add(work);
}

// Takes a group as a work item without a position, which the tracker lists.
void take_group(const Run& run, std::size_t g) {
  DeviceState& device = *run.barrier.device;
  Taken taken = take_work(device, run.instance.groups[g]);
  Work& work = *taken;
  number(device, work);
  work.trace = begin_trace_record();
  if (const ExecutablePlan::Function& function = run.plan.functions[g]) {
    work.cost = unknown_cost;
    work.host = [&function, &work] { function(work); };
  } else if (const Ref<View>& other = run.plan.borrowed[g]) {
    work.host = [&other, &work] {
      if (work.inputs.empty()) {
        transfer(*other->storage, *work.outputs[0], other->bytes);
      } else {
        transfer(*work.inputs[0], *other->storage, other->bytes);
      }
    };
  }
  follow(run, work);
  taken.keep();
}

// Places the loans of buffers that the groups borrow from other devices. Under the order locks of those too.
void place_loans(const Run& run, Unarmed& unarmed) {
  run.tracker.loans.clear();
  run.tracker.loans.reserve(run.plan.borrowing.size());
  for (const std::size_t g : run.plan.borrowing) {
    Work& out = lend(*run.plan.borrowed[g]->storage, run.plan.groups[g].outputs.empty());
    unarmed.add(out);
    const Loan loan = take_back(out, static_cast<Work&>(*run.tracker.works()[g].entry));
    unarmed.add(*loan.back);
    run.tracker.loans.push_back(loan);
  }
}

}  // namespace

Unarmed::~Unarmed() {
  while (Work* work = first_) {
    first_ = work->next_free;
    work->listener = nullptr;  // its run does not exist
    fail_early(*work, core::out_of_memory());
    if (work->arm()) execute(*work);
  }
}

Taken take_work(DeviceState& device, const BoundGroup& group) {
  Taken taken(device.works.take(device));
  Work& work = *taken;
  work.kind = group.kind;
  work.heals = group.heals;
  work.label = group.label;
  work.context = group.context;
  work.inputs = group.inputs;
  work.outputs = group.outputs;
  work.launch = group.launch;
  work.cost = estimated_cost(group.launch.cost) + (group.is_compiled() ? 0 : compilation_cost);
  return taken;
}

Taken take_host_work(DeviceState& device, std::string_view label) {
  Work& work = device.works.take(device);
  work.kind = Work::Kind::host;
  work.id = 0;
  work.label = label;
  work.heals = false;
  work.cost = estimated_cost(0);
  return Taken(work);
}

Ref<Work> take_ended(DeviceState& device, std::string_view label, Status status, core::FailurePtr failure) {
  Work& work = device.works.take_ended(status);
  // Not added to the table of commands: a failure is remembered there, and any other command that is not found has
  // completed.
  work.id = device.commands.last();
  work.device_number = device.number;
  work.label = label;
  work.failure = std::move(failure);
  if (work.failure) {
    device.commands.remember(work.id, status, work.failure);
    device.unseen_failures.add(work.failure);
  }
  return Ref<Work>::adopt(&work);
}

void place(Work& work, std::span<Ordered* const> also_after) {
  reserve(work, also_after.size());
  std::vector<Ordered*>& earlier = work.device->earlier;
  earlier.clear();
  const auto wait_for = [&](Ordered& other) { earlier.push_back(&other); };
  for (Storage* input : work.inputs) {
    if (std::ranges::find(work.outputs, input) == work.outputs.end()) input->hazards.read(work, wait_for);
  }
  for (Storage* output : work.outputs) output->hazards.write(work, wait_for);
  for (Ordered* other : also_after) earlier.push_back(other);
  wait_for_all(work, earlier);
}

namespace {

void place_groups(const Run& run, Ordered* last, Unarmed& unarmed, std::size_t& placed) {
  const ExecutablePlan& plan = run.plan;
  const std::vector<Position>& works = run.tracker.works();
  for (std::size_t g = 0; g < plan.groups.size(); ++g) take_group(run, g);
  place_loans(run, unarmed);
  std::vector<Ordered*>& after = run.tracker.after;
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    const plan::Group& group = plan.plan.groups[g];
    after.clear();
    for (std::size_t i = 0; i < plan.borrowing.size(); ++i) {
      if (plan.borrowing[i] == g) after.push_back(run.tracker.loans[i].out);
    }
    for (const std::size_t before : group.ordered_after) after.push_back(works[before].entry);
    if (last && group.after.empty()) after.push_back(last);
    auto& work = static_cast<Work&>(*works[g].entry);
    place(work, after);
    unarmed.add(work);
    ++placed;
  }
  number(*run.barrier.device, run.barrier);
  after.clear();
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    if (plan.plan.groups[g].is_last) after.push_back(works[g].entry);
  }
  if (last && plan.groups.empty()) after.push_back(last);
  place(run.barrier, after);
}

}  // namespace

void place(const Run& run, Ordered* last, Unarmed& unarmed) {
  std::size_t placed = 0;
  try {
    place_groups(run, last, unarmed, placed);
  } catch (...) {
    const std::vector<Position>& works = run.tracker.works();
    for (std::size_t i = placed; i < works.size(); ++i) release(static_cast<Work*>(works[i].entry));
    throw;
  }
  unarmed.dismiss();
}

void place_sequence(const Run& run, Ordered* last, Unarmed& unarmed) {
  DeviceState& device = *run.barrier.device;
  const ExecutablePlan& plan = run.plan;
  Taken taken(device.works.take(device));
  Work& work = *taken;
  number(device, work);
  work.kind = Work::Kind::kernel;
  work.label = plan.groups.front().label;
  work.context = plan.groups.front().context;
  for (const std::size_t buffer : plan.used) {
    if (is_read_first(plan, buffer)) work.inputs.push_back(run.instance.storages[buffer]);
    if (plan.is_written[buffer]) work.outputs.push_back(run.instance.storages[buffer]);
  }
  work.sequence = std::make_unique<LaunchSequence>(LaunchSequence{{}, run.instance.recorded});
  for (const BoundGroup& group : run.instance.groups) work.sequence->launches.push_back(group.launch);
  work.cost = estimated_cost(0);
  run.tracker.loans.clear();
  follow(run, work);
  place(work, std::span(&last, last ? 1 : 0));
  unarmed.add(taken.keep());
  number(device, run.barrier);
  Ordered* before = &work;
  place(run.barrier, std::span(&before, 1));
  unarmed.dismiss();
}

void arm(DeviceState& device, Work& work, bool may_run_here) {
  if (!work.arm()) return;
  if (may_run_here) {
    const DeviceQueue::Attended attended(work);
    execute(work);
  } else if (starts_at_once(work)) {
    execute(work);
  } else {
    device.scheduler->push(work);
  }
}

void arm_run(DeviceState& device, RunTracker& tracker, Work& barrier, bool may_run_here) {
  Work* mine = nullptr;
  const auto go = [&](Work& work) {
    if (!may_run_here) return device.scheduler->push(work);
    if (Work* other = std::exchange(mine, &work)) device.scheduler->push(*other);
  };
  // Once its last item is armed, the run may finish, and its record may be reused by another run.
  const Position* works = tracker.works().data();
  const std::size_t count = tracker.works().size();
  const std::vector<Loan> loans = std::move(tracker.loans);
  for (const Loan& loan : loans) arm(loan);
  if (barrier.arm()) go(barrier);
  for (std::size_t i = 0; i < count; ++i) {
    if (auto& work = static_cast<Work&>(*works[i].entry); work.arm()) go(work);
  }
  if (!mine) return;
  // The caller will wait for the run. A sequence is the whole run; a single group needs another thread to watch it.
  std::optional<DeviceQueue::Attended> attended;
  if (mine->sequence) attended.emplace(*mine);
  execute(*mine);
}

}  // namespace tessera::detail::engine
