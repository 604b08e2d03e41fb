#include "engine/submission.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"
#include "engine/device_state.hpp"
#include "engine/observe/trace_record.hpp"
#include "engine/stream_state.hpp"
#include "kernels/kernel.hpp"
#include "pipeline/pipeline_state.hpp"

#include <algorithm>
#include <new>

namespace tessera::detail::engine {

namespace {

using core::text;

const View& checked_operand(const DeviceState& device, const kernels::Kernel& kernel, const Buffer& buffer,
                            std::size_t index, bool is_output) {
  const auto name = [&] {
    return is_output ? text("[", kernel.name, "] output") : text("[", kernel.name, "] input ", index);
  };
  const View* view = Access::get(buffer);
  if (!view) [[unlikely]]
    throw Error(Errc::invalid_argument, name() + " is an empty buffer handle");
  if (view->storage->device.get() != &device) [[unlikely]] {
    throw Error(Errc::wrong_device, text(name(), ", ", describe(*view), ", lives on another device: ",
                                         view->storage->device->name(), ", not ", device.name()));
  }
  return *view;
}

using Prepared = DeviceState::Prepared;

// A kernel that looks around cannot write where it reads.
void check_aliases(const DeviceState::Call& call, const Prepared& prepared) {
  for (std::size_t i = 0; i < prepared.inputs.size(); ++i) {
    if (prepared.inputs[i] != prepared.output) [[likely]]
      continue;
    const View &input = *Access::get(call.inputs[i]), &output = *Access::get(call.output);
    const bool is_in_place = i < 64 && (prepared.program->in_place >> i & 1) != 0;
    if (is_in_place && input.shape == output.shape && input.bytes == output.bytes) continue;
    throw Error(Errc::invalid_argument,
                text("[", prepared.kernel->name, "] output must not be input ", i, ": ",
                     is_in_place ? text("it is read as ", describe(input), " and written as ", describe(output))
                                 : "it reads its neighbours"));
  }
}

void prepare(DeviceState& device, const DeviceState::Call& call, Prepared& prepared) {
  device.expect_own_process();
  const kernels::Kernel& kernel = call.known         ? *call.known
                                  : call.tile_kernel ? kernels::of(*call.tile_kernel)
                                                     : kernels::find(call.kernel);
  prepared.kernel = &kernel;
  driver::Launch& launch = prepared.launch;

  const View& output = checked_operand(device, kernel, call.output, 0, true);
  prepared.output = output.storage;
  launch.buffers.push_back(output.storage->block.address);
  launch.elements = output.shape.elements();
  launch.bytes = static_cast<std::int64_t>(output.bytes);

  core::InlineVector<kernels::Operand, 4> operands;
  operands.push_back({output.dtype, &output.shape});
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const View& input = checked_operand(device, kernel, call.inputs[i], i, false);
    operands.push_back({input.dtype, &input.shape});
    prepared.inputs.push_back(input.storage);
    launch.buffers.push_back(input.storage->block.address);
    launch.bytes += static_cast<std::int64_t>(input.bytes);
  }
  prepared.program = &device.calls.resolve(kernel, {operands.data(), operands.size()}, call.params, launch, call.tile);
  check_aliases(call, prepared);
}

// What it costs, in bytes that are merely moved.
std::int64_t work_of(const Prepared& prepared) { return prepared.launch.bytes * prepared.program->weight; }

// Under the order lock, as no free() can come between.
core::FailurePtr check_not_freed(const Prepared& prepared) {
  const auto failure = [&](const std::string& what, const Storage& storage) {
    return unusable(text("[", prepared.kernel->name, "] ", what), storage);
  };
  if (prepared.output->is_freed.load(std::memory_order_relaxed)) [[unlikely]]
    return failure("output", *prepared.output);
  for (std::size_t i = 0; i < prepared.inputs.size(); ++i) {
    if (prepared.inputs[i]->is_freed.load(std::memory_order_relaxed)) [[unlikely]]
      return failure(text("input ", i), *prepared.inputs[i]);
  }
  return nullptr;
}

// Why whoever waits for it would wait for the call that this thread is in.
core::FailurePtr wait_for_own_call(const Prepared& prepared) {
  core::FailurePtr own = wait_for_own_call(*prepared.output, true, prepared.kernel->name);
  for (std::size_t i = 0; i < prepared.inputs.size() && !own; ++i) {
    own = wait_for_own_call(*prepared.inputs[i], false, prepared.kernel->name);
  }
  return own;
}

// For one who waits at once.
void expect_not_after_call(const Storage& storage, bool writes, std::string_view label) {
  if (core::FailurePtr own = wait_for_own_call(storage, writes, label)) throw Error(std::move(own));
}

// Under the order lock: whether all that comes before is over.
bool can_run_now(const Prepared& prepared, const StreamState* stream) {
  if (!prepared.output->hazards.can_write_now()) return false;
  for (const Storage* input : prepared.inputs) {
    if (input != prepared.output && !input->hazards.can_read_now()) return false;
  }
  return !stream || !stream->options.in_order || !stream->last.pending();
}

// Gives a node its place after all that was submitted before it. Under the order lock.
void place(Work& node, StreamState* stream) {
  std::vector<Ordered*>& earlier = node.device->earlier;
  earlier.clear();
  find_earlier(node, earlier);
  if (stream && stream->options.in_order) {
    if (Ordered* last = stream->last.pending()) earlier.push_back(last);
    stream->last = {&node, node.serial()};
  }
  wait_for_all(node, earlier);
}

}  // namespace

