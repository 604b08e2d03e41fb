#pragma once

#include <tessera/pipeline.hpp>

#include "engine/cross_device.hpp"
#include "engine/device_state.hpp"
#include "engine/launch_sequence.hpp"
#include "plan/plan.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tessera::detail::engine {

// One group of a plan, as it is launched.
struct CompiledGroup {
  Work::Kind kind = Work::Kind::kernel;  // or host: a barrier, a call
  std::string label;
  int stage = 0;  // its first
  std::int64_t work = 0;
  driver::Launch launch = {};         // of a kernel; without addresses
  std::vector<std::size_t> operands;  // the buffers of the launch, in its order
  std::vector<std::size_t> inputs;    // buffers
  std::vector<std::size_t> outputs;
  HostFunction function = {};  // of a call
  Buffer borrowed = {};        // of a copy between devices: the other device's buffer
  std::vector<plan::Use> input_uses = {};
  std::vector<plan::Use> output_uses = {};
};

// The memory of one run at a time: its temporaries, and the launches with their addresses in them. All but the places
// is used under the order lock only.
struct PipelineInstance {
  std::vector<Buffer> places;
  std::vector<Storage*> storages;              // by buffer
  std::vector<driver::Launch> launches;        // by group
  bool is_ready = false;                       // all that is launched is compiled
  std::shared_ptr<RecordedLaunches> recorded;  // on a device with a queue

  bool is_idle() const noexcept;
};

// What a pipeline comes down to for some values of its parameters. Immutable but for the instances.
struct PipelinePlan {
  plan::PipelineGraph graph;
  plan::Plan plan;
  std::vector<std::string> warnings;
  std::vector<CompiledGroup> groups;
  std::vector<std::optional<plan::StageForm>> forms;  // by stage: of those that use parameters and were fused
  std::vector<Buffer> buffers;                        // the caller's own; empty handles for the others
  std::vector<std::size_t> slots;                     // which buffers are slots
  std::vector<std::size_t> used;                      // which are used at all; of the temporaries one a place
  std::vector<bool> is_written;                       // by buffer
  bool is_small = false;                              // worth doing on the spot
  bool is_all_kernels = false;                        // a device with a queue takes it as a whole
  std::vector<std::size_t> borrowing;                 // which groups copy between devices, in the order of their stages
  std::vector<DeviceState*> lenders;  // the devices of those copies and the plan's own, sorted for OrderLocks

  // Several runs under way need memory of their own each; beyond these they wait for each other. Under the order lock,
  // and changed only by who holds `growing` too.
  static constexpr std::size_t most_instances = 4;
  std::vector<std::unique_ptr<PipelineInstance>> instances;
  std::size_t next_instance = 0;
  std::mutex growing;
};

// A plan with the values that its parameters have in a run.
struct PipelineVariant {
  std::vector<Value> values;
  std::shared_ptr<PipelinePlan> plan;
  // The scalars of the groups that use parameters.
  struct Patch {
    std::size_t group;
    std::vector<std::uint64_t> scalars;
  };
  std::vector<Patch> patches;
};

class RunLog;

// One run on its way, or the last one that is over.
struct PipelineRun {
  std::shared_ptr<const PipelinePlan> plan;
  std::shared_ptr<RunLog> log;
  std::uint64_t number = 0;
  Clock::time_point begin, end;
  struct Time {
    Clock::time_point start, end;
  };
  std::vector<Time> times;              // by group; a start of 0: it has not started
  std::vector<engine::Position> parts;  // the groups' nodes
  std::vector<Loan> loans;              // until all is armed: of the plan's `borrowing`

  core::SpinLock lock;         // of the rest
  std::size_t parts_left = 0;  // groups that are not over: neither ended nor cancelled
  bool is_stopped = false;     // no other group will start: it is over when those that have are
  // Of the groups that failed the first one's, which is a root: those that depend on it come after it.
  std::size_t failed_group = 0;
  core::FailurePtr failure;
  Status outcome = Status::completed;
};

// The runs of one pipeline. Any thread.
class RunLog {
 public:
  // An empty record, which keeps the room of an earlier one.
  std::unique_ptr<PipelineRun> take();
  // It is over: the last one from now on.
  void keep(std::unique_ptr<PipelineRun> run);
  // Under the order lock: the number of the next run.
  std::uint64_t next_number() noexcept { return ++count_; }

