#include "engine/device_state.hpp"

#include <tessera/error.hpp>

#include "core/platform.hpp"
#include "core/text.hpp"
#include "engine/execution.hpp"
#include "engine/observe/nested_callbacks.hpp"
#include "engine/self_wait.hpp"

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <pthread.h>
#include <thread>
#include <utility>
#include <vector>

namespace tessera::detail::engine {

using core::text;

namespace {

unsigned next_device_number() {
  static std::atomic<unsigned> last{0};
  return ++last;
}

// The rest is for the host side of the process and for other processes.
std::size_t default_memory_limit(const driver::Driver& driver) {
  const DeviceInfo& info = driver.info();
  // A software GPU reports the machine's memory, of which this process may be allowed less.
  return (info.is_gpu ? info.memory : std::min(info.memory, core::usable_memory())) / 8 * 7;
}

}  // namespace

std::atomic<unsigned> fork_count{0};

LiveDevices& LiveDevices::instance() {
  static auto& live = *[] {
    const auto before = [] { instance().lock_orders(); };
    const auto in_parent = [] { instance().unlock_orders(); };
    const auto in_child = [] {
      ++fork_count;
      instance().unlock_orders();
    };
    pthread_atfork(before, in_parent, in_child);
    return new LiveDevices();  // threads may outlive main
  }();
  return live;
}

void LiveDevices::lock_orders() {
  mutex.lock();
  std::vector<DeviceState*> all;
  all.reserve(devices.size());
  for (const auto& [number, device] : devices) all.push_back(device);
  std::ranges::sort(all, std::less<>());  // as OrderLocks does
  for (DeviceState* device : all) device->order.lock();
}

void LiveDevices::unlock_orders() {
  for (const auto& [number, device] : devices) device->order.unlock();
  mutex.unlock();
}

DeviceState::DeviceState(std::unique_ptr<driver::Driver> with_driver, std::shared_ptr<Scheduler> with_scheduler)
    : driver(std::move(with_driver)),
      scheduler(std::move(with_scheduler)),
      queue(driver->has_queue() ? std::make_unique<DeviceQueue>(*driver) : nullptr),
      calls(*driver),
      memory(*driver, default_memory_limit(*driver)),
      number(next_device_number()),
      works(WorkPool::acquire()),
      commands(works) {
  LiveDevices& live = LiveDevices::instance();
  const std::scoped_lock lock(live.mutex);
  live.devices[number] = this;
}

DeviceState::~DeviceState() {
  {
    LiveDevices& live = LiveDevices::instance();
    const std::scoped_lock lock(live.mutex);
    live.devices.erase(number);
  }
  scheduler->stop();
  WorkPool::retire(works);
}

void throw_other_process(std::string_view what) {
  throw Error(Errc::unsupported,
              text(what, ", belongs to the process that opened it: a child made by fork() cannot use it"));
}

Ref<Work> DeviceState::find(CommandId id, CommandTable::Ended* ended) {
  const std::scoped_lock lock(order);
  return commands.find(id, name(), ended);
}

void DeviceState::remember(CommandId id, Status status, const core::FailurePtr& failure) noexcept {
  const std::scoped_lock lock(order);
  commands.remember(id, status, failure);
}

// In order: at an item's turn, all earlier ones that could leave have left.
void DeviceState::retire_cancelled() {
  if (early_works.load(std::memory_order_relaxed) == 0) return;
  std::vector<Ref<Work>> settled;
  {
    const std::scoped_lock lock(order);
    settled = works.early_works();
  }
  for (const Ref<Work>& work : settled) {
    while (work->is_early() && !work->is_blocked()) {
      if (scheduler->take_back(*work)) {
        execute(*work);
      } else {
        std::this_thread::yield();  // another thread has taken it
      }
    }
  }
}

void DeviceState::synchronize() {
  expect_own_process();
  expect_not_in_call(*this, "synchronize");
  std::vector<Ref<Work>> pending;
  bool has_many_works = false;
  {
    const std::scoped_lock lock(order);
    pending = works.pending_commands();
    has_many_works = works.is_large();
  }
  for (const Ref<Work>& work : pending) wait(*work, Clock::time_point::max());
  pending.clear();
  // A callback cannot wait for what its own thread has yet to do, and a thread that runs callbacks must not sleep until
  // they have run.
  if (!is_in_observer()) retire_cancelled();
  if (has_many_works) works.trim(order, WorkPool::many / 4);
  if (!is_in_observer() && !scheduler->must_help()) callbacks.wait();
  if (const std::exception_ptr exception = callbacks.take_failure()) std::rethrow_exception(exception);
  if (core::FailurePtr unseen = unseen_failures.take()) throw Error(std::move(unseen));
}

std::string DeviceState::describe() const { return text("device ", number, ", ", name()); }
std::string DeviceState::name() const { return driver::full_name(driver->info()); }

void retain(DeviceState* state) noexcept { state->refs.fetch_add(1, std::memory_order_relaxed); }
void release(DeviceState* state) noexcept {
  if (state->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (state->is_own_process()) delete state;  // else it would wait for threads that do not exist
}

void callback_failed(unsigned device_number, std::exception_ptr exception) noexcept {
  LiveDevices& live = LiveDevices::instance();
  const std::scoped_lock lock(live.mutex);
  const auto found = live.devices.find(device_number);
  if (found != live.devices.end()) found->second->callbacks.failed(std::move(exception));
}

namespace {

void expect_dtype(DType dtype) {
  if (dtype <= DType::u8) return;
  // Cast from a number.
  throw Error(Errc::invalid_argument, text("there is no element type with the number ", static_cast<unsigned>(dtype)));
}

}  // namespace

Ref<View> allocate(DeviceState& device, const Shape& shape, DType dtype, bool zero) {
  device.expect_own_process();
  expect_dtype(dtype);
  const MemoryPool::Block block = device.memory.allocate(dtype, shape);
  std::unique_ptr<Storage> storage;
  Ref<View> view;
  try {
    storage = std::make_unique<Storage>(device, block);
    view = Ref<View>::adopt(new View(*storage, shape, dtype));
  } catch (const std::bad_alloc&) {
    device.memory.free(block);
    core::throw_out_of_memory();
  }
  [[maybe_unused]] const Storage* of_view = storage.release();
  // If the device fails here, the view returns the block.
  if (zero && !block.is_zero) device.driver->fill_zero(block.address, shape.size_bytes(dtype));
  return view;
}

Ref<View> wrap(DeviceState& device, const Shape& shape, DType dtype, std::byte* memory,
               std::function<void()>& release) {
  device.expect_own_process();
  expect_dtype(dtype);
  constexpr std::uintptr_t alignment = 64;  // as of the driver's own blocks: stores past the caches need it
  if (reinterpret_cast<std::uintptr_t>(memory) % alignment != 0) return {};
  std::byte* const address = device.driver->address_of_host(memory);
  if (!address) return {};
  const std::size_t bytes = shape.size_bytes(dtype);
  try {
    auto storage = std::make_unique<Storage>(device, MemoryPool::Block{address, bytes, bytes, false});
    auto function = std::make_unique<std::function<void()>>();
    Ref<View> view = Ref<View>::adopt(new View(*storage, shape, dtype));
    function->swap(release);
    storage.release()->release = std::move(function);
    return view;
  } catch (const std::bad_alloc&) {
    core::throw_out_of_memory();
  }
}

std::shared_ptr<void> Attachments::get(Key key) const {
  const std::scoped_lock lock(lock_);
  const auto found = objects_.find(key);
  return found == objects_.end() ? nullptr : found->second;
}

std::shared_ptr<void> Attachments::put(Key key, std::shared_ptr<void> made) {
  const std::scoped_lock lock(lock_);
  if (handles_ == 0) return nullptr;
  std::shared_ptr<void>& kept = objects_[key];
  if (!kept) kept = std::move(made);
  return kept;
}

void Attachments::drop() {
  std::map<Key, std::shared_ptr<void>> dropped;  // destroyed after the lock is released
  const std::scoped_lock lock(lock_);
  dropped.swap(objects_);
}

}  // namespace tessera::detail::engine