std::uint64_t estimated_cost(std::int64_t bytes) { return 100 + static_cast<std::uint64_t>(bytes) / 8; }

Clock::time_point from_now(std::chrono::nanoseconds time) {
  const Clock::time_point now = Clock::now();
  return time < Clock::time_point::max() - now ? now + time : Clock::time_point::max();
}

void find_earlier(Work& node, std::vector<Ordered*>& earlier) {
  const auto wait_for = [&](Ordered& other) { earlier.push_back(&other); };
  for (Storage* input : node.inputs) {
    if (std::ranges::find(node.outputs, input) == node.outputs.end()) input->hazards.read(node, wait_for);
  }
  for (Storage* output : node.outputs) output->hazards.write(node, wait_for);
}

void wait_for_all(Work& node, const std::vector<Ordered*>& earlier) {
  Edge* edges = node.edges.data();
  if (earlier.size() > node.edges.size()) {
    if (earlier.size() > node.more_edges.size()) node.more_edges.resize(earlier.size());
    edges = node.more_edges.data();
  }
  for (std::size_t i = 0; i < earlier.size(); ++i) {
    if (node.wait_for(*earlier[i], edges[i]) && node.trace) {
      const CommandId id = static_cast<Work*>(earlier[i])->id;
      if (id != 0) node.trace->waited_for.push_back(id);
    }
  }
}

Ref<Work> ended_command(DeviceState& device, std::string_view label, Status status, core::FailurePtr failure) {
  Work& node = device.nodes.take_ended(status);
  // Not to be found by its number, which needs no node: a failure is remembered, and whatever else is not found has
  // completed.
  node.id = device.last_id;
  node.device_number = device.number;
  node.label = label;
  node.failure = std::move(failure);
  if (node.failure) device.remember_locked(node.id, status, node.failure);
  return Ref<Work>::adopt(&node);
}

namespace {

// Runs a small command on the spot. Under the order lock: nobody can come near its buffers. Nobody can have seen the
// command either, so it needs no place in the order.
core::FailurePtr run_small(DeviceState& device, Prepared& prepared, TraceRecord* trace) {
  if (trace) trace_start(*trace);
  core::FailurePtr failure;
  for (std::size_t i = 0; i < prepared.inputs.size() && !failure; ++i) {
    if (prepared.inputs[i]->poison) [[unlikely]] {
      failure =
          poisoned(text("[", prepared.kernel->name, "] command ", device.last_id, ": input ", i), *prepared.inputs[i]);
    }
  }
  if (!failure) {
    prepared.launch.command = device.last_id;
    failure = launch_piece(*device.driver, prepared.launch, 0, prepared.kernel->name);
  }
  if (failure || prepared.output->poison) prepared.output->poison = failure;
  return failure;
}

}  // namespace

core::FailurePtr poisoned(const std::string& what, const Storage& storage) {
  return core::make_failure(what + " is poisoned", storage.poison);
}

namespace {

// What an exception from the driver means for the command.
template <class Function>
core::FailurePtr guarded(const driver::Launch& launch, std::string_view kernel, int stage,
                         Function&& function) noexcept {
  const auto failed = [&](Errc code, std::string_view why) {
    return core::make_failure(code,
                              text(describe_stage(stage), "[", kernel, "] command ", launch.command, " failed: ", why));
  };
  try {
    function();
    return nullptr;
  } catch (const Error& error) {
    return failed(error.code(), error.what());
  } catch (const std::exception& error) {
    return failed(Errc::internal, error.what());
  }
}

}  // namespace

core::FailurePtr prepare_launch(driver::Driver& driver, const driver::Launch& launch, std::string_view kernel,
                                int stage) noexcept {
  return guarded(launch, kernel, stage, [&] {
    if (driver.partial_bytes(launch) == 0) driver.pieces(launch);
  });
}

