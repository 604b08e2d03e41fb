// The host's use of buffers: maps, and the release of memory.
#include <tessera/error.hpp>

#include "core/text.hpp"
#include "engine/execution.hpp"
#include "engine/placement.hpp"
#include "engine/self_wait.hpp"
#include "engine/submission.hpp"

#include <mutex>
#include <new>
#include <thread>

namespace tessera::detail::engine {

Ref<Work> map(Storage& storage, bool writes, const void* holder) {
  DeviceState& device = *storage.device;
  device.expect_own_process();
  // Two items: the first finishes when the memory is free for the host; the second, which all later work waits for, is
  // held back until the host releases the memory.
  Unarmed unarmed;
  std::unique_lock lock(device.order);
  if (storage.is_freed.load(std::memory_order_relaxed)) throw Error(unusable("[map] the buffer", storage));
  if (core::FailurePtr own = self_wait(storage, writes, "map")) throw Error(std::move(own));
  Taken taken_begin = take_host_work(device, "map");
  Work& begin = *taken_begin;
  begin.inputs.push_back(&storage);
  if (writes) begin.outputs.push_back(&storage);
  Taken taken_end = take_host_work(device, "unmap");
  Work& end = *taken_end;
  place(begin);
  begin.heals = false;
  unarmed.add(taken_begin.keep());
  if (writes) {
    end.outputs.push_back(&storage);
  } else {
    end.inputs.push_back(&storage);
  }
  end.holder.store(holder, std::memory_order_relaxed);
  place(end);
  taken_end.keep();
  unarmed.dismiss();
  lock.unlock();

  const Ref<Work> held_begin(&begin);
  Ref<Work> held_end(&end);
  arm(device, begin, device.scheduler->may_use_caller());
  try {
    wait(begin, Clock::time_point::max());
    throw_if_failed(begin);
    hold_view(end);
  } catch (...) {
    unmap(end);
    throw;
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
  try {
    Taken taken = take_host_work(device, "free");
    taken->kind = Work::Kind::release;
    taken->is_immediate = true;
    taken->outputs.push_back(&storage);
    place(*taken);
    Work& work = taken.keep();
    lock.unlock();
    if (work.arm()) execute(work);
  } catch (const std::bad_alloc&) {
    // Without memory for an item, this thread waits until nothing uses the buffer.
    while (!storage.hazards.can_write_now()) {
      lock.unlock();
      if (!device.scheduler->run_one()) std::this_thread::yield();
      lock.lock();
    }
    lock.unlock();
    release_memory(storage);
  }
}

}  // namespace tessera::detail::engine
