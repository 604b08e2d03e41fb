#pragma once

#include <tessera/detail/handle.hpp>
#include <tessera/dtype.hpp>
#include <tessera/shape.hpp>

#include "core/spin_lock.hpp"
#include "driver/driver.hpp"
#include "engine/command_table.hpp"
#include "engine/compilation.hpp"
#include "engine/device_queue.hpp"
#include "engine/memory/memory_pool.hpp"
#include "engine/memory/storage.hpp"
#include "engine/observe/callbacks.hpp"
#include "engine/observe/unseen_failures.hpp"
#include "engine/schedule/scheduler.hpp"
#include "engine/work.hpp"
#include "plan/call_cache.hpp"

#include <atomic>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tessera::detail::engine {

// Objects that the layers above attach to a device, each under its own key. They may keep the device alive in turn, so
// they are dropped with the last Device handle. Any thread.
class Attachments {
 public:
  using Key = const void*;  // the address of a static of that layer

  explicit Attachments(const std::atomic<std::uint32_t>& handles) : handles_(handles) {}
  // Null if there is nothing under the key.
  std::shared_ptr<void> get(Key key) const;
  // Stores `made`, unless there is something under the key already, and returns what is stored; null if the device has
  // no handle any more.
  std::shared_ptr<void> put(Key key, std::shared_ptr<void> made);
  // Called when the last handle is gone.
  void drop();

 private:
  const std::atomic<std::uint32_t>& handles_;
  mutable core::SpinLock lock_;
  std::map<Key, std::shared_ptr<void>> objects_;
};

// Errc::unsupported: `what` belongs to the process that opened its device.
[[noreturn]] void throw_other_process(std::string_view what);

// One device with everything that belongs to it. Lives as long as any of its handles, buffers or pending commands.
struct DeviceState {
  DeviceState(std::unique_ptr<driver::Driver> with_driver, std::shared_ptr<Scheduler> with_scheduler);
  ~DeviceState();
  DeviceState(const DeviceState&) = delete;
  DeviceState& operator=(const DeviceState&) = delete;

  std::string describe() const;  // "device 2, simulated AMD EPYC"
  std::string name() const;      // "llvmpipe (vulkan)"

  bool is_own_process() const noexcept { return process == fork_count.load(std::memory_order_relaxed); }
  // Errc::unsupported in a child of the process that opened the device.
  void expect_own_process() const {
    if (!is_own_process()) [[unlikely]]
      throw_other_process(describe());
  }

  // See CommandTable::find and remember; these take the order lock.
  Ref<Work> find(CommandId id, CommandTable::Ended* ended);
  void remember(CommandId id, Status status, const core::FailurePtr& failure) noexcept;

  // Blocks until every command submitted before has finished: see Device::synchronize.
  void synchronize();
  // Retires the cancelled items whose predecessors have finished.
  void retire_cancelled();

  const std::unique_ptr<driver::Driver> driver;
  const std::shared_ptr<Scheduler> scheduler;
  const std::unique_ptr<DeviceQueue> queue;  // null: the scheduler's threads run the launches
  plan::CallCache calls;
  MemoryPool memory;
  std::atomic<std::uint32_t> refs{1};
  std::atomic<std::uint32_t> handles{0};      // of these, the user's Device objects
  const unsigned number;                      // tells devices apart in traces
  const unsigned process = fork_count;        // the one that opened it
  std::atomic<std::uint32_t> early_works{0};  // settled, but still in the order
  Callbacks callbacks;
  UnseenFailures unseen_failures;
  Compilations compilations;
  Attachments attachments{handles};

  // The order lock: one submission at a time gets its position. Guards the hazards of all buffers, the streams' last
  // items, the pool of work items and the table of commands. Held for some tens of nanoseconds.
  alignas(64) core::SpinLock order;
  WorkPool& works;
  CommandTable commands;
  std::vector<Ordered*> earlier;  // scratch space for placing
};

// All devices by number: for handles of commands, which do not keep their device alive; and for fork(), which must not
// happen while a thread holds an order lock, which no thread would release in the child.
struct LiveDevices {
  static LiveDevices& instance();
  std::mutex mutex;
  std::unordered_map<unsigned, DeviceState*> devices;

  // Called before and after fork(); the mutex is held in between.
  void lock_orders();
  void unlock_orders();
};

// New memory with a shape and a type; `zero`: filled with zeros.
Ref<View> allocate(DeviceState& device, const Shape& shape, DType dtype, bool zero);
// A view of the host's own memory, which `release` gives back; null if the device cannot use it in place.
Ref<View> wrap(DeviceState& device, const Shape& shape, DType dtype, std::byte* memory, std::function<void()>& release);

// An exception left a callback on a command of this device.
void callback_failed(unsigned device_number, std::exception_ptr exception) noexcept;

}  // namespace tessera::detail::engine