core::FailurePtr begin_launch(Work& node) noexcept {
  driver::Driver& driver = *node.device->driver;
  core::FailurePtr failure = guarded(node.launch, node.label, node.stage, [&] {
    if (const std::size_t bytes = driver.partial_bytes(node.launch); bytes != 0) {
      node.partial.reset(new (std::nothrow) std::byte[bytes]);
      if (!node.partial) throw Error(Errc::out_of_memory, text("no memory for ", bytes, " bytes of partial results"));
      node.launch.partial = node.partial.get();
    }
    node.pieces = driver.pieces(node.launch);
  });
  if (failure) node.partial.reset();
  return failure;
}

core::FailurePtr finish_launch(const Work& node) noexcept {
  return guarded(node.launch, node.label, node.stage, [&] { node.device->driver->finish(node.launch); });
}

core::FailurePtr launch_piece(driver::Driver& driver, const driver::Launch& launch, std::int64_t piece,
                              std::string_view kernel, int stage) noexcept {
  return guarded(launch, kernel, stage, [&] { driver.launch(launch, piece); });
}

core::FailurePtr enter(StreamState*& stream, std::string_view label, bool* is_dropped) {
  Errc refused{};
  if (!stream || stream->enter(&refused)) return nullptr;
  if (refused == Errc::stream_full) {
    return core::make_failure(refused, text("[", label, "] was rejected: its stream is full, with ",
                                            stream->options.max_in_flight, " commands in flight"));
  }
  *is_dropped = true;
  stream = nullptr;
  return nullptr;
}

Ref<Work> DeviceState::submit(const Call& call) {
  Prepared prepared;
  try {
    prepare(*this, call, prepared);
  } catch (const Error& error) {
    return refuse(prepared.kernel ? prepared.kernel->name : "unknown", Status::failed, error.failure());
  }
  return enqueue(call, prepared, Wants::command);
}

Ref<Work> DeviceState::start(const Call& call) {
  Prepared prepared;
  prepare(*this, call, prepared);
  return enqueue(call, prepared, Wants::end);
}

void DeviceState::run(const Call& call) {
  Prepared prepared;
  prepare(*this, call, prepared);
  const Ref<Work> command = enqueue(call, prepared, Wants::end_now);
  if (!command) return;
  wait(*command, Clock::time_point::max());
  throw_if_failed(*command);
}

Ref<Work> DeviceState::refuse(std::string_view label, Status status, core::FailurePtr failure) {
  const std::unique_ptr<TraceRecord> trace = begin_trace_record();
  Ref<Work> ended;
  {
    const std::scoped_lock lock(order);
    next_id();
    ended = ended_command(*this, label, status, std::move(failure));
  }
  if (trace) trace_end(*trace, {number, ended->id, label, 0, status});
  return ended;
}

Ref<Work> DeviceState::enqueue(const Call& call, Prepared& prepared, Wants wants) {
  const std::string_view label = prepared.kernel->name;
  StreamState* stream = call.stream;
  bool is_dropped = false;
  if (core::FailurePtr full = enter(stream, label, &is_dropped)) return refuse(label, Status::failed, std::move(full));

  std::unique_ptr<TraceRecord> trace = begin_trace_record();
  const bool may_run_here = scheduler->may_use_caller();
  const bool is_ready = prepared.launch.elements == 0 || prepared.launch.executable->is_ready();
  const bool is_small = is_ready && work_of(prepared) <= small_bytes && may_run_here && !is_dropped && !queue;
  std::unique_lock lock(order);
  if (core::FailurePtr freed = check_not_freed(prepared)) [[unlikely]] {
    lock.unlock();
    if (stream) stream->left_at_once();
    return refuse(label, Status::failed, std::move(freed));
  }
  next_id();
  if (is_small && can_run_now(prepared, stream)) {
    core::FailurePtr failure = run_small(*this, prepared, trace.get());
    const Status status = failure ? Status::failed : Status::completed;
    const CommandId id = last_id;
    Ref<Work> ended;
    if (wants == Wants::command || failure) ended = ended_command(*this, label, status, std::move(failure));
    lock.unlock();
    if (trace) trace_end(*trace, {number, id, label, prepared.launch.bytes, status});
    if (stream) stream->left_at_once();
    return ended;
  }

  if (wants == Wants::end_now) {
    if (core::FailurePtr own = wait_for_own_call(prepared)) [[unlikely]] {
      lock.unlock();
      if (stream) stream->left_at_once();
      return refuse(label, Status::failed, std::move(own));
    }
  }

  Work& node = nodes.take(*this);
  number_command(node);
  node.kind = Work::Kind::kernel;
  node.label = label;
  node.inputs = prepared.inputs;
  node.outputs.push_back(prepared.output);
  node.launch = prepared.launch;
  node.launch.command = node.id;
  node.cost = estimated_cost(work_of(prepared)) + (is_ready ? 0 : compilation_cost);
  node.trace = std::move(trace);
  if (stream) {
    node.priority = stream->options.priority;
    node.stream = Ref<StreamState>(stream);
    if (stream->options.deadline.count() > 0) node.deadline = from_now(stream->options.deadline);
  }
  place(node, stream);
  lock.unlock();

  Ref<Work> command(&node);
  if (stream) stream->entered(node);
  // Dropped before it could begin, it takes its place all the same: its output is poisoned in its turn.
  if (is_dropped) cancel(node, Errc::cancelled, dropped);
  if (node.arm()) {
    if (wants == Wants::end_now && may_run_here) {
      const DeviceQueue::Attended attended(node);
      execute(node);
    } else if (starts_at_once(node)) {
      execute(node);
    } else {
      scheduler->push(node);
    }
  }
  return command;
}

