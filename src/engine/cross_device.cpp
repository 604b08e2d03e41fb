#include "engine/cross_device.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"
#include "engine/execution.hpp"
#include "engine/observe/trace_record.hpp"
#include "engine/placement.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <span>

namespace tessera::detail::engine {

namespace {

constexpr const char* label = "copy";

// Places an item of a loan, after the borrower too if there is one.
Work& place_loan(Storage& storage, bool writes, Work* borrower) {
  Taken taken = take_host_work(*storage.device, label);
  Work& work = *taken;
  work.is_immediate = true;
  if (writes) {
    work.outputs.push_back(&storage);
  } else {
    work.inputs.push_back(&storage);
  }
  Ordered* after = borrower;
  place(work, std::span(&after, borrower ? 1 : 0));
  return taken.keep();
}

}  // namespace

void OrderLocks::lock_all() noexcept {
  for (DeviceState* device : *all_) device->order.lock();
}

void OrderLocks::unlock_all() noexcept {
  for (DeviceState* device : *all_) device->order.unlock();
}

void sort_for_locks(std::vector<DeviceState*>& devices) {
  std::ranges::sort(devices, std::less<>());
  const auto repeated = std::ranges::unique(devices);
  devices.erase(repeated.begin(), repeated.end());
}

Work& lend(Storage& storage, bool writes) { return place_loan(storage, writes, nullptr); }

Loan take_back(Work& out, Work& borrower) {
  const bool writes = !out.outputs.empty();
  Work& back = place_loan(writes ? *out.outputs[0] : *out.inputs[0], writes, &borrower);
  if (writes) {
    back.heals = true;
    back.host = [borrower = Ref<Work>(&borrower)] {  // small enough to need no memory
      if (borrower->failure) throw Error(borrower->failure);
    };
  }
  return {&out, &back};
}

void arm(const Loan& loan) noexcept {
  if (loan.out->arm()) execute(*loan.out);
  if (loan.back->arm()) execute(*loan.back);
}

void transfer(const Storage& from, const Storage& to, std::size_t bytes) {
  if (from.poison) throw Error(poisoned("the source of the copy", from));
  if (bytes == 0) return;
  driver::Driver &source = *from.device->driver, &target = *to.device->driver;
  if (std::byte* address = source.host_address(from.block.address)) {
    return target.upload(to.block.address, {address, bytes});
  }
  if (std::byte* address = target.host_address(to.block.address)) {
    return source.download({address, bytes}, from.block.address);
  }
  const auto staging = std::make_unique_for_overwrite<std::byte[]>(bytes);
  const std::span<std::byte> all(staging.get(), bytes);
  source.download(all, from.block.address);
  target.upload(to.block.address, all);
}

Ref<Work> copy_between(Storage& from, Storage& to, std::size_t bytes) {
  DeviceState& device = *to.device;
  device.expect_own_process();
  from.device->expect_own_process();
  std::vector<DeviceState*> all = {&device, from.device.get()};
  sort_for_locks(all);
  std::unique_ptr<TraceRecord> trace = begin_trace_record();
  Unarmed unarmed;
  OrderLocks locks(device, all);
  locks.lock();
  for (const Storage* storage : {&from, &to}) {
    if (!storage->is_freed.load(std::memory_order_relaxed)) continue;
    throw Error(unusable(core::text("[", label, "] ", storage == &from ? "the source" : "the target"), *storage));
  }
  Work& out = lend(from, false);
  unarmed.add(out);
  Taken taken = take_host_work(device, label);
  Work& work = *taken;
  device.commands.next();
  device.commands.add(work);
  work.heals = true;
  work.outputs.push_back(&to);
  work.host = [&from, &to, bytes] { transfer(from, to, bytes); };
  work.launch.bytes = static_cast<std::int64_t>(bytes);
  work.cost = estimated_cost(work.launch.bytes);
  work.trace = std::move(trace);
  Ordered* after = &out;
  place(work, std::span(&after, 1));
  unarmed.add(taken.keep());
  const Loan loan = take_back(out, work);
  unarmed.dismiss();
  locks.unlock();

  Ref<Work> command(&work);
  arm(loan);
  arm(device, work, false);
  return command;
}

}  // namespace tessera::detail::engine
