// What becomes of a run on its way: its groups begin and end, it is stopped, its times are kept.
#include "pipeline/pipeline_state.hpp"

#include <utility>

namespace tessera::detail::engine {

std::unique_ptr<PipelineRun> RunLog::take() {
  const std::scoped_lock lock(mutex_);
  if (free_.empty()) return std::make_unique<PipelineRun>();
  std::unique_ptr<PipelineRun> run = std::move(free_.back());
  free_.pop_back();
  return run;
}

void RunLog::keep(std::unique_ptr<PipelineRun> run) {
  run->log = nullptr;                             // it would keep this log
  std::shared_ptr<const PipelinePlan> forgotten;  // goes after the lock
  const std::scoped_lock lock(mutex_);
  last_.swap(run);
  if (!run) return;
  forgotten = std::move(run->plan);
  run->failure = nullptr;
  free_.push_back(std::move(run));
}

void note_start(Work& node) noexcept {
  const Clock::time_point now = Clock::now();
  std::vector<PipelineRun::Time>& times = node.join->run->times;
  if (!node.batch) {
    times[node.group].start = now;
  } else {
    for (PipelineRun::Time& time : times) time.start = now;
  }
}

namespace {

// Whether the run is over now, before its groups have left the order, and the caller is the one to say so. Under the
// run's lock.
bool try_end(Work& join) noexcept {
  // One that has not begun is cancelled as a whole, by somebody else.
  const bool is_running = join.status() == Status::running;
  return join.run->is_stopped && join.run->parts_left == 0 && join.run->failure && is_running && join.try_claim();
}

}  // namespace

Ref<Work> note_end(Work& node) noexcept {
  Work& join = *node.join;
  PipelineRun& run = *join.run;
  const std::scoped_lock lock(run.lock);
  PipelineRun::Time& time = run.times[node.group];
  if (time.start != Clock::time_point()) time.end = Clock::now();
  if (node.batch) run.times.assign(run.times.size(), time);
  if (node.failure && (!run.failure || node.group < run.failed_group)) {
    run.failed_group = node.group;
    run.failure = node.failure;
    run.outcome = node.outcome;
  }
  --run.parts_left;
  return try_end(join) ? Ref<Work>(&join) : Ref<Work>();
}

void keep_times(Work& join) noexcept {
  std::unique_ptr<PipelineRun> run;
  {
    const std::scoped_lock lock(join.failure_lock);  // stop_run may look
    run = std::move(join.run);
  }
  run->end = Clock::now();
  run->outcome = join.outcome;
  const std::shared_ptr<RunLog> log = run->log;
  log->keep(std::move(run));
}

void stop_run(Work& join, Errc reason, std::string_view why) {
  std::vector<Ref<Work>> parts;
  {
    // No node begins another life under the order lock, and no record goes under the join's.
    const std::scoped_lock order(join.device->order);
    const std::scoped_lock lock(join.failure_lock);
    if (!join.run) return;
    for (const Position& part : join.run->parts) {
      if (part.node->serial() != part.serial) continue;
      if (Ref<Work> shared = WorkPool::try_share(static_cast<Work&>(*part.node))) parts.push_back(std::move(shared));
    }
    const std::scoped_lock run_lock(join.run->lock);
    join.run->is_stopped = true;
  }
  for (const Ref<Work>& part : parts) cancel(*part, reason, why);
  bool is_over = false;
  {
    const std::scoped_lock lock(join.failure_lock);
    if (!join.run) return;
    const std::scoped_lock run_lock(join.run->lock);
    is_over = try_end(join);
  }
  if (is_over) end_stopped(join);
}

}  // namespace tessera::detail::engine
