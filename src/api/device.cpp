#include <tessera/device.hpp>

#include <tessera/add.hpp>
#include <tessera/kernel.hpp>
#include <tessera/kernels.hpp>

#include "api/kernel_call.hpp"
#include "core/environment.hpp"
#include "core/process_end.hpp"
#include "core/text.hpp"
#include "driver/preference.hpp"
#include "engine/device_state.hpp"
#include "engine/observe/trace_record.hpp"
#include "engine/stream_state.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <pthread.h>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace tessera {

namespace engine = detail::engine;
using core::text;
using detail::Access;
using detail::Ref;
using engine::DeviceState;

std::string_view to_string(PowerLevel level) noexcept {
  switch (level) {
    case PowerLevel::nominal:
      return "nominal";
    case PowerLevel::fair:
      return "fair";
    case PowerLevel::serious:
      return "serious";
    case PowerLevel::critical:
      return "critical";
  }
  return "unknown";
}

namespace {

// On a device with a queue the workers only submit, compile and copy.
constexpr unsigned workers_beside_queue = 2;

Device make_device(std::unique_ptr<driver::Driver> driver) {
  engine::start_trace_from_environment();
  auto workers = engine::make_worker_pool(driver->has_queue() ? workers_beside_queue : driver->info().compute_units);
  auto* state = new DeviceState(std::move(driver), std::move(workers));
  return Access::make<Device>(Ref<DeviceState>::adopt(state));
}

// The process's CPU device. Never destroyed: its workers run until the process ends.
Device cpu_device() {
  static const Device& device = *new Device(make_device(driver::make_cpu_driver()));
  return device;
}

std::unique_ptr<driver::Driver> open_driver(std::string_view backend) {
  if (auto driver = driver::open_driver(backend)) return driver;
  std::string known;
  for (const DeviceInfo& info : driver::list_devices()) known += (known.empty() ? "" : ", ") + info.backend;
  throw Error(Errc::unknown_device, text("there is no device ", core::in_quotes(backend), "; available: ", known));
}

bool is_lost(const Device& device) {
  const DeviceState& state = *Access::get(device);
  if (!state.queue || !state.is_own_process()) return false;
  return state.driver->wait(0, engine::Clock::time_point::min()).failure != nullptr;
}

// The process's other devices, which are not destroyed either, unless they are lost and opened again.
Device opened_device(std::string_view name) {
  const std::string backend = driver::usual_name(name);
  struct Opened {
    std::mutex mutex;
    std::map<std::string, Device, std::less<>> devices;
  };
  static auto& opened = *new Opened();
  std::optional<Device> lost;  // outlives the lock, since it may take seconds to destroy it
  const std::scoped_lock lock(opened.mutex);
  const auto known = opened.devices.find(backend);
  if (known != opened.devices.end() && !is_lost(known->second)) return known->second;
  Device made = make_device(open_driver(backend));
  if (known != opened.devices.end()) lost.emplace(std::exchange(known->second, made));
  opened.devices.emplace(backend, made);
  return made;
}

// The kernel driver of a GPU creates a device file. Without one, querying all the loaders, which takes a tenth of a
// second, would find software GPUs at best.
bool may_have_gpu() {
  return std::ranges::any_of(
      std::array{"/dev/dri", "/dev/nvidiactl", "/dev/kfd", "/dev/dxg", "/dev/mali0", "/dev/kgsl-3d0"},
      [](const char* path) { return access(path, F_OK) == 0; });
}

}  // namespace

Device Device::best() {
  core::watch_main_thread();
  const char* chosen = core::environment_variable("TESSERA_DEVICE");
  if (!chosen || *chosen == '\0') {
    // Opened by its name each time, in case that it was lost.
    static const std::string& best = *new std::string(
        may_have_gpu() ? driver::open_first(driver::by_preference(devices()), open).info().backend : "cpu");
    return open(best);
  }
  try {
    return open(chosen);
  } catch (const Error& error) {
    throw Error(error.code(), text("TESSERA_DEVICE: ", error.what()));
  }
}

Device Device::open(std::string_view backend) {
  core::watch_main_thread();
  return backend == "cpu" ? cpu_device() : opened_device(backend);
}

std::vector<DeviceInfo> Device::devices() { return driver::list_devices(); }