  // plan::CallCache `look` with the last run, if there is one.
  template <class Look>
  void last(Look&& look) {
    const std::scoped_lock lock(mutex_);
    if (last_) look(*last_);
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<PipelineRun> last_;
  std::vector<std::unique_ptr<PipelineRun>> free_;
  std::uint64_t count_ = 0;
};

// What a graph comes down to for these values of its parameters. `buffers` are the caller's own, with empty handles for
// the others. Throws all that is wrong as one Error, the problems that are known already too (pipeline_compile.cpp).
std::shared_ptr<PipelinePlan> make_plan(DeviceState& device, plan::PipelineGraph of, std::vector<Buffer> buffers,
                                        const std::vector<Value>& values, bool fuse,
                                        std::vector<plan::Problem> problems = {});
// The scalars that these values give a plan; nothing if they would change more than scalars.
std::optional<std::vector<PipelineVariant::Patch>> patches_of(DeviceState& device, const PipelinePlan& plan,
                                                              const std::vector<Value>& values);
// The buffer of a copy that is another device's, if just one of the two is (pipeline_graph.cpp).
const Buffer* borrowed_of(const Stage& stage, const DeviceState& device);
// Runs a plan whose slots are these storages, in the plan's order; does not block (pipeline_run.cpp).
Ref<Work> start_plan(DeviceState& device, const std::shared_ptr<const PipelineVariant>& variant,
                     const std::shared_ptr<RunLog>& log, std::span<Storage* const> bound, StreamState* stream);
// The temporaries' memory of runs that are over, or will be, goes back to the device.
void drop_instances(DeviceState& device, PipelinePlan& plan);

// Of a group's life (pipeline_life.cpp), called by execute.cpp.
void note_start(Work& node) noexcept;
// It has ended, and will not touch its run any more: before it retires, or settles as cancelled. Returns the run if it
// was stopped and this was the last group that had started: the caller must call end_stopped().
Ref<Work> note_end(Work& node) noexcept;
void keep_times(Work& join) noexcept;
// The groups of a run that have not started are cancelled.
void stop_run(Work& join, Errc reason, std::string_view why);

// plan::CallCache the function of a call stage (host_call.cpp). Throws what it throws, as an Error.
void call_host_function(const CompiledGroup& group, Work& node);
// Errc::invalid_argument if this thread is in a call stage, and who reads or writes the storage would wait for that,
// directly or not: it would wait for itself. Null if not. Under the order lock.
core::FailurePtr wait_for_own_call(const Storage& storage, bool writes, std::string_view label);
// The same for one who waits for all that the device does.
void expect_not_in_call(const DeviceState& device, std::string_view label);

// What HostCall looks at.
struct HostCallView {
  const CompiledGroup& group;
  const Work& node;
  // Of memory that the host cannot address: what the call sees instead, of the inputs, then of the outputs.
  std::vector<std::vector<std::byte>> copies;
};

// One mistake in what a run was given.
struct BindingProblem {
  Errc code;
  std::string what;
};

// What Pipeline holds.
struct PipelineState {
  PipelineState(DeviceState& on, const PipelineOptions& with) : device(&on), options(with) {}

  // A temporary or slot of this pipeline.
  struct Placeholder {
    Buffer handle;
    plan::PipelineBuffer::Kind kind;
    std::string name;
  };

  const Ref<DeviceState> device;
  const PipelineOptions options;

  std::mutex mutex;  // of all below
  std::vector<Stage> stages;
  std::vector<Placeholder> placeholders;
  std::vector<Param> params;
  std::vector<std::shared_ptr<const PipelineVariant>> variants;  // the one used last comes last
  const std::shared_ptr<RunLog> log = std::make_shared<RunLog>();

  std::unique_ptr<PipelineState> clone();
  Buffer add_placeholder(plan::PipelineBuffer::Kind kind, std::string name, const Shape& shape, DType dtype);

  // The stages as a graph; what is wrong with them so far (pipeline_graph.cpp). Under the mutex.
  plan::PipelineGraph graph(std::vector<Buffer>& buffers, std::vector<plan::Problem>& problems) const;
  // The plan for these bindings; what is wrong with their names goes to `problems`, and such bindings count as missing.
  // Throws what is wrong with the stages.
  std::shared_ptr<const PipelineVariant> variant(const Bindings& bindings, std::vector<BindingProblem>& problems);
  std::shared_ptr<const PipelineVariant> variant();  // for the defaults

  // The plan for the defaults, and its code.
  void compile();

  // Pipeline's run and submit (pipeline_run.cpp).
  void run(const Bindings& bindings, StreamState* stream);
  Ref<Work> submit(const Bindings& bindings, StreamState* stream);
};

}  // namespace tessera::detail::engine
