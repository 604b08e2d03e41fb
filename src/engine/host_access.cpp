// The host's use of buffers: maps, and the release of memory.
#include <tessera/error.hpp>

#include "core/text.hpp"
#include "engine/execution.hpp"
#include "engine/own_call.hpp"
#include "engine/placement.hpp"
#include "engine/submission.hpp"

#include <mutex>

namespace tessera::detail::engine {

Ref<Work> map(Storage& storage, bool writes) {
  DeviceState& device = *storage.device;
  device.expect_own_process();
  // Two items: the first finishes when the memory is free for the host; the second, which all later work waits for, is
  // held back until the host releases the memory.
  std::unique_lock lock(device.order);
  if (storage.is_freed.load(std::memory_order_relaxed)) throw Error(unusable("[map] the buffer", storage));
  if (core::FailurePtr own = wait_for_own_call(storage, writes, "map")) throw Error(std::move(own));
  Work& begin = take_host_work(device, "map");
  begin.inputs.push_back(&storage);
  if (writes) begin.outputs.push_back(&storage);
  place(begin);
  Work& end = take_host_work(device, "unmap");
  if (writes) {
    end.outputs.push_back(&storage);
  } else {
    end.inputs.push_back(&storage);
  }
  place(end);
  lock.unlock();

  const Ref<Work> held_begin(&begin);
  Ref<Work> held_end(&end);
  arm(device, begin, device.scheduler->may_use_caller());
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

void release_in_order(Storage& storage) noexcept {
  DeviceState& device = *storage.device;
  if (!device.is_own_process()) return;  // in a forked child the memory is not the device's any more
  std::unique_lock lock(device.order);
  if (storage.hazards.can_write_now()) {
    lock.unlock();
    release_memory(storage);
    return;
  }
  Work& work = take_host_work(device, "free");
  work.kind = Work::Kind::release;
  work.is_immediate = true;
  work.outputs.push_back(&storage);
  place(work);
  lock.unlock();
  if (work.arm()) execute(work);
}

}  // namespace tessera::detail::engine