Device Device::simulated(const SimulationOptions& options) {
  core::watch_main_thread();
  constexpr unsigned most_workers = 256;
  if (options.workers > most_workers) {
    throw Error(Errc::invalid_argument,
                text("a simulated device has at most ", most_workers, " workers, got ", options.workers));
  }
  const bool is_valid = options.fail_rate >= 0 && options.fail_rate <= 1;
  if (!is_valid) {  // NaN is not
    throw Error(Errc::invalid_argument, text("a fail_rate is between 0 and 1, got ", options.fail_rate));
  }
  engine::start_trace_from_environment();
  auto driver = driver::make_simulated_driver(open_driver(options.backend), options);
  auto* state = new DeviceState(std::move(driver), engine::make_seeded_scheduler(options));
  return Access::make<Device>(Ref<DeviceState>::adopt(state));
}

Device::Device(Ref<DeviceState> ref) noexcept : ref_(std::move(ref)) { ++ref_->handles; }
Device::Device(const Device& other) noexcept : Device(other.ref_) {}
Device& Device::operator=(const Device& other) noexcept {
  Device copy(other);
  std::swap(ref_, copy.ref_);
  return *this;
}
Device::~Device() {
  // On a device without threads, pending work would never run, and would keep the device alive.
  if (--ref_->handles == 0 && ref_->is_own_process()) {
    ref_->attachments.drop();
    ref_->scheduler->last_handle_dropped();
  }
}

const DeviceInfo& Device::info() const noexcept { return ref_->driver->info(); }

void detail::throw_does_not_fit(double value, DType dtype) {
  throw Error(Errc::overflow, text("[buffer] the value ", value, " does not fit ", to_string(dtype)));
}

namespace {

// Refuses the device of another process.
DeviceState& own(const Ref<DeviceState>& device) {
  device->expect_own_process();
  return *device;
}

// Refuses a number beyond the last enumerator, which a caller may have cast.
template <class Enum>
void expect_enumerator(Enum value, Enum last, std::string_view name) {
  if (value <= last) return;
  throw Error(Errc::invalid_argument, text("there is no ", name, " with the number ", static_cast<unsigned>(value)));
}

}  // namespace

Buffer Device::empty(const Shape& shape, DType dtype) const {
  return Access::make<Buffer>(engine::allocate(*ref_, shape, dtype, false));
}
Buffer Device::zeros(const Shape& shape, DType dtype) const {
  return Access::make<Buffer>(engine::allocate(*ref_, shape, dtype, true));
}

Buffer Device::make_buffer(std::span<const std::byte> bytes, std::size_t values, const Shape& shape,
                           DType dtype) const {
  if (values != static_cast<std::size_t>(shape.elements())) {
    throw Error(Errc::count_mismatch,
                text("[buffer] ", to_string(dtype, shape), " needs ", shape.elements(), " values, got ", values));
  }
  Buffer buffer = empty(shape, dtype);
  ref_->driver->upload(Access::get(buffer)->storage->block.address, bytes);  // nothing else uses it yet
  return buffer;
}

Buffer Device::from_bytes(std::span<const std::byte> bytes, const Shape& shape, DType dtype) const {
  if (bytes.size() != shape.size_bytes(dtype)) {
    throw Error(Errc::count_mismatch, text("[from_bytes] ", to_string(dtype, shape), " needs ", shape.size_bytes(dtype),
                                           " bytes, got ", bytes.size()));
  }
  return make_buffer(bytes, static_cast<std::size_t>(shape.elements()), shape, dtype);
}

Buffer Device::wrap(std::span<std::byte> bytes, const Shape& shape, DType dtype, std::function<void()> release) const {
  if (!release) throw Error(Errc::invalid_argument, "[wrap] the release function is empty");
  if (bytes.size() != shape.size_bytes(dtype)) {
    throw Error(Errc::count_mismatch, text("[wrap] ", to_string(dtype, shape), " needs ", shape.size_bytes(dtype),
                                           " bytes, got ", bytes.size()));
  }
  if (Ref<engine::View> view = engine::wrap(*ref_, shape, dtype, bytes.data(), release)) {
    return Access::make<Buffer>(std::move(view));
  }
  Buffer copy = from_bytes(bytes, shape, dtype);
  release();
  return copy;
}