Work& DeviceState::take_host_node(const char* label) {
  Work& node = nodes.take(*this);
  node.kind = Work::Kind::host;
  node.id = 0;
  node.label = label;
  node.heals = false;
  node.cost = estimated_cost(0);
  return node;
}

Ref<Work> DeviceState::start_host(HostWork& work, bool blocks) {
  std::unique_ptr<TraceRecord> trace = begin_trace_record();
  const bool may_run_here = scheduler->may_use_caller();
  Storage* storage = work.storage;
  expect_own_process();
  std::unique_lock lock(order);
  if (storage && storage->is_freed.load(std::memory_order_relaxed)) {
    throw Error(unusable(text("[", work.label, "] the buffer"), *storage));
  }
  if (storage) expect_not_after_call(*storage, work.writes, work.label);
  if (storage && may_run_here && !trace && !queue && work.bytes <= small_bytes &&
      (work.writes ? storage->hazards.can_write_now() : storage->hazards.can_read_now())) {
    if (storage->poison && !work.heals) throw Error(poisoned(text("[", work.label, "] the buffer"), *storage));
    work.function();
    if (work.heals) storage->poison = nullptr;
    return {};
  }

  Work& node = take_host_node(work.label);
  if (storage && !work.heals) node.inputs.push_back(storage);  // what a partial write keeps must be sound
  if (storage && work.writes) node.outputs.push_back(storage);
  node.heals = work.heals;
  node.host = std::move(work.function);
  node.launch.bytes = work.bytes;
  node.cost = estimated_cost(work.bytes);
  node.trace = std::move(trace);
  place(node, nullptr);
  lock.unlock();

  Ref<Work> held(&node);
  if (node.arm()) {
    if (blocks && may_run_here) {
      execute(node);
    } else {
      scheduler->push(node);
    }
  }
  return held;
}

void DeviceState::run_host(HostWork work) {
  const Ref<Work> node = start_host(work, true);
  if (!node) return;
  wait(*node, Clock::time_point::max());
  throw_if_failed(*node);
}

Ref<Work> DeviceState::submit_host(HostWork work) { return start_host(work, false); }

Ref<Work> DeviceState::map(Storage& storage, bool writes) {
  expect_own_process();
  // Two nodes: the first is over when the memory is the host's; the second, which all later work waits for, is held
  // back until the host gives the memory up.
  std::unique_lock lock(order);
  if (storage.is_freed.load(std::memory_order_relaxed)) {
    throw Error(Errc::buffer_freed, "[map] the buffer has been freed");
  }
  expect_not_after_call(storage, writes, "map");
  Work& begin = take_host_node("map");
  begin.inputs.push_back(&storage);
  if (writes) begin.outputs.push_back(&storage);
  place(begin, nullptr);
  Work& end = take_host_node("unmap");
  if (writes) {
    end.outputs.push_back(&storage);
  } else {
    end.inputs.push_back(&storage);
  }
  place(end, nullptr);
  lock.unlock();

  const Ref<Work> held_begin(&begin);
  Ref<Work> held_end(&end);
  if (begin.arm()) {
    if (scheduler->may_use_caller()) {
      execute(begin);
    } else {
      scheduler->push(begin);
    }
  }
  wait(begin, Clock::time_point::max());
  if (begin.failure) {
    unmap(end);
    throw_if_failed(begin);
  }
  return held_end;
}

void unmap(Work& end) noexcept {
  if (end.arm()) execute(end);
}

void DeviceState::release_in_order(Storage& storage) noexcept {
  if (!is_own_process()) return;  // what is left of it here is nobody's
  std::unique_lock lock(order);
  if (storage.hazards.can_write_now()) {
    lock.unlock();
    release_memory(storage);
    return;
  }
  Work& node = take_host_node("free");
  node.kind = Work::Kind::release;
  node.outputs.push_back(&storage);
  place(node, nullptr);
  lock.unlock();
  if (node.arm()) execute(node);
}

}  // namespace tessera::detail::engine
