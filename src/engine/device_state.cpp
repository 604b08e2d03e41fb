#include "engine/device_state.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"

#include <algorithm>
#include <functional>
#include <mutex>
#include <pthread.h>
#include <vector>

namespace tessera::detail::engine {

using core::text;

namespace {

unsigned next_device_number() {
  static std::atomic<unsigned> last{0};
  return ++last;
}

// The rest is for the program itself and for everybody else on the machine.
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
      nodes(WorkPool::acquire()) {
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
  WorkPool::retire(nodes);
}

void DeviceState::throw_other_process() const {
  throw Error(Errc::unsupported,
              text(describe(), ", belongs to the process that opened it: a child made by fork() cannot use it"));
}

void DeviceState::drop_kept() {
  decltype(commands) dropped;  // they go after the locks
  decltype(attachment) detached;
  const std::scoped_lock lock(commands_mutex);
  dropped.swap(commands);
  const std::scoped_lock attachment_guard(attachment_lock);
  detached.swap(attachment);
}

std::string DeviceState::describe() const { return text("device ", number, ", ", name()); }
std::string DeviceState::name() const { return driver::full_name(driver->info()); }

void retain(DeviceState* state) noexcept { state->refs.fetch_add(1, std::memory_order_relaxed); }
void release(DeviceState* state) noexcept {
  if (state->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (state->is_own_process()) delete state;  // else it would wait for threads that are not there
}

Buffer allocate(DeviceState& device, const Shape& shape, DType dtype, bool zero) {
  device.expect_own_process();
  if (dtype > DType::u8) {  // a number that the caller cast
    throw Error(Errc::invalid_argument,
                text("there is no element type with the number ", static_cast<unsigned>(dtype)));
  }
  const auto block = device.memory.allocate(dtype, shape);
  auto* storage = new Storage(device, block);
  Buffer buffer = Access::make<Buffer>(Ref<View>::adopt(new View(*storage, shape, dtype)));
  // If the device fails here, the block goes back with the buffer.
  if (zero && !block.is_zero) device.driver->fill_zero(block.address, shape.size_bytes(dtype));
  return buffer;
}

}  // namespace tessera::detail::engine
