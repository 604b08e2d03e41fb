#include "core/text.hpp"
#include "driver/gpu/opencl/connection.hpp"
#include "driver/gpu/opencl/memory.hpp"
#include "driver/gpu/opencl/module.hpp"
#include "driver/gpu/opencl/open.hpp"
#include "driver/gpu/opencl/waitable_children.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace tessera::driver::gpu {

namespace opencl {

namespace {

// Two wavefronts on a small GPU, one on a large one; on PoCL the size makes no difference.
constexpr std::size_t best_group = 64;

const OpenclModule& module_of(const Dispatch& call) { return static_cast<const OpenclModule&>(*call.module); }
OpenclMemory& memory_of(Memory& memory) { return static_cast<OpenclMemory&>(memory); }

void set_arguments(Connection& connection, cl_kernel kernel, const Dispatch& call) {
  cl_uint index = 0;
  for (Memory* buffer : call.buffers) {
    connection.check(memory_of(*buffer).set_as_argument(kernel, index++), "clSetKernelArg of a buffer");
  }
  if (call.arguments.empty()) return;
  connection.check(
      functions()->set_argument(kernel, index, call.arguments.size() * sizeof(std::uint32_t), call.arguments.data()),
      "clSetKernelArg");
}

// Enqueues the calls of one submission.
class Batch {
 public:
  explicit Batch(Connection& connection) : connection_(connection) {}
  ~Batch() {
    // Without end(), an error is propagating, and the caller will reuse the memory of the calls already enqueued.
    if (!last_.empty()) functions()->wait_for_events(static_cast<cl_uint>(last_.size()), last_.data());
    forget();
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  void add(cl_kernel kernel, std::size_t groups, std::size_t group, bool waits) {
    const std::size_t global = groups * group;
    const bool has_list = waits && !last_.empty();
    cl_event event = nullptr;
    last_.reserve(last_.size() + 1);
    connection_.check(functions()->enqueue_kernel(connection_.queue(), kernel, 1, nullptr, &global, &group,
                                                  has_list ? static_cast<cl_uint>(last_.size()) : 0,
                                                  has_list ? last_.data() : nullptr, &event),
                      "clEnqueueNDRangeKernel");
    if (has_list) forget();
    last_.push_back(event);
  }

  // Makes the next call wait for all earlier submissions.
  void wait_for_submissions() {
    cl_event all = nullptr;
    connection_.check(functions()->enqueue_marker(connection_.queue(), 0, nullptr, &all),
                      "clEnqueueMarkerWithWaitList");
    last_.push_back(all);
  }

  // One event for the completion of all calls.
  Event end() {
    if (last_.size() > 1) {
      cl_event all = nullptr;
      connection_.check(
          functions()->enqueue_marker(connection_.queue(), static_cast<cl_uint>(last_.size()), last_.data(), &all),
          "clEnqueueMarkerWithWaitList");
      forget();
      last_.push_back(all);
    }
    connection_.check(functions()->flush(connection_.queue()), "clFlush");
    return Event(std::exchange(last_, {}).front());
  }

 private:
  void forget() {
    for (cl_event event : last_) functions()->release_event(event);
    last_.clear();
  }

  Connection& connection_;
  std::vector<cl_event> last_;  // when these have finished, all have
};

// Kernel objects with their arguments set, so that a submission sets none. PoCL 3.1's command buffers were slower.
class OpenclRecording final : public Recording {
 public:
  OpenclRecording(Connection& connection, std::span<const Dispatch> calls) {
    calls_.reserve(calls.size());
    for (const Dispatch& call : calls) {
      const OpenclModule& module = module_of(call);
      calls_.push_back({module.make_kernel(), call.groups, module.group(), call.waits});
      waits_for_submissions_ |= call.waits_for_submissions;
      set_arguments(connection, calls_.back().kernel.get(), call);
    }
  }
  void add_to(Batch& batch) const {
    if (waits_for_submissions_) batch.wait_for_submissions();
    for (const Call& call : calls_) batch.add(call.kernel.get(), call.groups, call.group, call.waits);
  }
  bool is_empty() const { return calls_.empty(); }

