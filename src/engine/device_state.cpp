#include "engine/device_state.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"
#include "engine/execution.hpp"
#include "engine/own_call.hpp"

#include <algorithm>
#include <exception>
#include <functional>
#include <mutex>
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
std::size_t default_memory_limit(const driver::Driver& driver) { return driver.info().memory / 8 * 7; }

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

void DeviceState::throw_other_process() const {
  throw Error(Errc::unsupported,
              text(describe(), ", belongs to the process that opened it: a child made by fork() cannot use it"));
}

Ref<Work> DeviceState::find(CommandId id, CommandTable::Ended* ended) {
  const std::scoped_lock lock(order);
  return commands.find(id, name(), ended);
}

void DeviceState::remember(CommandId id, Status status, const core::FailurePtr& failure) {
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
  {
    const std::scoped_lock lock(order);
    pending = works.pending_commands();
  }
  for (const Ref<Work>& work : pending) wait(*work, Clock::time_point::max());
  // A callback cannot wait for what its own thread has yet to do, and a thread that runs callbacks must not sleep until
  // they have run.
  if (!is_in_observer()) retire_cancelled();
  if (!is_in_observer() && !scheduler->must_help()) callbacks.wait();
  if (const std::exception_ptr exception = callbacks.take_failure()) std::rethrow_exception(exception);
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

Ref<View> allocate(DeviceState& device, const Shape& shape, DType dtype, bool zero) {
  device.expect_own_process();
  if (dtype > DType::u8) {  // cast from a number
    throw Error(Errc::invalid_argument,
                text("there is no element type with the number ", static_cast<unsigned>(dtype)));
  }
  const MemoryPool::Block block = device.memory.allocate(dtype, shape);
  Ref<View> view = Ref<View>::adopt(new View(*new Storage(device, block), shape, dtype));
  // If the device fails here, the view returns the block.
  if (zero && !block.is_zero) device.driver->fill_zero(block.address, shape.size_bytes(dtype));
  return view;
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
