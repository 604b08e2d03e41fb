#pragma once

#include <tessera/detail/handle.hpp>
#include <tessera/dtype.hpp>
#include <tessera/shape.hpp>

#include "core/spin_lock.hpp"
#include "driver/driver.hpp"
#include "engine/command_table.hpp"
#include "engine/device_queue.hpp"
#include "engine/memory/memory_pool.hpp"
#include "engine/memory/storage.hpp"
#include "engine/observe/callbacks.hpp"
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
#include <unordered_map>
#include <vector>

namespace tessera::detail::engine {

// How often fork() came between the first process and this one: a device's threads are only where it was opened.
extern std::atomic<unsigned> fork_count;

// What the layers above keep with a device, each under a key of its own. It may keep the device in turn, so it is
// dropped with the last Device handle. Any thread.
class Attachments {
 public:
  using Key = const void*;  // the address of something of the layer's own

  explicit Attachments(const std::atomic<std::uint32_t>& handles) : handles_(handles) {}
  // Null if nothing is kept under the key.
  std::shared_ptr<void> get(Key key) const;
  // Keeps `made`, unless something is kept already, and returns what is kept; null if the device has no handle any
  // more.
  std::shared_ptr<void> put(Key key, std::shared_ptr<void> made);
  // The last handle has gone.
  void drop();

 private:
  const std::atomic<std::uint32_t>& handles_;
  mutable core::SpinLock lock_;
  std::map<Key, std::shared_ptr<void>> kept_;
};

// One device with everything that belongs to it. Lives as long as a handle, a buffer or a pending command of it.
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
      throw_other_process();
  }
  [[noreturn]] void throw_other_process() const;

  // A command by its number: see CommandTable::find. remember() keeps how one ended.
  Ref<Work> find(CommandId id, CommandTable::Ended* ended);
  void remember(CommandId id, Status status, const core::FailurePtr& failure);

  // Blocks until every command submitted before has finished: see Device::synchronize.
  void synchronize();
  // Retires the cancelled works whose predecessors have finished.
  void retire_cancelled();

  const std::unique_ptr<driver::Driver> driver;
  const std::shared_ptr<Scheduler> scheduler;
  const std::unique_ptr<DeviceQueue> queue;  // null: the scheduler's threads do the work
  plan::CallCache calls;
  MemoryPool memory;
  std::atomic<std::uint32_t> refs{1};
  std::atomic<std::uint32_t> handles{0};      // of these, the user's Device objects
  const unsigned number;                      // tells devices apart in traces
  const unsigned process = fork_count;        // that opened it
  std::atomic<std::uint32_t> early_works{0};  // settled, but still in the order
  Callbacks callbacks;
  Attachments attachments{handles};

  // The order lock: one submission at a time finds its position. Guards the hazards of all buffers, the streams' last
  // works, the pool of works and the table of commands. Held for some tens of nanoseconds.
  alignas(64) core::SpinLock order;
  WorkPool& works;
  CommandTable commands;
  std::vector<Ordered*> earlier;  // scratch for placing
};

// The devices there are, by number: for handles of commands, which do not keep their device; and for fork(), which must
// not come while somebody holds an order lock: nobody would release it in the child.
struct LiveDevices {
  static LiveDevices& instance();
  std::mutex mutex;
  std::unordered_map<unsigned, DeviceState*> devices;

  // Around fork(); the mutex is held in between.
  void lock_orders();
  void unlock_orders();
};

// New memory with a shape and a type; `zero`: filled with zeros.
Ref<View> allocate(DeviceState& device, const Shape& shape, DType dtype, bool zero);

// An exception left a callback on a command of this device.
void callback_failed(unsigned device_number, std::exception_ptr exception) noexcept;

}  // namespace tessera::detail::engine