 private:
  struct Call {
    KernelObject kernel;
    std::size_t groups;
    std::size_t group;
    bool waits;
  };
  std::vector<Call> calls_;
  bool waits_for_submissions_ = false;
};

compile::gpu::Target target_of(const Found& found) {
  compile::gpu::Target target;
  target.dialect = compile::gpu::Dialect::opencl;
  target.device = found.info.name;
  target.has_f64 = std::ranges::find(found.info.dtypes, f64) != found.info.dtypes.end();
  target.has_s64 = true;
  target.has_u8 = true;
  // A power of two, on any device.
  target.group = static_cast<int>(std::bit_floor(
      std::clamp<std::size_t>(value<std::size_t>(found.device, CL_DEVICE_MAX_WORK_GROUP_SIZE), 1, best_group)));
  // PoCL 3.1 miscompiles statements between barriers inside of a loop: depending on what comes before and after, some
  // are not executed. With a single invocation no barrier is printed, and the loops suit a CPU.
  if (found.is_pocl) target.tile_group = 1;
  target.shared_bytes = static_cast<std::int64_t>(value<cl_ulong>(found.device, CL_DEVICE_LOCAL_MEM_SIZE));
  target.most_buffers = 64;
  return target;
}

class OpenclApi final : public Api {
 public:
  OpenclApi(const Found& found, bool shares_memory)
      : connection_(std::make_shared<Connection>(found, shares_memory)), target_(target_of(found)) {}

  const DeviceInfo& info() const override { return connection_->found().info; }
  const compile::gpu::Target& target() const override { return target_; }
  std::size_t most_buffer_bytes() const override { return most_buffer_bytes_; }
  // Kernels number invocations with ints.
  std::uint32_t most_groups() const override {
    return static_cast<std::uint32_t>(std::numeric_limits<std::int32_t>::max() / target_.group);
  }

  std::unique_ptr<Memory> allocate(std::size_t bytes) override {
    return bytes <= most_buffer_bytes_ ? OpenclMemory::make(connection_, bytes) : nullptr;
  }
  void upload(Memory& to, std::size_t offset, std::span<const std::byte> from) override {
    connection_->submissions().throw_if_lost();
    memory_of(to).upload(offset, from);
  }
  void download(std::span<std::byte> to, Memory& from, std::size_t offset) override {
    connection_->submissions().throw_if_lost();
    memory_of(from).download(to, offset);
  }
  void fill_zero(Memory& to, std::size_t offset, std::size_t bytes) override {
    connection_->submissions().throw_if_lost();
    memory_of(to).fill_zero(offset, bytes);
  }

  std::unique_ptr<Module> compile(const compile::gpu::Kernel& kernel, const std::string& name) override {
    return std::make_unique<OpenclModule>(connection_, kernel, name);
  }

  std::uint64_t submit(std::span<const Dispatch> calls) override {
    connection_->submissions().throw_if_lost();
    if (calls.empty()) return submit_nothing();
    const WaitableChildren children(connection_->found());
    Batch batch(*connection_);
    if (calls.front().waits_for_submissions) batch.wait_for_submissions();
    for (const Dispatch& call : calls) {
      const OpenclModule& module = module_of(call);
      module.with_kernel([&](cl_kernel kernel) {
        set_arguments(*connection_, kernel, call);
        batch.add(kernel, call.groups, module.group(), call.waits);
      });
    }
    return submit(batch, children);
  }
  std::unique_ptr<Recording> record(std::span<const Dispatch> calls) override {
    connection_->submissions().throw_if_lost();
    return std::make_unique<OpenclRecording>(*connection_, calls);
  }
  std::uint64_t submit(Recording& recording) override {
    connection_->submissions().throw_if_lost();
    const auto& recorded = static_cast<const OpenclRecording&>(recording);
    if (recorded.is_empty()) return submit_nothing();
    const WaitableChildren children(connection_->found());
    Batch batch(*connection_);
    recorded.add_to(batch);
    return submit(batch, children);
  }
  Progress wait(std::uint64_t number, Clock::time_point until) override {
    return connection_->submissions().wait(number, until);
  }
  void lose(std::string why) override { connection_->lose(why); }

 private:
  std::uint64_t submit(Batch& batch, const WaitableChildren& children) {
    Event end = batch.end();
    children.hold_until(end.get());
    return connection_->submissions().add(std::move(end));
  }
  std::uint64_t submit_nothing() { return connection_->submissions().add({}); }

  std::shared_ptr<Connection> connection_;
  compile::gpu::Target target_;
  std::size_t most_buffer_bytes_ =
      static_cast<std::size_t>(value<cl_ulong>(connection_->found().device, CL_DEVICE_MAX_MEM_ALLOC_SIZE));
};

}  // namespace

}  // namespace opencl

std::vector<DeviceInfo> opencl_devices() {
  std::vector<DeviceInfo> all;
  for (const opencl::Found& found : opencl::devices()) all.push_back(found.info);
  return all;
}

std::unique_ptr<Api> open_opencl(std::size_t number) { return open_opencl(number, true); }

std::unique_ptr<Api> open_opencl(std::size_t number, bool shares_memory) {
  const auto& all = opencl::devices();
  if (number >= all.size()) {
    throw Error(Errc::unknown_device,
                core::text("there is no OpenCL device ", number, ": this machine has ", all.size()));
  }
  return std::make_unique<opencl::OpenclApi>(all[number], shares_memory);
}

}  // namespace tessera::driver::gpu
