#include "engine/cross_device.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"
#include "engine/memory/storage.hpp"
#include "engine/observe/trace_record.hpp"
#include "engine/submission.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <span>

namespace tessera::detail::engine {

namespace {

constexpr const char* label = "copy";

// Places a node of a loan, after the borrower too if there is one.
Work& take_loan(Storage& storage, bool writes, Work* borrower) {
  DeviceState& device = *storage.device;
  Work& node = device.take_host_node(label);
  node.kind = Work::Kind::loan;
  if (writes) {
    node.outputs.push_back(&storage);
  } else {
    node.inputs.push_back(&storage);
  }
  std::vector<Ordered*>& earlier = device.earlier;
  earlier.clear();
  find_earlier(node, earlier);
  if (borrower) earlier.push_back(borrower);
  wait_for_all(node, earlier);
  return node;
}

}  // namespace

void OrderLocks::lock() noexcept {
  if (!all_) {
    one_->order.lock();
  } else {
    for (DeviceState* device : *all_) device->order.lock();
  }
  is_locked_ = true;
}

void OrderLocks::unlock() noexcept {
  is_locked_ = false;
  if (!all_) return one_->order.unlock();
  for (DeviceState* device : *all_) device->order.unlock();
}

void sort_for_locks(std::vector<DeviceState*>& devices) {
  std::ranges::sort(devices, std::less<>());
  const auto repeated = std::ranges::unique(devices);
  devices.erase(repeated.begin(), repeated.end());
}

Work& lend(Storage& storage, bool writes) { return take_loan(storage, writes, nullptr); }

Loan take_back(Work& out, Work& borrower) {
  const bool writes = !out.outputs.empty();
  Work& back = take_loan(writes ? *out.outputs[0] : *out.inputs[0], writes, &borrower);
  if (writes) {
    back.heals = true;
    back.host = [borrower = Ref<Work>(&borrower)] {
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
  if (from.poison) throw Error(poisoned("what it copies", from));
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
  OrderLocks locks(device, all);
  locks.lock();
  for (const Storage* storage : {&from, &to}) {
    if (!storage->is_freed.load(std::memory_order_relaxed)) continue;
    throw Error(unusable(core::text("[", label, "] ", storage == &from ? "the source" : "the target"), *storage));
  }
  Work& out = lend(from, false);
  Work& node = device.take_host_node(label);
  device.next_id();
  device.number_command(node);
  node.heals = true;
  node.outputs.push_back(&to);
  node.host = [&from, &to, bytes] { transfer(from, to, bytes); };
  node.launch.bytes = static_cast<std::int64_t>(bytes);
  node.cost = estimated_cost(node.launch.bytes);
  node.trace = std::move(trace);
  std::vector<Ordered*>& earlier = device.earlier;
  earlier.clear();
  find_earlier(node, earlier);
  earlier.push_back(&out);
  wait_for_all(node, earlier);
  const Loan loan = take_back(out, node);
  locks.unlock();

  Ref<Work> command(&node);
  arm(loan);
  if (node.arm()) device.scheduler->push(node);
  return command;
}

}  // namespace tessera::detail::engine