void Device::run(std::string_view kernel, const BufferList& inputs, const Buffer& output, const Params& params) const {
  engine::run(*ref_, detail::KernelCall(inputs, output, params).of(kernel));
}
void Device::run(const tile::Kernel& kernel, const BufferList& inputs, const Buffer& output,
                 const Params& params) const {
  engine::run(*ref_, detail::KernelCall(inputs, output, params).of(kernel));
}

Command Device::submit(std::string_view kernel, const BufferList& inputs, const Buffer& output,
                       const Params& params) const {
  return Access::make<Command>(engine::submit(*ref_, detail::KernelCall(inputs, output, params).of(kernel)));
}
Command Device::submit(const tile::Kernel& kernel, const BufferList& inputs, const Buffer& output,
                       const Params& params) const {
  return Access::make<Command>(engine::submit(*ref_, detail::KernelCall(inputs, output, params).of(kernel)));
}

Status Device::poll(CommandId id) const {
  engine::CommandTable::Ended ended{};
  const Ref<engine::Work> work = own(ref_).find(id, &ended);
  if (work) return Access::make<Command>(work).poll();
  if (ended.failure) core::set_seen(*ended.failure);
  return ended.status;
}

void Device::wait(CommandId id) const {
  engine::CommandTable::Ended ended{};
  const Ref<engine::Work> work = own(ref_).find(id, &ended);
  if (work) {
    Access::make<Command>(work).wait();
  } else if (ended.failure) {
    core::set_seen(*ended.failure);
    throw Error(ended.failure);
  }
}

bool Device::cancel(CommandId id) const {
  engine::CommandTable::Ended ended{};
  const Ref<engine::Work> work = own(ref_).find(id, &ended);
  return work && Access::make<Command>(work).cancel();
}

std::vector<KernelInfo> Device::kernels() const {
  std::vector<KernelInfo> infos;
  for (const kernels::Kernel* kernel : kernels::all()) infos.push_back(kernel->info());
  return infos;
}

MemoryInfo Device::memory() const { return own(ref_).memory.info(); }
void Device::set_memory_limit(std::size_t bytes) const { own(ref_).memory.set_limit(bytes); }
std::size_t Device::trim_memory() const {
  DeviceState& device = own(ref_);
  device.works.trim(device.order, 0);
  return device.memory.trim();
}

PowerLevel Device::power_level() const { return own(ref_).scheduler->power_level(); }
void Device::set_power_level(PowerLevel level) const {
  expect_enumerator(level, PowerLevel::critical, "power level");
  own(ref_).scheduler->set_power_level(level);
}

Stream Device::stream(const StreamOptions& options) const {
  expect_enumerator(options.priority, Priority::low, "priority");
  expect_enumerator(options.when_full, WhenFull::drop_oldest, "full-stream policy");
  if (options.deadline.count() < 0) {
    throw Error(Errc::invalid_argument,
                text("a stream's deadline cannot be negative, got ", options.deadline.count(), " ns"));
  }
  return Access::make<Stream>(Ref<engine::StreamState>::adopt(new engine::StreamState(own(ref_), options)));
}

void Device::synchronize() const { ref_->synchronize(); }

namespace {

void run_on_output(std::string_view kernel, const BufferList& inputs, const Buffer& output, const Params& params) {
  if (!output) throw Error(Errc::invalid_argument, text("[", kernel, "] output is an empty buffer handle"));
  output.device().run(kernel, inputs, output, params);
}

}  // namespace

void add(const Buffer& a, const Buffer& b, const Buffer& output) {
  run_on_output("elementwise_add", {a, b}, output, {});
}
void multiply(const Buffer& a, const Buffer& b, const Buffer& output) {
  run_on_output("elementwise_mul", {a, b}, output, {});
}
void scale(const Buffer& input, double factor, const Buffer& output) {
  run_on_output("scale", {input}, output, {{"factor", factor}});
}
void relu(const Buffer& input, const Buffer& output) { run_on_output("relu", {input}, output, {}); }
void matmul(const Buffer& a, const Buffer& b, const Buffer& output) { run_on_output("matmul", {a, b}, output, {}); }

void register_kernel(const tile::Kernel& kernel) { kernels::add(kernels::from_tile_kernel(kernel)); }
void define_kernel(std::string_view name, const Names& inputs, std::string_view expression, const Params& params) {
  kernels::add(kernels::from_text(name, inputs.items(), expression, params));
}

}  // namespace tessera
